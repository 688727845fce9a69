package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/rivumi/rivumi/internal/contract"
)

// maxReadBytes is the largest file the file tools read whole.
const maxReadBytes = 64 << 20

// Files are the file tools' hands on one tree. Every path is resolved by the kernel beneath a held
// folder, so a link that leads out, also one swapped in while a call runs, cannot be followed.
type Files struct {
	root *os.Root
	tree string // the tree's own path, which may be put before a path
	user string // the user's checkout, named when a path leads there
}

// Files opens the tree at root for the file tools: [Workspace.Tree], or the root a sandbox session
// gives. The caller closes it.
func (w *Workspace) Files(root string) (*Files, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("open tree: %w", err)
	}
	return &Files{root: r, tree: w.tree(), user: w.rec.Root}, nil
}

// Close lets go of the tree.
func (f *Files) Close() error { return f.root.Close() }

// denied makes the error of a path that is not to be touched.
func denied(format string, args ...any) error {
	return contract.Errorf(contract.KindForbidden, format+": %w", append(args, fs.ErrPermission)...)
}

// clean turns a tool's path into one relative to the root.
func (f *Files) clean(p string) (string, error) {
	if strings.ContainsRune(p, 0) {
		return "", denied("path %q holds a NUL", p)
	}
	if path.IsAbs(p) {
		rest, ok := strings.CutPrefix(path.Clean(p), f.tree+"/")
		if !ok {
			return "", denied("path %q is outside the tree of the run %q (the checkout %q is not changed by a run)", p, f.tree, f.user)
		}
		p = rest
	}
	depth := 0
	for part := range strings.SplitSeq(p, "/") {
		switch part {
		case "", ".":
		case "..":
			depth--
		default:
			depth++
		}
		if depth < 0 {
			return "", denied("path %q leaves the tree of the run %q", p, f.tree)
		}
	}
	if p = path.Clean(p); p == "." {
		return "", denied("path names the root of the tree, not a file")
	}
	if hasDotGit(p) {
		return "", denied("path %q is inside git's own folder", p)
	}
	return p, nil
}

// resolve follows links by their text, to refuse what ends in a .git. Leaving the tree is left to
// the kernel, which cannot be raced.
func (f *Files) resolve(p string) error {
	rest, done := strings.Split(p, "/"), ""
	for hops := 0; len(rest) > 0; {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		target, err := f.root.Readlink(next)
		if err != nil {
			done = next // no link, or not there
			continue
		}
		if hops++; hops > 40 || path.IsAbs(target) {
			return denied("path %q follows a link to %q, out of the tree", p, contract.CleanText(target))
		}
		joined := path.Join(path.Dir(next), target)
		if joined == ".." || strings.HasPrefix(joined, "../") {
			return denied("path %q follows a link to %q, out of the tree", p, contract.CleanText(target))
		}
		if hasDotGit(joined) {
			return denied("path %q leads into git's own folder", p)
		}
		rest, done = append(strings.Split(joined, "/"), rest...), ""
	}
	return nil
}

// Read gives the bytes and the mode of a regular file, at most 64 MiB of it.
func (f *Files) Read(p string) ([]byte, fs.FileMode, error) {
	p, err := f.clean(p)
	if err != nil {
		return nil, 0, err
	}
	if err := f.resolve(p); err != nil {
		return nil, 0, err
	}
	file, err := f.root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, f.explain(p, err)
	}
	defer file.Close()
	fi, err := file.Stat()
	if err != nil {
		return nil, 0, f.explain(p, err)
	}
	if !fi.Mode().IsRegular() {
		return nil, 0, contract.Errorf(contract.KindInvalid, "%q is not a regular file", p)
	}
	if fi.Size() > maxReadBytes {
		return nil, 0, contract.Errorf(contract.KindTooLarge, "%q is %d bytes, more than %d", p, fi.Size(), maxReadBytes)
	}
	b, err := io.ReadAll(io.LimitReader(file, maxReadBytes))
	return b, fi.Mode().Perm(), f.explain(p, err)
}

// Write replaces or creates a file, byte for byte, and its folders. The mode of an existing file
// is kept; a link that stays inside the tree is followed.
func (f *Files) Write(p string, data []byte) error {
	p, err := f.clean(p)
	if err != nil {
		return err
	}
	if err := f.resolve(p); err != nil {
		return err
	}
	if dir := path.Dir(p); dir != "." {
		if err := f.root.MkdirAll(dir, 0o755); err != nil {
			return f.explain(p, err)
		}
	}
	file, err := f.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return f.explain(p, err)
	}
	if err := replace(file, data); err != nil {
		return f.explain(p, errors.Join(err, file.Close()))
	}
	return f.explain(p, file.Close())
}

func replace(file *os.File, data []byte) error {
	fi, err := file.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return contract.Errorf(contract.KindInvalid, "it is not a regular file")
	}
	if _, err := file.Write(data); err != nil {
		return err
	}
	return file.Truncate(int64(len(data)))
}

// explain names the path in an error and gives a leaving link its kind.
func (f *Files) explain(p string, err error) error {
	if err == nil {
		return nil
	}
	if strings.Contains(err.Error(), "path escapes from parent") {
		return denied("path %q leaves the tree of the run %q", p, f.tree)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return contract.Errorf(contract.KindNotFound, "%q is not there: %w", p, fs.ErrNotExist)
	}
	return fmt.Errorf("%q: %w", p, err)
}
