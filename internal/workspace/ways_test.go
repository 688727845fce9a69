package workspace_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

// bench is one workspace on one toy repository.
type bench struct {
	t    testing.TB
	user *gitrepo.Repo
	repo *workspace.Repo
	ws   *workspace.Workspace
	tree string // where the tree can be written
}

// eachWay runs a test on a plain worktree and on an overlay.
func eachWay(t *testing.T, test func(t *testing.T, change func(*workspace.Options))) {
	t.Run("worktree", func(t *testing.T) { test(t, nil) })
	t.Run("overlay", func(t *testing.T) {
		cache := t.TempDir()
		needOverlay(t)
		test(t, func(o *workspace.Options) { o.Overlay, o.CacheDir = true, cache })
	})
}

// needOverlay skips, saying so, where this machine lets a test mount nothing.
func needOverlay(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"l", "u", "w", "m"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	data := fmt.Sprintf("lowerdir=%s/l,upperdir=%s/u,workdir=%s/w,%s", dir, dir, dir, workspace.OverlayOptions)
	if err := unix.Mount("overlay", dir+"/m", "overlay", 0, data); err != nil {
		t.Skipf("NOT TESTED: overlay mounts are not permitted here: %v", err)
	}
	if err := unix.Unmount(dir+"/m", 0); err != nil {
		t.Fatal(err)
	}
}

// open discovers the repository and makes a workspace of it.
func open(t testing.TB, user *gitrepo.Repo, changes ...func(*workspace.Options)) *bench {
	t.Helper()
	repo, err := workspace.Discover(t.Context(), user.Root)
	if err != nil {
		t.Fatalf("discover: %v", err)
	}
	o := workspace.Options{Repo: repo, Dir: filepath.Join(t.TempDir(), "run")}
	for _, change := range changes {
		if change != nil {
			change(&o)
		}
	}
	ws, err := workspace.Create(t.Context(), o)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	b := &bench{t: t, user: user, repo: repo, ws: ws, tree: ws.Tree()}
	b.mount()
	return b
}

// mount mounts an overlay the way a sandbox does in its own view.
func (b *bench) mount() {
	lower, upper, work, ok := b.ws.Overlay()
	if !ok {
		return
	}
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,%s", lower, upper, work, workspace.OverlayOptions)
	if err := unix.Mount("overlay", b.tree, "overlay", 0, data); err != nil {
		b.t.Fatalf("mount overlay: %v", err)
	}
	b.t.Cleanup(func() { b.unmount() })
}

func (b *bench) unmount() {
	if _, _, _, ok := b.ws.Overlay(); ok {
		_ = unix.Unmount(b.tree, unix.MNT_DETACH) // already gone is fine
	}
}

// clean lays down the clean tree of a snapshot, both ways where there are two, which must agree, and
// gives its folder.
func (b *bench) clean(s workspace.Snapshot) string {
	b.t.Helper()
	dir := filepath.Join(b.t.TempDir(), "clean")
	if err := b.ws.Checkout(b.t.Context(), s, dir); err != nil {
		b.t.Fatal(err)
	}
	over := b.t.TempDir()
	l, ok, err := b.ws.CheckoutLayers(b.t.Context(), s, filepath.Join(over, "layers"))
	if err != nil {
		b.t.Fatal(err)
	}
	if _, _, _, layered := b.ws.Overlay(); ok != layered {
		b.t.Errorf("the clean tree as layers: %v", ok)
	}
	if !ok {
		return dir
	}
	at := filepath.Join(over, "tree")
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,%s", l.Lower, l.Upper, l.Work, workspace.OverlayOptions)
	if err := errors.Join(os.Mkdir(at, 0o755), unix.Mount("overlay", at, "overlay", 0, data)); err != nil {
		b.t.Fatalf("mount overlay: %v", err)
	}
	defer func() { _ = unix.Unmount(at, unix.MNT_DETACH) }()
	if got, want := listing(b.t, at), listing(b.t, dir); got != want {
		b.t.Errorf("the layers of the clean tree show:\n%s\nwant:\n%s", got, want)
	}
	return dir
}

func (b *bench) write(files gitrepo.Files) { b.t.Helper(); gitrepo.WriteTree(b.t, b.tree, files) }

func (b *bench) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.tree, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func (b *bench) has(name string) bool {
	_, err := os.Lstat(filepath.Join(b.tree, name))
	return err == nil
}

func (b *bench) remove(names ...string) {
	b.t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(b.tree, name)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// git runs git in the tree as an agent would.
func (b *bench) git(args ...string) string { b.t.Helper(); return gitrepo.At(b.t, b.tree).Git(args...) }

func (b *bench) snapshot() workspace.Snapshot {
	b.t.Helper()
	s, err := b.ws.Snapshot(b.t.Context())
	if err != nil {
		b.t.Fatalf("snapshot: %v", err)
	}
	return s
}

func (b *bench) notes() string { return strings.Join(b.ws.Ready().Notes, "\n") }

// paths lists the changed files of a snapshot with their status letter.
func paths(s workspace.Snapshot) string {
	var out []string
	for _, f := range s.Files {
		out = append(out, strings.ToUpper(f.Status[:1])+" "+f.Path)
	}
	return strings.Join(out, ", ")
}

// applied gives a fresh clone at the base with the patch applied by plain git.
func (b *bench) applied(s workspace.Snapshot) *gitrepo.Repo {
	b.t.Helper()
	c := b.user.Clone(s.BaseSHA)
	p := filepath.Join(b.t.TempDir(), "p")
	if err := os.WriteFile(p, s.Patch, 0o600); err != nil {
		b.t.Fatal(err)
	}
	c.Git("apply", "--index", "--whitespace=nowarn", p)
	return c
}

// listing is a tree as text: every file with mode and content, .git left out.
func listing(t testing.TB, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(root, func(p string, fi os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if fi.Name() == ".git" {
			if fi.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		switch {
		case fi.IsDir():
		case fi.Mode()&os.ModeSymlink != 0:
			target, _ := os.Readlink(p)
			fmt.Fprintf(&b, "%q -> %q\n", rel, target)
		case fi.Mode().IsRegular():
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%q %v %q\n", rel, fi.Mode().Perm()&0o100 != 0, text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEveryWayGivesTheSamePatch(t *testing.T) {
	var first *workspace.Snapshot
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		user := gitrepo.New(t, gitrepo.Files{
			"a.txt": "one\ntwo\n", "dir/b.txt": "b\n", "dir/c.txt": "c\n", "run.sh*": "#!/bin/sh\n", "link": "-> a.txt", "deep/er/x": "x\n",
			"gone/1": "1\n", "gone/2": "2\n", "half/1": "1\n", "half/2": "2\n", ".gitignore": "*.o\nbuild/\n", "swap": "file\n", "swapd/f": "f\n", "big": strings.Repeat("line\n", 5000),
		})
		user.Write(gitrepo.Files{"a.txt": "one\ntwo\nthree\n", "new.txt": "n\n", "sub/new2.txt": "n2\n"})
		for _, p := range []string{"gone", "half/1"} {
			if err := os.RemoveAll(user.Path(p)); err != nil {
				t.Fatal(err)
			}
		}
		shot := gitrepo.Snapshot(t, user.Root)
		b := open(t, user, way)
		if got, want := listing(t, b.tree), listing(t, user.Root); got != want {
			t.Fatalf("the tree differs from the checkout:\n%s\nwant:\n%s", got, want)
		}
		if got, want := b.git("status", "--short"), user.Git("status", "--short"); got != want {
			t.Errorf("the agent's status is\n%s\nthe user's\n%s", got, want)
		}
		if got := b.git("log", "--oneline", "trunk"); !strings.Contains(got, "first") {
			t.Errorf("log: %s", got)
		}
		b.write(gitrepo.Files{
			"a.txt": "one\n2\nthree\n", "x/y.txt": "y\n", "empty": "", "m.o": "object", "build/out": "o", "half/1": "again\n", "gone/3": "3\n",
			"deep/er/bin": "\x00\x01\x02", "tool*": "#!/bin/sh\n", "in": "-> dir/c.txt", "big": strings.Repeat("line\n", 2500) + "x\n" + strings.Repeat("line\n", 2500),
		})
		b.remove("dir/b.txt", "sub", "swap", "swapd", "link")
		b.write(gitrepo.Files{"swap/inner": "i\n", "swapd": "now a file\n", "link": "-> deep"})
		b.git("add", "-A")
		b.git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "the agent commits")
		b.git("checkout", "-q", "-b", "agents")
		s := b.snapshot()
		s2, err := b.ws.Changes(t.Context())
		if err != nil || len(s2) != len(s.Manifest) {
			t.Errorf("changes: %v %+v", err, s2)
		}
		clean := b.clean(s)
		b.remove("m.o", "build")
		if got, want := listing(t, clean), listing(t, b.tree); got != want {
			t.Errorf("the clean tree differs:\n%s\nwant:\n%s", got, want)
		}
		b.unmount()
		again, err := workspace.Reopen(t.Context(), b.ws.Dir())
		if err != nil {
			t.Fatal(err)
		}
		s3, err := again.Snapshot(t.Context())
		if err != nil || !bytes.Equal(s3.Patch, s.Patch) {
			t.Errorf("reopened: %v", err)
		}
		shot.Same(t)
		if first == nil {
			first = &s
		} else if !bytes.Equal(first.Patch, s.Patch) || first.FinalTree != s.FinalTree || paths(*first) != paths(s) {
			t.Errorf("the ways differ:\n%s\n%s", first.Patch, s.Patch)
		}
		if err := again.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(b.ws.Dir()); err == nil {
			t.Error("the folder is still there")
		}
		shot.Same(t)
	})
}
