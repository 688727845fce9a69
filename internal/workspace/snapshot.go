package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

const (
	largeFile      = 1 << 20 // bytes from which an added file is flagged as a likely build product
	largeAdditions = 200     // added files from which the folder that holds most of them is flagged
)

// Snapshot is what a run changed, as a patch that was proven to lead from BaseTree to FinalTree.
type Snapshot struct {
	Patch     []byte                // git's binary patch with full object names and without renames; empty for no change
	Files     []contract.FileChange // as people see it, with renames
	BaseSHA   string                // commit
	BaseTree  string                // the base with the user's uncommitted work
	FinalTree string
	Manifest  []FileRecord // one for each changed path, sorted; no renames
	Large     []string     // added files that look like build products
	Left      []string     // changed files that could not be taken, each with the reason
	CodeLater []string     // changed files that other programs run later: see [RunsLater]
	final     string       // commit in the ledger that holds FinalTree
}

// FileRecord is one changed path before and after, in the form git stores it.
type FileRecord struct {
	Path   string     `json:"path"`
	Before *FileState `json:"before,omitempty"` // nil: was not there
	After  *FileState `json:"after,omitempty"`  // nil: is no more
}

// FileState is the content of a path.
type FileState struct {
	Mode   string `json:"mode"` // 100644, 100755, 120000
	OID    string `json:"oid"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// Snapshot makes the patch of the tree against its start, whatever was done to git inside. What is
// running in the tree should have ended; if not, the patch shows each file as it was at one moment
// during the call. The patch is applied to a clean index before it is given out.
func (w *Workspace) Snapshot(ctx context.Context) (Snapshot, error) {
	s := Snapshot{BaseSHA: w.rec.Base, BaseTree: w.rec.Tree, FinalTree: w.rec.Tree, final: w.rec.Start}
	d, err := w.differ(ctx)
	if err != nil {
		return s, err
	}
	src, err := w.view()
	if err != nil {
		return s, err
	}
	defer src.close()
	a, err := w.absorb(ctx, src, d.files, d.gone, w.base)
	defer a.close()
	if err != nil {
		return s, err
	}
	s.Left = a.left
	for _, p := range d.special {
		s.Left = append(s.Left, p+" (not a file that git can hold)")
	}
	if a.empty() {
		return s, nil
	}
	if s.final, s.FinalTree, err = w.commit(ctx, w.rec.Start, "refs/rivumi/final", &a); err != nil {
		return s, err
	}
	if err := w.describe(ctx, &s, &a); err != nil {
		return s, err
	}
	return s, w.prove(ctx, &s, &a)
}

// describe makes patch, file list and manifest from the two trees.
func (w *Workspace) describe(ctx context.Context, s *Snapshot, a *absorbed) error {
	g := git{dir: w.ledger()}
	var err error
	if s.Patch, err = g.run(ctx, append(diffTree(), "-p", "--binary", "--full-index", "--no-renames", s.BaseTree, s.FinalTree)...); err != nil {
		return fmt.Errorf("make patch: %w", err)
	}
	out, err := g.run(ctx, append(diffTree(), "-z", "--raw", "--numstat", "-M", s.BaseTree, s.FinalTree)...)
	if err != nil {
		return fmt.Errorf("list changes: %w", err)
	}
	if s.Files, err = parseRaw(string(out)); err != nil {
		return err
	}
	if err := w.fillManifest(ctx, s, a); err != nil {
		return err
	}
	s.Large = largeOf(s.Manifest)
	for _, r := range s.Manifest {
		if RunsLater(r.Path) {
			s.CodeLater = append(s.CodeLater, r.Path)
		}
	}
	return nil
}

func diffTree() []string {
	return []string{
		"diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-color",
		"--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers", "--unified=3", "--inter-hunk-context=0", "--no-indent-heuristic", "-O/dev/null",
	}
}

// parseRaw reads the output of diff-tree -z --raw --numstat.
func parseRaw(out string) ([]contract.FileChange, error) {
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	var files []contract.FileChange
	i := 0
	for i < len(fields) && strings.HasPrefix(fields[i], ":") {
		head := strings.Fields(fields[i][1:])
		if len(head) != 5 || i+1 >= len(fields) {
			return nil, fmt.Errorf("list changes: git answered %q", contract.CleanText(fields[i]))
		}
		f := contract.FileChange{Path: fields[i+1], Mode: head[1]}
		i += 2
		switch head[4][0] {
		case 'A':
			f.Status = "added"
		case 'D':
			f.Status, f.Mode = "deleted", ""
		case 'R':
			if i >= len(fields) {
				return nil, fmt.Errorf("list changes: a rename without its end")
			}
			f.Status, f.OldPath, f.Path = "renamed", f.Path, fields[i]
			i++
		default:
			f.Status = "modified"
		}
		files = append(files, f)
	}
	return files, parseNumstat(fields[min(i, len(fields)):], files)
}

func parseNumstat(fields []string, files []contract.FileChange) error {
	at := 0
	for i := 0; i < len(fields) && fields[i] != ""; i++ {
		parts := strings.SplitN(fields[i], "\t", 3)
		if len(parts) != 3 || at >= len(files) {
			return fmt.Errorf("count changed lines: git answered %q", contract.CleanText(fields[i]))
		}
		if parts[2] == "" {
			i += 2 // a rename: old and new name follow
		}
		files[at].Additions, files[at].Deletions = lineCount(parts[0]), lineCount(parts[1])
		at++
	}
	return nil
}

func lineCount(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1 // "-": binary
	}
	return n
}

// fillManifest reads both sides of every changed path once and hashes them.
func (w *Workspace) fillManifest(ctx context.Context, s *Snapshot, a *absorbed) error {
	records := map[string]*FileRecord{}
	get := func(p string) *FileRecord {
		if records[p] == nil {
			records[p] = &FileRecord{Path: p}
		}
		return records[p]
	}
	var sides []*FileState
	before := func(p string) {
		if e := trackedEntry(w.base, p); e != nil {
			get(p).Before = &FileState{Mode: strconv.FormatUint(uint64(e.mode), 8), OID: e.oid}
			sides = append(sides, get(p).Before)
		}
	}
	for _, p := range a.gone {
		before(p)
	}
	for _, e := range a.changed {
		before(e.path)
		get(e.path).After = &FileState{Mode: strconv.FormatUint(uint64(e.mode), 8), OID: e.oid}
		sides = append(sides, get(e.path).After)
	}
	if err := w.sumBlobs(ctx, sides); err != nil {
		return err
	}
	for _, p := range sortedKeys(records) {
		s.Manifest = append(s.Manifest, *records[p])
	}
	return nil
}

// sumBlobs fills size and SHA-256 of objects of the ledger.
func (w *Workspace) sumBlobs(ctx context.Context, sides []*FileState) error {
	var in bytes.Buffer
	for _, f := range sides {
		in.WriteString(f.OID + "\n")
	}
	out, err := git{dir: w.ledger(), input: &in}.run(ctx, "cat-file", "--batch")
	if err != nil {
		return fmt.Errorf("read changed files: %w", err)
	}
	for _, f := range sides {
		head, rest, ok := bytes.Cut(out, []byte("\n"))
		words := strings.Fields(string(head))
		if !ok || len(words) != 3 || words[0] != f.OID || words[1] != "blob" {
			return fmt.Errorf("read changed files: git answered %q", contract.CleanText(string(head)))
		}
		n, err := strconv.Atoi(words[2])
		if err != nil || n+1 > len(rest) {
			return fmt.Errorf("read changed files: cut short")
		}
		sum := sha256.Sum256(rest[:n])
		f.SHA256, f.Bytes = hex.EncodeToString(sum[:]), int64(n)
		out = rest[n+1:]
	}
	return nil
}

// largeOf names added files that look like build products.
func largeOf(records []FileRecord) []string {
	var large []string
	added := map[string]int{}
	for _, r := range records {
		if r.Before != nil || r.After == nil {
			continue
		}
		added[dirName(r.Path)]++
		if r.After.Bytes >= largeFile {
			large = append(large, r.Path)
		}
	}
	for _, dir := range sortedKeys(added) {
		if added[dir] >= largeAdditions {
			large = append(large, dir+"/")
		}
	}
	return large
}

// prove applies the patch to an index that holds nothing but the base side of the changed paths
// and compares what comes out with the final tree, entry for entry.
func (w *Workspace) prove(ctx context.Context, s *Snapshot, a *absorbed) error {
	var start []entry
	for _, r := range s.Manifest {
		if e := trackedEntry(w.base, r.Path); e != nil {
			start = append(start, entry{path: e.path, mode: e.mode, oid: e.oid})
		}
	}
	got, err := w.applyCached(ctx, s.Patch, start)
	if err != nil {
		return fmt.Errorf("apply the patch to its own base: %w", err)
	}
	want := slices.SortedFunc(slices.Values(a.changed), func(a, b entry) int { return cmpString(a.path, b.path) })
	if !slices.EqualFunc(got, want, func(a, b entry) bool { return a.path == b.path && a.mode == b.mode && a.oid == b.oid }) {
		return fmt.Errorf("the patch does not lead to the tree it was made from")
	}
	return nil
}

// applyCached applies a patch to an index of these entries and gives the entries after it.
func (s store) applyCached(ctx context.Context, patch []byte, start []entry) ([]entry, error) {
	f, err := os.CreateTemp(s.dir, "stage-*.index")
	if err != nil {
		return nil, err
	}
	index := f.Name()
	defer os.Remove(index)
	if err := f.Close(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(index, formatIndex(start, s.format), 0o600); err != nil {
		return nil, err
	}
	g := git{dir: s.ledger(), index: index, cwd: s.ledger(), input: bytes.NewReader(patch)}
	if _, err := g.run(ctx, "apply", "--cached", "--whitespace=nowarn", "-"); err != nil {
		return nil, err
	}
	entries, _, err := readIndex(index, s.format)
	return entries, err
}

// Changes lists what differs from the start, more cheaply than [Workspace.Snapshot] and without
// renames. The caller decides how often.
func (w *Workspace) Changes(ctx context.Context) ([]contract.FileChange, error) {
	d, err := w.differ(ctx)
	if err != nil {
		return nil, err
	}
	return w.count(ctx, d)
}

// Checkout lays down a clean tree of base plus patch at dir, which must not be there yet or be empty, with the
// ignored files that were copied in beside. It has no .git.
func (w *Workspace) Checkout(ctx context.Context, s Snapshot, dir string) error {
	if err := ownFolder(dir); err != nil {
		return err
	}
	index := filepath.Join(w.dir, "stage-checkout.index")
	_ = os.Remove(index) // of an interrupted call
	defer os.Remove(index)
	if err := w.checkout(ctx, s.FinalTree, dir, index); err != nil {
		return err
	}
	return w.addIncluded(dir)
}

// addIncluded puts copies of the ignored files that came along into a tree or layer.
func (w *Workspace) addIncluded(dir string) error {
	for _, p := range w.rec.Included {
		to := filepath.Join(dir, filepath.FromSlash(p))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return fmt.Errorf("include %q: %w", p, err)
		}
		if err := copyPlain(filepath.Join(w.include(), filepath.FromSlash(p)), to); err != nil && !isGone(err) {
			return fmt.Errorf("include %q: %w", p, err)
		}
	}
	return nil
}
