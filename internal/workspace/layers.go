package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// layer is the folder that takes every change of the tree.
func (w *Workspace) layer() string {
	if w.rec.Way == WayOverlay {
		return w.upper()
	}
	return w.tree()
}

// layerPlace gives the host path at which a file of the start is laid down, its folders made.
func (w *Workspace) layerPlace(path string) (string, error) {
	to := filepath.Join(w.layer(), filepath.FromSlash(path))
	return to, os.MkdirAll(filepath.Dir(to), 0o755)
}

// layerRemove takes files of the base out of the tree, and folders that are empty then. changed
// are the paths that come in their place.
func (w *Workspace) layerRemove(gone []string, changed []entry) error {
	if w.rec.Way == WayOverlay {
		return w.whiteOut(w.upper(), gone, changed)
	}
	for _, path := range gone {
		if err := os.Remove(filepath.Join(w.tree(), filepath.FromSlash(path))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for dir := dirName(path); dir != ""; dir = dirName(dir) {
			if os.Remove(filepath.Join(w.tree(), filepath.FromSlash(dir))) != nil {
				break // not empty
			}
		}
	}
	return nil
}

// removeTree removes a folder of ours with all that is in it, whatever modes it was given. Links
// are removed, not followed.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	openUp(root, ".")
	return os.RemoveAll(dir)
}

// openUp makes every folder below readable and writable, as far as that can be.
func openUp(root *os.Root, dir string) {
	fi, err := root.Lstat(dir)
	if err != nil || !fi.IsDir() {
		return
	}
	_ = root.Chmod(dir, 0o700) // if it can't be, the removal says so
	f, err := root.Open(dir)
	if err != nil {
		return
	}
	names, _ := f.Readdirnames(-1) // what could not be listed is reported by the removal
	f.Close()
	for _, n := range names {
		openUp(root, strings.TrimPrefix(dir+"/"+n, "./"))
	}
}

// viewer is an opened tree.
type viewer interface {
	opener
	close()
}

// view opens the tree as it is now, whatever the way.
func (w *Workspace) view() (viewer, error) {
	if w.rec.Way != WayOverlay {
		return openSource(w.tree())
	}
	upper, err := openSource(w.upper())
	if err != nil {
		return nil, err
	}
	lower, err := openSource(w.rec.Lower)
	if err != nil {
		upper.close()
		return nil, err
	}
	return layered{upper, lower}, nil
}

// scanTree compares the tree with the start.
func (w *Workspace) scanTree(ctx context.Context, s *scanner) (scanResult, error) {
	s.layer = w.rec.Way == WayOverlay
	return s.scan(ctx, w.layer(), w.base)
}
