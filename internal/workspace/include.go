package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
)

// matchesAny reports whether a path, or for a folder (with a slash) all of it, is covered by a glob.
func matchesAny(globs []string, path string) bool {
	path = strings.TrimSuffix(path, "/")
	for _, g := range globs {
		g = strings.TrimSuffix(strings.TrimPrefix(g, "./"), "/")
		if ok, err := doublestar.Match(g, path); err == nil && ok {
			return true
		}
		if ok, err := doublestar.Match(g+"/**", path); err == nil && ok {
			return true
		}
	}
	return false
}

// mayHold reports whether a glob could match something below the folder.
func mayHold(globs []string, folder string) bool {
	parts := strings.Split(strings.TrimSuffix(folder, "/"), "/")
	for _, g := range globs {
		fits := true
		for i, want := range strings.Split(strings.TrimPrefix(g, "./"), "/") {
			if want == "**" || i >= len(parts) {
				break
			}
			if ok, err := doublestar.Match(want, parts[i]); err != nil || !ok {
				fits = false
				break
			}
		}
		if fits {
			return true
		}
	}
	return false
}

// copyIncluded copies the ignored files the globs name into the tree, and once more beside it for
// the checks. They are never part of a patch, whatever becomes of the ignore rules.
func (w *Workspace) copyIncluded(ctx context.Context, o Options, u *userTree) error {
	if len(o.Include) == 0 {
		return nil
	}
	for _, g := range o.Include {
		if !doublestar.ValidatePattern(g) {
			return contract.Errorf(contract.KindInvalid, "include %q is not a glob", g)
		}
	}
	files, err := includedFiles(ctx, o, u)
	if err != nil {
		return err
	}
	src, err := openSource(o.Repo.root)
	if err != nil {
		return err
	}
	defer src.close()
	for _, f := range files {
		if _, err := copyFrom(src, f.path, w.include(), w.format); err != nil {
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
				continue // gone meanwhile, or not ours to read
			}
			return fmt.Errorf("include %q: %w", f.path, err)
		}
		if err := w.layIncluded(f.path); err != nil {
			return fmt.Errorf("include %q: %w", f.path, err)
		}
		w.rec.Included = append(w.rec.Included, f.path)
	}
	return nil
}

func (w *Workspace) layIncluded(path string) error {
	to, err := w.layerPlace(path)
	if err != nil {
		return err
	}
	return copyPlain(filepath.Join(w.include(), filepath.FromSlash(path)), to)
}

// copyPlain copies a file or link that the host made.
func copyPlain(from, to string) error {
	fi, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if fi.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, b, fi.Mode().Perm()); err != nil {
		return err
	}
	return os.Chmod(to, fi.Mode().Perm())
}

// includedFiles lists the ignored files that the globs cover, within the bounds of what is carried.
func includedFiles(ctx context.Context, o Options, u *userTree) ([]found, error) {
	s := &scanner{fileMode: true}
	var files []found
	for _, p := range u.ignored {
		if !matchesAny(o.Include, p) && (!strings.HasSuffix(p, "/") || !mayHold(o.Include, p)) {
			continue
		}
		list, err := s.listAll(ctx, o.Repo.root, p)
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			if matchesAny(o.Include, f.path) {
				files = append(files, f)
			}
		}
	}
	var bytes int64
	for _, f := range files {
		bytes += f.st.Size
	}
	if bytes > maxIncludeBytes || len(files) > maxIncludeFiles {
		return nil, contract.Errorf(contract.KindInvalid, "include covers %d files of %d MiB, more than %d files or %d MiB",
			len(files), bytes>>20, maxIncludeFiles, int64(maxIncludeBytes)>>20)
	}
	return files, nil
}

// Bounds of what include copies: it was asked for by name, so more than what is carried unasked.
const (
	maxIncludeFiles = 50_000
	maxIncludeBytes = 1 << 30
)

// listAll lists every file of a path that git ignores, a folder whole.
func (s *scanner) listAll(ctx context.Context, root, path string) ([]found, error) {
	if !strings.HasSuffix(path, "/") {
		src, err := openSource(root)
		if err != nil {
			return nil, err
		}
		defer src.close()
		f, _, st, err := src.open(path)
		if f != nil {
			f.Close()
		}
		if err != nil {
			return nil, nil // gone meanwhile
		}
		return []found{{path: path, mode: gitMode(&st), st: st}}, nil
	}
	var files []found
	var res scanResult
	folders := []string{path}
	for range maxScanDepth {
		list, pending, err := s.descend(ctx, root, folders, &res)
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			if !strings.HasSuffix(f.path, "/") {
				files = append(files, f)
			}
		}
		folders = folders[:0]
		for _, f := range pending {
			folders = append(folders, f.path)
		}
		if len(folders) == 0 {
			break
		}
	}
	return files, nil
}
