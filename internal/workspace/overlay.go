package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
)

// OverlayOptions are the mount options, besides the three folders, under which the upper layer can
// be read as a list of changes. A mount without privileges adds userxattr.
const OverlayOptions = "redirect_dir=off,metacopy=off,index=off"

// maxFreeBases is how many base trees without a run are kept for a repository.
const maxFreeBases = 2

// baseKey names everything that decides the bytes of a checkout of one tree.
func baseKey(r *Repo, tree string) string {
	h := sha256.New()
	io.WriteString(h, treeConfig(r, false)) //nolint:errcheck // a hash takes everything
	for _, p := range []string{filepath.Join(r.common, "info", "attributes"), filepath.Join(r.gitDir, "info", "sparse-checkout")} {
		b, _ := os.ReadFile(p) // often not there
		fmt.Fprintf(h, "%d:%s", len(b), b)
	}
	return tree + "-" + hex.EncodeToString(h.Sum(nil)[:6])
}

// A kept base tree is a folder NAME/ with tree/, index, key and users/: users holds a file for each
// run folder whose workspace stands on it, and it is in use while one of those has a record naming it.
// The name never changes meaning while it is in use.
func lowerIndex(lower string) string { return filepath.Join(filepath.Dir(lower), "index") }

// bases are the kept base trees of one repository.
type bases struct{ dir string }

// layLower takes a base tree as the lower layer and makes an empty upper one.
func (w *Workspace) layLower(ctx context.Context, o Options) error {
	sum := sha256.Sum256([]byte(o.Repo.common))
	b := bases{filepath.Join(o.CacheDir, hex.EncodeToString(sum[:8]))}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	lower, err := b.get(ctx, w, baseKey(o.Repo, w.rec.Tree))
	if err != nil {
		return err
	}
	w.rec.Way, w.rec.Lower = WayOverlay, lower
	if err := w.save(); err != nil { // the record is what keeps the base tree from being changed
		return err
	}
	if err := b.use(lower, w.dir); err != nil {
		return err
	}
	for _, dir := range []string{w.upper(), w.work(), w.tree()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make layer: %w", err)
		}
	}
	return w.readLower(lower)
}

// readLower takes over the list of a base tree, for the agent's index too.
func (w *Workspace) readLower(lower string) error {
	raw, err := os.ReadFile(lowerIndex(lower))
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	if w.base, err = parseIndex(raw, w.format); err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	if err := os.WriteFile(filepath.Join(w.link(), "index"), raw, 0o600); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return w.linkTree()
}

// lock takes the repository's lock on its base trees.
func (b bases) lock(ctx context.Context) (func(), error) {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of base trees: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(b.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock base trees: %w", err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock base trees: %w", err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for base trees: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// get gives the base tree of a key: one that is there, one that no run uses brought to it, or a new one.
func (b bases) get(ctx context.Context, w *Workspace, key string) (string, error) {
	free, err := b.free(key)
	if err != nil {
		return "", err
	}
	if free.match != "" {
		return filepath.Join(free.match, "tree"), nil
	}
	var dir string
	if n := len(free.dirs); n > 0 {
		dir = free.dirs[n-1] // the newest: likely the closest
		if err := os.Remove(filepath.Join(dir, "key")); err != nil {
			return "", fmt.Errorf("take base tree: %w", err)
		}
	} else if dir, err = os.MkdirTemp(b.dir, "base-"); err != nil {
		return "", fmt.Errorf("make base tree: %w", err)
	}
	if err := w.checkout(ctx, w.rec.Tree, filepath.Join(dir, "tree"), filepath.Join(dir, "index")); err != nil {
		return "", errors.Join(err, removeTree(dir))
	}
	if err := os.Chmod(filepath.Join(dir, "tree"), 0o755); err != nil {
		return "", fmt.Errorf("make base tree: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(key), 0o600); err != nil {
		return "", fmt.Errorf("make base tree: %w", err)
	}
	for i := 0; i < len(free.dirs)-maxFreeBases; i++ {
		if err := removeTree(free.dirs[i]); err != nil {
			return "", fmt.Errorf("remove old base tree: %w", err)
		}
	}
	return filepath.Join(dir, "tree"), nil
}

// kept is what of the base trees can be had.
type kept struct {
	match string   // the one of the key, in use or not
	dirs  []string // those no run uses, oldest first
}

func (b bases) free(key string) (kept, error) {
	var k kept
	names, err := os.ReadDir(b.dir)
	if err != nil {
		return k, fmt.Errorf("list base trees: %w", err)
	}
	age := map[string]time.Time{}
	for _, n := range names {
		dir := filepath.Join(b.dir, n.Name())
		if !n.IsDir() || !strings.HasPrefix(n.Name(), "base-") {
			continue
		}
		have, err := os.ReadFile(filepath.Join(dir, "key"))
		if err != nil {
			if err := removeTree(dir); err != nil { // its making was cut off
				return k, fmt.Errorf("remove unfinished base tree: %w", err)
			}
			continue
		}
		if string(have) == key {
			k.match = dir
		} else if !b.used(dir) {
			k.dirs = append(k.dirs, dir)
			if fi, err := os.Stat(filepath.Join(dir, "key")); err == nil {
				age[dir] = fi.ModTime()
			}
		}
	}
	slices.SortFunc(k.dirs, func(x, y string) int { return age[x].Compare(age[y]) })
	return k, nil
}

// use marks a base tree as the lower layer of the workspace in dir.
func (b bases) use(lower, dir string) error {
	users := filepath.Join(filepath.Dir(lower), "users")
	sum := sha256.Sum256([]byte(dir))
	return writeFiles(users, map[string]string{hex.EncodeToString(sum[:8]): dir})
}

// used reports whether a workspace stands on a base tree. Marks of workspaces that are gone go too.
func (b bases) used(dir string) bool {
	marks, _ := os.ReadDir(filepath.Join(dir, "users")) // none: not used
	used := false
	for _, m := range marks {
		p := filepath.Join(dir, "users", m.Name())
		owner, err := os.ReadFile(p)
		if err != nil {
			return true // unknown: leave it alone
		}
		rec, err := readRecord(string(owner))
		if err == nil && rec.Lower == filepath.Join(dir, "tree") {
			used = true
		} else if contract.KindOf(err) == contract.KindNotFound || err == nil {
			_ = os.Remove(p) // a mark without a workspace; the next look tries again
		}
	}
	return used
}

// whiteOut marks files of the base as deleted in an upper layer, whole folders by one mark.
func (w *Workspace) whiteOut(layer string, gone []string, changed []entry) error {
	away := make(map[string]bool, len(gone))
	for _, p := range gone {
		away[p] = true
	}
	for _, p := range gone {
		if !w.hasPath(changed, p) {
			if err := markGone(layer, w.goneRoot(p, away, changed)); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasPath reports whether an entry is at p or below it.
func (w *Workspace) hasPath(entries []entry, p string) bool {
	return slices.ContainsFunc(entries, func(e entry) bool {
		return e.path == p || strings.HasPrefix(e.path, p+"/") || strings.HasPrefix(p, e.path+"/")
	})
}

// goneRoot is the topmost folder above p of which nothing is left, or p.
func (w *Workspace) goneRoot(p string, away map[string]bool, changed []entry) string {
	root := p
	for dir := dirName(p); dir != ""; dir = dirName(dir) {
		from := sort.Search(len(w.base), func(i int) bool { return w.base[i].path >= dir+"/" })
		to := sort.Search(len(w.base), func(i int) bool { return w.base[i].path >= dir+"0" })
		for _, e := range w.base[from:to] {
			if !away[e.path] {
				return root
			}
		}
		if w.hasPath(changed, dir) {
			return root
		}
		root = dir
	}
	return root
}

func markGone(layer, p string) error {
	to := filepath.Join(layer, filepath.FromSlash(p))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := unix.Mknod(to, unix.S_IFCHR, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("mark %q as deleted: %w", p, err)
	}
	return nil
}

// layered is an overlay read from the host: the upper layer, and below it the base tree. What was
// deleted must not be asked for.
type layered struct{ upper, lower source }

func (l layered) close() { l.upper.close(); l.lower.close() }

func (l layered) open(path string) (*os.File, string, unix.Stat_t, error) {
	f, link, st, err := l.upper.open(path)
	if errors.Is(err, unix.ENOENT) {
		return l.lower.open(path)
	}
	return f, link, st, err
}
