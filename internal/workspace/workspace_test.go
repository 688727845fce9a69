package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

// bench is one workspace on one toy repository.
type bench struct {
	t    *testing.T
	user *gitrepo.Repo
	repo *workspace.Repo
	ws   *workspace.Workspace
	tree string // where the tree can be written
}

// open discovers the repository and makes a workspace of it.
func open(t *testing.T, user *gitrepo.Repo, change func(*workspace.Options)) *bench {
	t.Helper()
	repo, err := workspace.Discover(t.Context(), user.Root)
	if err != nil {
		t.Fatalf("discover: %v", err)
	}
	o := workspace.Options{Repo: repo, Dir: filepath.Join(t.TempDir(), "run")}
	if change != nil {
		change(&o)
	}
	ws, err := workspace.Create(t.Context(), o)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return &bench{t: t, user: user, repo: repo, ws: ws, tree: ws.Tree()}
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

func (b *bench) remove(name string) {
	b.t.Helper()
	if err := os.RemoveAll(filepath.Join(b.tree, name)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) snapshot() workspace.Snapshot {
	b.t.Helper()
	s, err := b.ws.Snapshot(b.t.Context())
	if err != nil {
		b.t.Fatalf("snapshot: %v", err)
	}
	return s
}

func TestFirstWalk(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{"a.txt": "one\ntwo\n", "dir/b.txt": "b\n", "run.sh*": "#!/bin/sh\n"})
	user.Write(gitrepo.Files{"a.txt": "one\ntwo\nthree\n", "new.txt": "n\n"})
	shot := gitrepo.Snapshot(t, user.Root)
	b := open(t, user, nil)
	if b.read("new.txt") != "n\n" {
		t.Error("no overlay")
	}
	tree := gitrepo.At(t, b.tree)
	t.Log(tree.Git("status", "--short"))
	t.Log(tree.Git("log", "--oneline"))
	b.write(gitrepo.Files{"a.txt": "one\n2\nthree\n", "x/y.txt": "y\n"})
	b.remove("dir")
	c, err := b.ws.Changes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c)
	s := b.snapshot()
	t.Logf("%s\n%+v\n%+v", s.Patch, s.Files, b.ws.Ready())
	if err := b.ws.Checkout(t.Context(), s, filepath.Join(t.TempDir(), "clean")); err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.Reopen(t.Context(), b.ws.Dir())
	if err != nil {
		t.Fatal(err)
	}
	s2, err := ws.Snapshot(t.Context())
	if err != nil || string(s2.Patch) != string(s.Patch) {
		t.Fatal(err, string(s2.Patch))
	}
	if err := ws.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	shot.Same(t)
}
