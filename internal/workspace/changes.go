package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// changeMemo remembers what is expensive between two looks at the tree.
type changeMemo struct {
	ignored map[string]bool   // answers of git's ignore rules
	rules   string            // the changed rule files those answers hold for
	counts  map[string]counts // line counts of changed files
	base    map[string][]byte // bytes of base files that changed, small ones
}

// differences are the files of the tree that may differ from the start.
type differences struct {
	files   []found
	gone    []string
	nested  []string
	special []string
}

// differ looks at the tree. It reads names and stats only; ignore rules are asked from git on
// copies of the rule files.
func (w *Workspace) differ(ctx context.Context) (differences, error) {
	s := &scanner{fileMode: w.rec.FileMode, stamp: w.stamp, entered: true}
	res, err := w.scanTree(ctx, s)
	if err != nil {
		return differences{}, err
	}
	src, err := w.view()
	if err != nil {
		return differences{}, err
	}
	defer src.close()
	w.forgetRules(&res)
	split, err := s.sift(ctx, func(ctx context.Context, paths []string) (map[string]bool, error) {
		return w.askIgnored(ctx, src, &res, paths)
	}, w.layer(), &res)
	if err != nil {
		return differences{}, err
	}
	d := differences{files: append(res.modified, split.fresh...), gone: res.deleted, nested: res.nested, special: res.special}
	d.files = slices.DeleteFunc(d.files, func(f found) bool { return slices.Contains(w.rec.Included, f.path) || w.inSubmodule(f.path) })
	slices.SortFunc(d.files, byPath)
	return d, nil
}

// inSubmodule reports whether a path lies in the place of a submodule: no patch can hold it.
func (w *Workspace) inSubmodule(path string) bool {
	for dir := path; dir != ""; dir = dirName(dir) {
		if e := trackedEntry(w.base, dir); e != nil && e.mode == modeGit {
			return true
		}
	}
	return false
}

// forgetRules drops the remembered answers when a rule file changed.
func (w *Workspace) forgetRules(res *scanResult) {
	var b strings.Builder
	for _, list := range [][]found{res.modified, res.untracked} {
		for _, f := range list {
			if baseName(f.path) == ".gitignore" {
				fmt.Fprintf(&b, "%s %d %d %d\n", f.path, f.st.Size, f.st.Mtim.Nano(), f.st.Ino)
			}
		}
	}
	for _, p := range res.deleted {
		if baseName(p) == ".gitignore" {
			fmt.Fprintf(&b, "-%s\n", p)
		}
	}
	if rules := b.String(); w.memo.ignored == nil || rules != w.memo.rules {
		w.memo.ignored, w.memo.rules = map[string]bool{}, rules
	}
}

// askIgnored answers from memory, and asks git for the rest.
func (w *Workspace) askIgnored(ctx context.Context, src opener, res *scanResult, paths []string) (map[string]bool, error) {
	var unknown []string
	for _, p := range paths {
		if _, ok := w.memo.ignored[p]; !ok {
			unknown = append(unknown, p)
		}
	}
	if len(unknown) > 0 {
		set, err := w.askGit(ctx, src, res, unknown)
		if err != nil {
			return nil, err
		}
		for _, p := range unknown {
			w.memo.ignored[p] = set[p]
		}
	}
	return w.memo.ignored, nil
}

// askGit asks git on a staging folder that has the rule files and the folders in question, so that
// it never opens anything of the tree.
func (w *Workspace) askGit(ctx context.Context, src opener, res *scanResult, paths []string) (map[string]bool, error) {
	stage, err := os.MkdirTemp(w.dir, "stage-")
	if err != nil {
		return nil, fmt.Errorf("make staging folder: %w", err)
	}
	defer func() { _ = removeTree(stage) }() // what stays is inside the run's folder and goes with it
	rules := map[string]bool{}
	for i := range w.base {
		if baseName(w.base[i].path) == ".gitignore" && !slices.Contains(res.deleted, w.base[i].path) {
			rules[w.base[i].path] = true
		}
	}
	for _, f := range res.untracked {
		if baseName(f.path) == ".gitignore" {
			rules[f.path] = true
		}
	}
	for p := range rules {
		if _, err := copyFrom(src, p, stage, w.format); err != nil && !isGone(err) {
			return nil, fmt.Errorf("read %q: %w", p, err)
		}
	}
	for _, p := range paths {
		if dir, ok := strings.CutSuffix(p, "/"); ok {
			if err := os.MkdirAll(filepath.Join(stage, filepath.FromSlash(dir)), 0o700); err != nil && !isGone(err) {
				return nil, fmt.Errorf("make staging folder: %w", err)
			}
		}
	}
	return ignored(ctx, git{dir: w.ledger(), tree: stage, index: filepath.Join(w.ledger(), "none")}, paths)
}

// isGone reports whether an error says that a path is not the file it was a moment ago.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, errNotHeld) || errors.Is(err, fs.ErrPermission)
}
