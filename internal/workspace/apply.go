package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// ApplyOptions say how a patch comes into the user's checkout.
type ApplyOptions struct {
	Repo     *Repo        // just discovered: its head is the one that counts
	Patch    []byte       // not trusted: it is checked as [CheckPatch] does
	Manifest []FileRecord // of the patch, where there is one: tells "already applied" for sure
	Objects  []string     // further object folders for a three-way merge, such as [Workspace.Objects]
	Paths    []string     // globs; only files of the patch they cover are applied. Empty: all
	Dir      string       // a folder of the state directory for the receipt and what undo needs: absolute, empty or not there yet

	Check    bool   // look whether it applies, change nothing
	ThreeWay bool   // merge where the patch does not apply; conflicts get markers and are named in the receipt
	Index    bool   // put the change into the user's index too
	Commit   string // a message: commit it on the current branch (implies Index)
	Branch   string // a new branch at Base plus the patch; checkout and index stay as they are
	Base     string // for Branch: a revision; empty is the head
}

// Receipt tells what an apply did. It stands as receipt.json in its folder, with the earlier
// bytes of every file beside it.
type Receipt struct {
	Version   int           `json:"version"`
	Root      string        `json:"root"`
	Dir       string        `json:"dir"`
	Patch     string        `json:"patch"` // SHA-256
	State     string        `json:"state"` // checked, applying, applied, already, undone
	At        contract.Time `json:"at"`
	Files     []AppliedFile `json:"files"`
	Conflicts []string      `json:"conflicts,omitempty"` // files with conflict markers, three-way only
	CodeLater []string      `json:"codeLater,omitempty"` // files that other programs run later
	Index     bool          `json:"index,omitempty"`
	Commit    string        `json:"commit,omitempty"`
	Branch    string        `json:"branch,omitempty"`
	Skipped   []string      `json:"skipped,omitempty"` // files that Paths left out
}

// AppliedFile is one file of the checkout before and after.
type AppliedFile struct {
	Path   string     `json:"path"`
	Before *HostState `json:"before,omitempty"`
	After  *HostState `json:"after,omitempty"`
}

// HostState is a file as it lies in the checkout.
type HostState struct {
	OID  string `json:"oid"`  // of its bytes as a blob, without conversion
	Mode uint32 `json:"mode"` // git's: 0100644, 0100755, 0120000
	Size int64  `json:"size"`
}

// States of a receipt.
const (
	ReceiptChecked  = "checked"
	ReceiptApplying = "applying"
	ReceiptApplied  = "applied"
	ReceiptAlready  = "already" // the checkout had it all before: nothing was changed
	ReceiptUndone   = "undone"
)

// Apply brings a patch into the user's checkout, all of it or nothing. A file that does not take
// it is KindConflict naming it, and nothing was changed; edits of the user elsewhere, in the same
// file too, stay. A patch that breaks a rule is KindInvalid with its refusals. Applying again says
// already. No program of the repository's configuration is run: no hook, no filter.
func Apply(ctx context.Context, o ApplyOptions) (Receipt, error) {
	files, refusals := CheckPatch(o.Patch, nil)
	if len(refusals) > 0 {
		return Receipt{}, contract.Refuse(refusals)
	}
	if !filepath.IsAbs(o.Dir) {
		return Receipt{}, contract.Errorf(contract.KindInvalid, "receipt folder %q is not absolute", o.Dir)
	}
	if err := ownFolder(o.Dir); err != nil {
		return Receipt{}, err
	}
	a := &applying{o: o, store: store{layout: layout{o.Dir}, format: o.Repo.format}}
	a.choose(files)
	r, err := a.run(ctx)
	if cerr := a.cleanUp(err != nil || r.State != ReceiptApplied); err == nil {
		err = cerr
	}
	return r, err
}

// applying is one apply under way. Its ledger is a throw-away git directory in Dir.
type applying struct {
	store
	o       ApplyOptions
	files   []PatchFile
	patch   []byte // the chosen part
	paths   []string
	receipt Receipt
}

func (a *applying) stage() string  { return filepath.Join(a.dir, "stage") }  // where git applies
func (a *applying) before() string { return filepath.Join(a.dir, "before") } // what undo puts back

// choose keeps the files that Paths covers.
func (a *applying) choose(files []PatchFile) {
	seen := map[string]bool{}
	for _, f := range files {
		paths := f.Paths()
		if len(a.o.Paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool { return matchesAny(a.o.Paths, p) }) {
			a.receipt.Skipped = append(a.receipt.Skipped, paths...)
			continue
		}
		a.files = append(a.files, f)
		a.patch = append(a.patch, f.Text...)
		for _, p := range paths {
			if !seen[p] {
				seen[p] = true
				a.paths = append(a.paths, p)
			}
		}
	}
	slices.Sort(a.paths)
	sum := sha256.Sum256(a.o.Patch)
	a.receipt.Version, a.receipt.Root, a.receipt.Dir, a.receipt.Patch = 1, a.o.Repo.root, a.dir, hex.EncodeToString(sum[:])
	for _, p := range a.paths {
		if RunsLater(p) {
			a.receipt.CodeLater = append(a.receipt.CodeLater, p)
		}
	}
}

func (a *applying) run(ctx context.Context) (Receipt, error) {
	if len(a.files) == 0 {
		a.receipt.State = ReceiptAlready
		return a.receipt, nil
	}
	if err := makeLedger(a.ledger(), a.o.Repo); err != nil {
		return a.receipt, err
	}
	more := alternates(append(a.o.Repo.objectDirs()[:1], a.o.Objects...))
	if err := writeFiles(a.ledger(), map[string]string{"objects/info/alternates": more}); err != nil {
		return a.receipt, err
	}
	if a.o.Branch != "" {
		return a.onBranch(ctx)
	}
	if err := a.takeUser(); err != nil {
		return a.receipt, err
	}
	already, err := a.applyStaged(ctx)
	if err != nil {
		return a.receipt, err
	}
	if already {
		a.receipt.State = ReceiptAlready
		return a.receipt, nil
	}
	if err := a.readStaged(); err != nil {
		return a.receipt, err
	}
	return a.finish(ctx)
}

// finish writes what was staged, or only says so.
func (a *applying) finish(ctx context.Context) (Receipt, error) {
	plan, err := a.planIndex(ctx)
	if err != nil {
		return a.receipt, err
	}
	if a.o.Check {
		a.receipt.State = ReceiptChecked
		return a.receipt, nil
	}
	a.receipt.At, a.receipt.State = now(), ReceiptApplying
	if err := a.receipt.save(); err != nil {
		return a.receipt, err
	}
	wb := &writeBack{root: a.o.Repo.root, from: a.stage(), back: a.before(), format: a.format, files: a.receipt.Files}
	if err := wb.all(ctx); err != nil {
		return a.receipt, err
	}
	if err := plan.carryOut(ctx, &a.receipt); err != nil {
		return a.receipt, errors.Join(err, wb.undo())
	}
	a.receipt.State = ReceiptApplied
	return a.receipt, a.receipt.save()
}

// takeUser copies the touched files of the checkout, and the attribute files that rule them.
func (a *applying) takeUser() error {
	src, err := openSource(a.o.Repo.root)
	if err != nil {
		return err
	}
	defer src.close()
	for _, dir := range []string{a.stage(), a.before()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make staging folder: %w", err)
		}
	}
	for _, p := range a.paths {
		f := AppliedFile{Path: p}
		c, err := copyFrom(src, p, a.before(), a.format)
		switch {
		case err == nil:
			f.Before = &HostState{OID: c.oid, Mode: c.mode, Size: c.size}
			if err := copyInto(filepath.Join(a.before(), filepath.FromSlash(p)), filepath.Join(a.stage(), filepath.FromSlash(p))); err != nil {
				return fmt.Errorf("stage %q: %w", p, err)
			}
		case errors.Is(err, os.ErrNotExist):
		case isGone(err):
			if why := src.inTheWay(p, a.paths); why != "" {
				return conflict([]string{p}, why)
			}
		default:
			return fmt.Errorf("read %q: %w", p, err)
		}
		a.receipt.Files = append(a.receipt.Files, f)
	}
	for _, p := range attributeFiles(a.paths) {
		if _, err := copyFrom(src, p, a.stage(), a.format); err != nil && !isGone(err) {
			return fmt.Errorf("read %q: %w", p, err)
		}
	}
	return nil
}

// attributeFiles are the .gitattributes that may rule the paths.
func attributeFiles(paths []string) []string {
	set := map[string]bool{".gitattributes": true}
	for _, p := range paths {
		for dir := dirName(p); dir != ""; dir = dirName(dir) {
			set[dir+"/.gitattributes"] = true
		}
	}
	return sortedKeys(set)
}

func copyInto(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return copyPlain(from, to)
}

// conflict is the error of an apply that changed nothing.
func conflict(paths []string, why string) error {
	for i := range paths {
		paths[i] = contract.CleanText(paths[i])
	}
	return contract.Errorf(contract.KindConflict, "the patch does not apply, nothing was changed: %s: %s", strings.Join(paths, ", "), why)
}

// applyStaged lets git apply the patch to the staged copies; already says that they had it.
func (a *applying) applyStaged(ctx context.Context) (already bool, err error) {
	if a.hasAll() {
		return true, nil
	}
	g := git{dir: a.ledger(), tree: a.stage(), index: filepath.Join(a.ledger(), "index")}
	err = a.gitApply(ctx, g, a.patch)
	if err == nil || ctx.Err() != nil {
		return false, err
	}
	if a.gitApply(ctx, g, a.patch, "--reverse", "--check") == nil {
		return true, nil
	}
	if a.o.ThreeWay {
		return false, a.threeWay(ctx, g)
	}
	return false, conflict(a.failing(ctx, g), "the lines to change are not as the run saw them (--3way merges them)")
}

func (a *applying) gitApply(ctx context.Context, g git, patch []byte, args ...string) error {
	g.input = bytes.NewReader(patch)
	_, err := g.run(ctx, append(append([]string{"apply", "--whitespace=nowarn"}, args...), "-")...)
	return err
}

// hasAll reports whether the manifest says that every file is already as the patch leaves it.
func (a *applying) hasAll() bool {
	if len(a.o.Manifest) == 0 {
		return false
	}
	after := map[string]*FileState{}
	for i := range a.o.Manifest {
		after[a.o.Manifest[i].Path] = a.o.Manifest[i].After
	}
	for _, f := range a.receipt.Files {
		want, ok := after[f.Path]
		if !ok || (want == nil) != (f.Before == nil) || want != nil && (want.OID != f.Before.OID || want.Mode != fmt.Sprintf("%o", f.Before.Mode)) {
			return false
		}
	}
	return true
}

// failing names the files that do not take their part of the patch.
func (a *applying) failing(ctx context.Context, g git) []string {
	const most = 200
	var names []string
	for i, f := range a.files {
		if i == most {
			break
		}
		if a.gitApply(ctx, g, f.Text, "--check") != nil {
			names = append(names, f.Paths()[0])
		}
	}
	if len(names) == 0 {
		names = []string{"(files that only fail together)"}
	}
	return names
}

// threeWay merges the patch into the staged copies. Conflicts are left in them, with markers.
func (a *applying) threeWay(ctx context.Context, g git) error {
	var present []string
	for _, f := range a.receipt.Files {
		if f.Before != nil {
			present = append(present, f.Path)
		}
	}
	g.input = strings.NewReader(strings.Join(present, "\x00") + "\x00")
	if len(present) > 0 {
		if _, err := g.run(ctx, "update-index", "--add", "-z", "--stdin"); err != nil {
			return fmt.Errorf("stage the checkout's files: %w", err)
		}
	}
	err := a.gitApply(ctx, g, a.patch, "--3way")
	if err == nil || ctx.Err() != nil {
		return err
	}
	entries, _, rerr := readIndex(g.index, a.format)
	for _, e := range entries {
		if e.stage > 0 && !slices.Contains(a.receipt.Conflicts, e.path) {
			a.receipt.Conflicts = append(a.receipt.Conflicts, e.path)
		}
	}
	if rerr != nil || len(a.receipt.Conflicts) == 0 {
		return conflict(a.failing(ctx, g), "a three-way merge is not possible: the base of the change is not there")
	}
	return nil
}

// readStaged reads what git left in the staging folder. The patch's own text is not believed: a
// path that was not announced, a link that leads out, or anything else than a file is refused.
func (a *applying) readStaged() error {
	after, err := stagedFiles(a.stage(), a.format)
	if err != nil {
		return err
	}
	for i := range a.receipt.Files {
		f := &a.receipt.Files[i]
		if s, ok := after[f.Path]; ok {
			f.After = &HostState{OID: s.oid, Mode: s.mode, Size: s.size}
			delete(after, f.Path)
		}
	}
	for _, p := range attributeFiles(a.paths) {
		delete(after, p)
	}
	if len(after) > 0 {
		return contract.Errorf(contract.KindInvalid, "the patch changes files it does not name: %s", nameSome(sortedKeys(after)))
	}
	a.receipt.Files = slices.DeleteFunc(a.receipt.Files, func(f AppliedFile) bool {
		return f.Before == nil && f.After == nil || f.Before != nil && f.After != nil && *f.Before == *f.After
	})
	return nil
}

// cleanUp removes what is only needed while an apply runs; all of Dir when nothing was applied.
func (a *applying) cleanUp(all bool) error {
	if all {
		return removeTree(a.dir)
	}
	return errors.Join(removeTree(a.ledger()), removeTree(a.stage()))
}
