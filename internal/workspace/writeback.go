package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
)

// writeBack writes files of a folder of ours into the user's checkout, all or none: each is
// written beside its place and renamed, and a failure puts back what was done.
type writeBack struct {
	root, from, back string
	format           string
	files            []AppliedFile
	done             []AppliedFile
}

// all checks that every file still is what it was before, then writes.
func (w *writeBack) all(ctx context.Context) error {
	src, err := openSource(w.root)
	if err != nil {
		return err
	}
	defer src.close()
	for _, f := range w.files {
		if !isState(src, f.Path, f.Before, w.format) {
			return conflict([]string{f.Path}, "it was changed meanwhile")
		}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if err := w.each(w.from, func(f AppliedFile) *HostState { return f.After }); err != nil {
		return errors.Join(err, w.undo())
	}
	return nil
}

// undo puts back the files that were written.
func (w *writeBack) undo() error {
	back := &writeBack{root: w.root, format: w.format, files: w.done}
	return back.each(w.back, func(f AppliedFile) *HostState { return f.Before })
}

// each brings every file to a state: first what goes, then what comes.
func (w *writeBack) each(from string, want func(AppliedFile) *HostState) error {
	root, err := os.OpenRoot(w.root)
	if err != nil {
		return fmt.Errorf("open checkout: %w", err)
	}
	defer root.Close()
	for _, f := range w.files {
		if want(f) == nil {
			if err := removeFile(root, f.Path); err != nil {
				return fmt.Errorf("remove %q: %w", f.Path, err)
			}
			w.done = append(w.done, f)
		}
	}
	for _, f := range w.files {
		if s := want(f); s != nil {
			if err := putFile(root, f.Path, filepath.Join(from, filepath.FromSlash(f.Path)), s.Mode); err != nil {
				return fmt.Errorf("write %q: %w", f.Path, err)
			}
			w.done = append(w.done, f) // a failed one left nothing: it is renamed into place last
		}
	}
	return nil
}

// removeFile removes a file and the folders that are empty then.
func removeFile(root *os.Root, p string) error {
	if err := root.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if root.Remove(dir) != nil {
			break // not empty
		}
	}
	return nil
}

// putFile writes a file beside its place and renames it over.
func putFile(root *os.Root, p, from string, mode uint32) error {
	if dir := path.Dir(p); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	tmp := path.Join(path.Dir(p), ".rivumi-"+randomName())
	if mode == modeLink {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if err := root.Symlink(target, tmp); err != nil {
			return err
		}
	} else if err := copyOut(root, tmp, from, permFor(root, p, mode)); err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	if err := root.Rename(tmp, p); err != nil {
		return errors.Join(err, root.Remove(tmp))
	}
	return nil
}

// permFor keeps the permissions of the file that is replaced, but for the executable bits.
func permFor(root *os.Root, p string, mode uint32) perm {
	fi, err := root.Lstat(p)
	if err != nil || !fi.Mode().IsRegular() {
		if mode == modeExec {
			return perm{0o777, false}
		}
		return perm{0o666, false}
	}
	bits := fi.Mode().Perm()
	if mode == modeExec {
		bits |= bits >> 2 & 0o111
	} else {
		bits &^= 0o111
	}
	return perm{bits, true}
}

// perm are permission bits; exact ones are not narrowed by the user's mask.
type perm struct {
	bits  fs.FileMode
	exact bool
}

func copyOut(root *os.Root, to, from string, p perm) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, p.bits)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil && p.exact {
		err = out.Chmod(p.bits)
	}
	return errors.Join(err, out.Close())
}

func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// stateOf reads a file's state, nil when there is none.
func stateOf(src source, p, format string) (*HostState, error) {
	var st unix.Stat_t
	f, link, st, err := src.open(p)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, errNotHeld) && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	size := int64(len(link))
	if f != nil {
		f.Close()
		size = st.Size
	}
	return &HostState{OID: rawOID(src, p, format), Mode: gitMode(&st), Size: size}, nil
}

func isState(src source, p string, want *HostState, format string) bool {
	got, err := stateOf(src, p, format)
	if err != nil || (got == nil) != (want == nil) {
		return false
	}
	return got == nil || *got == *want
}

// stagedFiles lists a staging folder of ours.
func stagedFiles(dir, format string) (map[string]copied, error) {
	src, err := openSource(dir)
	if err != nil {
		return nil, err
	}
	defer src.close()
	files := map[string]copied{}
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		s, err := stateOf(src, rel, format)
		if err != nil || s == nil {
			return fmt.Errorf("read %q: %w", rel, errors.Join(err, errNotHeld))
		}
		if s.Mode == modeLink {
			if target, err := os.Readlink(p); err != nil || !linkStays(rel, target) {
				return contract.Errorf(contract.KindInvalid, "the link %q leads out of the checkout", rel)
			}
		}
		files[rel] = copied{mode: s.Mode, size: s.Size, oid: s.OID}
		return nil
	})
	return files, err
}
