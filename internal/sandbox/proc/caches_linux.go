package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// layered is a cache in a plan. Upper and Work are folders of this session alone: what the agent
// writes into a cache is never what the checks read.
type layered struct {
	Lower, Upper, Work string
	At                 string
	Env                string
	Frozen             bool
}

// showCaches plans a layer over each cache and makes the folders for it.
func (q *openRequest) showCaches(caches []sandbox.Cache, s sandbox.Spec) error {
	if s.Scratch == "" {
		return nil
	}
	for i, c := range q.usable(caches, s) {
		dir := filepath.Join(s.Scratch, "caches", strconv.Itoa(i))
		l := layered{Lower: c.Path, At: c.At, Env: c.Env, Frozen: c.Frozen, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work")}
		for _, d := range []string{l.Upper, l.Work} {
			if err := os.MkdirAll(d, 0o700); err != nil {
				return startError("make the layer of a cache", err)
			}
		}
		q.Layered = append(q.Layered, l)
	}
	return nil
}

// freezeCaches shows what is of use without a layer, and gives the variables that name it.
func (q *openRequest) freezeCaches(caches []sandbox.Cache, s sandbox.Spec) (env []string) {
	if s.Scratch == "" {
		return nil
	}
	for _, c := range q.usable(caches, s) {
		if !c.Frozen {
			continue
		}
		q.Binds = append(q.Binds, bind{Path: c.Path, At: c.At, Optional: true})
		if c.Env != "" {
			env = append(env, c.Env+"="+c.At)
		}
	}
	q.sort()
	return env
}

// usable gives the caches that may be shown, with the whole path of where. One that holds the tree,
// lies in it, or is a folder of the host that is never shown is left out.
func (q *openRequest) usable(caches []sandbox.Cache, s sandbox.Spec) []sandbox.Cache {
	home := lookup(s.Env, "HOME")
	var out []sandbox.Cache
	for _, c := range caches {
		if !filepath.IsAbs(c.At) {
			if !filepath.IsAbs(home) || !filepath.IsLocal(c.At) {
				continue
			}
			c.At = filepath.Join(home, c.At)
		}
		c.Path, c.At = filepath.Clean(c.Path), filepath.Clean(c.At)
		taken := func(p string) bool {
			return !filepath.IsAbs(p) || within(p, s.Tree) || within(s.Tree, p) || within(s.Scratch, p) || slices.Contains(forbiddenBinds, p) ||
				slices.ContainsFunc(systemPaths, func(sys string) bool { return within(p, sys) })
		}
		if st, err := os.Stat(c.Path); err != nil || !st.IsDir() || taken(c.Path) || taken(c.At) {
			continue
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b sandbox.Cache) int { // parents first
		if a.At < b.At {
			return -1
		}
		return 1
	})
	return out
}

// openLayers makes the mounts of the caches before anything of the host is hidden. Where the kernel
// mounts no layer, a frozen cache is shown as it is and another one is not.
func openLayers(q *openRequest) (mounts []source, shown []layered) {
	for _, l := range q.Layered {
		fd, err := overlayMount(l.Lower, l.Upper, l.Work)
		if err == nil {
			mounts = append(mounts, source{bind{Path: l.At, Writable: true}, fd, false})
			shown = append(shown, l)
			continue
		}
		if !l.Frozen {
			continue
		}
		fd, err = unix.OpenTree(unix.AT_FDCWD, l.Lower, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			continue // gone, or not for this user
		}
		mounts = append(mounts, source{bind{Path: l.At}, fd, false})
		shown = append(shown, l)
	}
	return mounts, shown
}

// placeLayers mounts them where they are looked for.
func placeLayers(mounts []source) error {
	for _, m := range mounts {
		if err := os.MkdirAll(newRoot+m.at(), 0o755); err != nil {
			return fmt.Errorf("make a place for a cache: %w", err)
		}
		if err := attach(m, newRoot+m.at()); err != nil {
			return err
		}
	}
	return nil
}

func variables(shown []layered) []string {
	var env []string
	for _, l := range shown {
		if l.Env != "" {
			env = append(env, l.Env+"="+l.At)
		}
	}
	return env
}

// releaseCaches makes the folders removable that the kernel leaves without any permission.
func releaseCaches(q openRequest) {
	for _, l := range q.Layered {
		_ = os.Chmod(filepath.Join(l.Work, "work"), 0o700) // not there where nothing was mounted
	}
}
