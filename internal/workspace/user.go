package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
)

// Bounds of what is carried over of files that git does not know.
const (
	maxCarriedFiles = 5_000
	maxCarriedBytes = 64 << 20
	maxCarriedFile  = 16 << 20 // bytes of a single untracked file
)

// userTree is the user's checkout as it stands: index, differences, untracked files.
type userTree struct {
	entries []entry
	scan    scanResult
	sorted
	carried []found  // untracked files small and few enough to carry
	bulk    []string // untracked files left behind, as notes
}

// readUser looks at the user's checkout without writing to it: its index is read as bytes, ignore
// rules are asked for through a ledger. l must hold one.
func readUser(ctx context.Context, l layout, r *Repo) (*userTree, error) {
	u := &userTree{}
	var stamp unix.Timespec
	var err error
	if u.entries, stamp, err = userIndex(ctx, l, r); err != nil {
		return nil, err
	}
	s := &scanner{fileMode: r.fileMode(), stamp: stamp}
	if u.scan, err = s.scan(ctx, r.root, u.entries); err != nil {
		return nil, fmt.Errorf("look at the checkout: %w", err)
	}
	g := git{dir: l.ledger(), tree: r.root, index: filepath.Join(l.ledger(), "none")}
	if u.sorted, err = s.sift(ctx, func(ctx context.Context, paths []string) (map[string]bool, error) {
		return ignored(ctx, g, paths)
	}, r.root, &u.scan); err != nil {
		return nil, err
	}
	u.carry()
	return u, nil
}

func (r *Repo) fileMode() bool {
	v := r.setting("core.filemode")
	return v == "" || isTrue(v)
}

// userIndex reads the entries of the user's index. A split or sparse one is rewritten by git, from
// a copy, in the ledger's folder.
func userIndex(ctx context.Context, l layout, r *Repo) ([]entry, unix.Timespec, error) {
	var stamp unix.Timespec
	path := filepath.Join(r.gitDir, "index")
	entries, fi, err := readIndex(path, r.format)
	if errors.Is(err, os.ErrNotExist) {
		return nil, stamp, nil // everything is untracked
	}
	if fi != nil {
		stamp = unix.NsecToTimespec(fi.ModTime().UnixNano())
	}
	if !errors.Is(err, errComplexIndex) {
		if err != nil {
			err = contract.Errorf(contract.KindInvalid, "read the index of the checkout: %w", err)
		}
		return entries, stamp, err
	}
	plain := filepath.Join(l.ledger(), "user.index")
	defer os.Remove(plain)
	if err := copySplit(r.gitDir, l.ledger(), plain); err != nil {
		return nil, stamp, fmt.Errorf("copy the index of the checkout: %w", err)
	}
	g := git{dir: l.ledger(), index: plain, tree: r.root}
	if _, err := g.run(ctx, "-c", "index.sparse=false", "update-index", "--no-split-index", "--force-write-index"); err != nil {
		return nil, stamp, fmt.Errorf("read the index of the checkout: %w", err)
	}
	entries, _, err = readIndex(plain, r.format)
	return entries, stamp, err
}

func copySplit(from, to, index string) error {
	names, err := filepath.Glob(filepath.Join(from, "sharedindex.*"))
	if err != nil {
		return err
	}
	for _, p := range append(names, filepath.Join(from, "index")) {
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, filepath.Base(p))
		if filepath.Base(p) == "index" {
			target = index
		}
		if err := os.WriteFile(target, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// carry decides which untracked files come along.
func (u *userTree) carry() {
	var bytes int64
	for _, f := range u.fresh {
		if f.st.Size > maxCarriedFile {
			u.bulk = append(u.bulk, fmt.Sprintf("untracked %s is %d MiB and stays behind", f.path, f.st.Size>>20))
			continue
		}
		u.carried = append(u.carried, f)
		bytes += f.st.Size
	}
	if len(u.carried) <= maxCarriedFiles && bytes <= maxCarriedBytes && !u.scan.overflow {
		return
	}
	u.bulk = append(u.bulk, fmt.Sprintf("%d untracked files (%d MiB) are too many and stay behind: %s",
		len(u.carried), bytes>>20, nameSome(topFolders(u.carried))))
	u.carried = nil
}

func topFolders(files []found) []string {
	var tops []string
	for _, f := range files {
		top, _, deep := strings.Cut(f.path, "/")
		if deep {
			top += "/"
		}
		if len(tops) == 0 || tops[len(tops)-1] != top {
			tops = append(tops, top)
		}
	}
	return tops
}

// nameSome joins the first names and counts the rest.
func nameSome(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// submodules gives the paths of the index's submodules.
func (u *userTree) submodules() []string {
	var paths []string
	for i := range u.entries {
		if u.entries[i].mode == modeGit {
			paths = append(paths, u.entries[i].path)
		}
	}
	return paths
}

// overlay tells how the checkout differs from base: candidates to bring over, and what is gone.
func (u *userTree) overlay(base []entry) (files []found, gone []string) {
	files = append(files, u.carried...)
	files = append(files, u.scan.modified...)
	seen := make(map[string]bool, len(u.scan.modified))
	for _, f := range u.scan.modified {
		seen[f.path] = true
	}
	away := make(map[string]bool, len(u.scan.deleted))
	for _, p := range u.scan.deleted {
		away[p] = true
	}
	fresh := make(map[string]bool, len(u.fresh))
	for _, f := range u.fresh {
		fresh[f.path] = true
	}
	j := 0
	for i := range base {
		b := &base[i]
		for j < len(u.entries) && u.entries[j].path < b.path {
			files = u.staged(files, &u.entries[j], nil, seen, away)
			j++
		}
		if j == len(u.entries) || u.entries[j].path != b.path {
			if b.mode != modeGit && !b.skip && !fresh[b.path] {
				gone = append(gone, b.path)
			}
			continue
		}
		for j < len(u.entries) && u.entries[j].path == b.path {
			files = u.staged(files, &u.entries[j], b, seen, away)
			j++
		}
		if away[b.path] && b.mode != modeGit {
			gone = append(gone, b.path)
		}
	}
	for ; j < len(u.entries); j++ {
		files = u.staged(files, &u.entries[j], nil, seen, away)
	}
	slices.SortFunc(files, byPath)
	return slices.CompactFunc(files, func(a, b found) bool { return a.path == b.path }), gone
}

// staged adds a file whose index entry differs from the base while its bytes agree with the index.
func (u *userTree) staged(files []found, e, base *entry, seen, away map[string]bool) []found {
	if e.mode == modeGit || e.skip || e.stage != 0 || seen[e.path] || away[e.path] {
		return files
	}
	if base != nil && base.oid == e.oid && base.mode == e.mode {
		return files
	}
	return append(files, found{path: e.path, mode: e.mode})
}
