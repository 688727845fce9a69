package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
)

// store is a ledger as a place to put objects: files become blobs, blobs become trees.
type store struct {
	layout
	format string
}

// tracked finds the entry of a path in sorted entries, nil when there is none.
func trackedEntry(entries []entry, path string) *entry {
	i := sort.Search(len(entries), func(i int) bool { return entries[i].path >= path })
	if i < len(entries) && entries[i].path == path {
		return &entries[i]
	}
	return nil
}

// absorbed is what absorb made of a set of files.
type absorbed struct {
	stage   string   // folder of the host that holds the bytes that were read
	changed []entry  // files that differ from their base, sorted by path
	gone    []string // files of the base that are no more, sorted
	left    []string // files that were left out, each with the reason
}

// close removes the staging folder.
func (a *absorbed) close() { _ = os.RemoveAll(a.stage) } // it lies in the run's folder, which is removed as a whole anyway

// absorb reads files of src once, by descriptor, into a staging folder, and lets git turn the
// copies into blobs of the ledger with the conversions that attributes ask for. Git sees host-made
// copies only, so neither a swapped link nor a planted .git can lead it anywhere.
func (s store) absorb(ctx context.Context, src opener, files []found, gone []string, base []entry) (absorbed, error) {
	var a absorbed
	var err error
	if a.stage, err = os.MkdirTemp(s.dir, "stage-"); err != nil {
		return a, fmt.Errorf("make staging folder: %w", err)
	}
	a.gone = slices.Clone(gone)
	var names []string
	for _, f := range files {
		if ctx.Err() != nil {
			return a, context.Cause(ctx)
		}
		c, err := copyFrom(src, f.path, a.stage, s.format)
		if err != nil {
			if !a.missed(f.path, trackedEntry(base, f.path) != nil, err) {
				return a, fmt.Errorf("read %q: %w", f.path, err)
			}
			continue
		}
		if old := trackedEntry(base, f.path); old != nil && old.oid == c.oid && old.mode == f.mode {
			continue // the same bytes, whatever its stat says
		}
		if c.mode != f.mode && c.mode != modeLink && f.mode != modeLink {
			_ = os.Chmod(filepath.Join(a.stage, filepath.FromSlash(f.path)), permOf(f.mode)) // the scan knows what core.fileMode lets count
		}
		names = append(names, f.path)
	}
	slices.Sort(a.gone)
	if len(names) == 0 {
		return a, nil
	}
	return a, s.hash(ctx, src, &a, names, base)
}

func permOf(mode uint32) os.FileMode {
	if mode == modeExec {
		return 0o755
	}
	return 0o644
}

// missed takes note of a file that could not be read; false when the reason is not the file's.
func (a *absorbed) missed(path string, tracked bool, err error) bool {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, errNotHeld):
		if tracked {
			a.gone = append(a.gone, path)
		}
	case errors.Is(err, errTooBig):
		a.left = append(a.left, fmt.Sprintf("%s (%v)", path, errTooBig))
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		a.left = append(a.left, path+" (permission denied)")
	default:
		return false
	}
	return true
}

// hash lets git hash the staged names, beside the attribute files that rule them.
func (s store) hash(ctx context.Context, src opener, a *absorbed, names []string, base []entry) error {
	index := filepath.Join(s.dir, filepath.Base(a.stage)+".index")
	defer os.Remove(index)
	partial := make([]entry, 0, len(names))
	for _, n := range names {
		if old := trackedEntry(base, n); old != nil {
			partial = append(partial, entry{path: n, mode: old.mode, oid: old.oid})
		}
	}
	for i := range base {
		if baseName(base[i].path) == ".gitattributes" && !slices.Contains(a.gone, base[i].path) {
			_, err := copyFrom(src, base[i].path, a.stage, s.format)
			if err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
				return fmt.Errorf("read %q: %w", base[i].path, err)
			}
		}
	}
	if err := os.WriteFile(index, formatIndex(partial, s.format), 0o600); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	g := git{dir: s.ledger(), tree: a.stage, index: index, input: strings.NewReader(strings.Join(names, "\x00") + "\x00")}
	if _, err := g.run(ctx, "update-index", "--add", "--replace", "-z", "--stdin"); err != nil {
		return fmt.Errorf("hash changed files: %w", err)
	}
	entries, _, err := readIndex(index, s.format)
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	for _, e := range entries {
		if old := trackedEntry(base, e.path); old == nil || old.oid != e.oid || old.mode != e.mode {
			a.changed = append(a.changed, e)
		}
	}
	return nil
}

// emptyBlob reports whether there is nothing to do for an absorbed set.
func (a *absorbed) empty() bool { return len(a.changed) == 0 && len(a.gone) == 0 }

// commit makes a commit on top of parent with the absorbed changes and gives it and its tree. Only
// the folders that changed are touched, so its cost does not grow with the repository.
func (s store) commit(ctx context.Context, parent, ref string, a *absorbed) (commit, tree string, err error) {
	var in bytes.Buffer
	fmt.Fprintf(&in, "commit %s\nmark :1\ncommitter rivumi <rivumi@localhost> 946684800 +0000\ndata 0\nfrom %s\n", ref, parent)
	for _, p := range a.gone {
		fmt.Fprintf(&in, "D %s\n", quotePath(p))
	}
	for _, e := range a.changed {
		fmt.Fprintf(&in, "M %o %s %s\n", e.mode, e.oid, quotePath(e.path))
	}
	in.WriteString("\nget-mark :1\nls :1 \"\"\ndone\n")
	g := git{dir: s.ledger(), input: &in}
	out, err := g.run(ctx, "fast-import", "--quiet", "--done", "--force", "--date-format=raw")
	if err != nil {
		return "", "", fmt.Errorf("make tree: %w", err)
	}
	fields := strings.Fields(string(out)) // commit, 040000 tree OID
	if len(fields) < 4 || !isOID(fields[0], s.format) || !isOID(fields[3], s.format) {
		return "", "", fmt.Errorf("make tree: git answered %q", contract.CleanText(string(out)))
	}
	return fields[0], fields[3], nil
}
