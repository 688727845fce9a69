package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

func TestWT04RepositoryWithoutACommit(t *testing.T) {
	r := gitrepo.Empty(t)
	shot := gitrepo.Snapshot(t, r.Root)
	_, err := workspace.Discover(t.Context(), r.Root)
	if contract.KindOf(err) != contract.KindInvalid || !strings.Contains(err.Error(), "first commit is needed") {
		t.Errorf("got %v", err)
	}
	shot.Same(t)
}

func TestDiscoverSaysWhatIsWrong(t *testing.T) {
	r := gitrepo.New(t, gitrepo.Files{"a": "a"})
	bare := filepath.Join(t.TempDir(), "bare.git")
	r.Git("clone", "-q", "--bare", r.Root, bare)
	for name, c := range map[string]struct {
		dir  string
		kind contract.Kind
		text string
	}{
		"outside":    {t.TempDir(), contract.KindNotFound, "not inside a git repository"},
		"missing":    {filepath.Join(t.TempDir(), "no"), contract.KindNotFound, "no such file"},
		"a file":     {r.Path("a"), contract.KindInvalid, "not a folder"},
		"bare":       {bare, contract.KindInvalid, "no checkout"},
		"inside git": {r.Path(".git"), contract.KindInvalid, "no checkout"},
	} {
		_, err := workspace.Discover(t.Context(), c.dir)
		if contract.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v (%s)", name, err, contract.KindOf(err))
		}
	}
}

func TestDiscoverIgnoresLocationVariables(t *testing.T) {
	r := gitrepo.New(t, gitrepo.Files{"a": "a"})
	other := gitrepo.New(t, gitrepo.Files{"b": "b"})
	t.Setenv("GIT_DIR", other.Path(".git"))
	t.Setenv("GIT_WORK_TREE", other.Root)
	t.Setenv("GIT_INDEX_FILE", other.Path("nowhere"))
	t.Setenv("GIT_OBJECT_DIRECTORY", other.Path(".git/objects"))
	b := open(t, r)
	if b.repo.Root() != r.Root || b.read("a") != "a" {
		t.Errorf("found %s", b.repo.Root())
	}
}

func TestWT08EveryKindOfCheckout(t *testing.T) {
	files := gitrepo.Files{"a.txt": "a\n", "in/b.txt": "b\n", "out/c.txt": "c\n"}
	for name, prepare := range map[string]func(r *gitrepo.Repo) (root, dir string){
		"sub-folder": func(r *gitrepo.Repo) (string, string) { return r.Root, r.Path("in") },
		"linked worktree": func(r *gitrepo.Repo) (string, string) {
			wt := filepath.Join(filepath.Dir(r.Root), "linked")
			r.Git("worktree", "add", "-q", "-b", "side", wt)
			return wt, wt
		},
		"detached head": func(r *gitrepo.Repo) (string, string) { r.Git("checkout", "-q", "--detach"); return r.Root, r.Root },
		"sparse": func(r *gitrepo.Repo) (string, string) {
			r.Git("sparse-checkout", "set", "in")
			return r.Root, r.Root
		},
		"sparse index": func(r *gitrepo.Repo) (string, string) {
			r.Git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
			return r.Root, r.Root
		},
		"split index": func(r *gitrepo.Repo) (string, string) {
			r.Git("update-index", "--split-index")
			r.Write(gitrepo.Files{"z": "z"})
			r.Git("add", "z")
			r.Git("commit", "-qm", "z")
			return r.Root, r.Root
		},
		"index of version 4": func(r *gitrepo.Repo) (string, string) {
			r.Git("update-index", "--index-version", "4")
			return r.Root, r.Root
		},
		"worktree of a bare repository": func(r *gitrepo.Repo) (string, string) {
			bare, wt := filepath.Join(filepath.Dir(r.Root), "bare.git"), filepath.Join(filepath.Dir(r.Root), "of-bare")
			r.Git("clone", "-q", "--bare", r.Root, bare)
			gitrepo.At(t, bare).Git("worktree", "add", "-q", wt)
			return wt, filepath.Join(wt, "in")
		},
		"borrowed objects": func(r *gitrepo.Repo) (string, string) {
			c := filepath.Join(filepath.Dir(r.Root), "shared")
			r.Git("clone", "-q", "--shared", r.Root, c)
			return c, c
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
				root, dir := prepare(gitrepo.New(t, files))
				gitrepo.WriteTree(t, root, gitrepo.Files{"in/b.txt": "b\nmore\n"})
				shot := gitrepo.Snapshot(t, root)
				repo, err := workspace.Discover(t.Context(), dir)
				if err != nil {
					t.Fatal(err)
				}
				if repo.Root() != root {
					t.Errorf("root is %s, want %s", repo.Root(), root)
				}
				sv, err := repo.Survey(t.Context(), contract.DirtyInclude, nil)
				if err != nil || sv.Dirty != (contract.DirtySummary{Tracked: 1, Included: 1}) {
					t.Errorf("survey: %+v %v", sv, err)
				}
				b := open(t, gitrepo.At(t, root), way)
				if got := b.git("status", "--short"); got != " M in/b.txt" {
					t.Errorf("status in the tree: %q", got)
				}
				if got := b.git("log", "--format=%s"); !strings.Contains(got, "first") {
					t.Errorf("log in the tree: %q", got)
				}
				if _, err := os.Lstat(filepath.Join(root, "out")); (err == nil) != b.has("out") {
					t.Error("the tree is not as sparse as the checkout")
				}
				if s := b.snapshot(); len(s.Patch) != 0 {
					t.Errorf("a patch of nothing: %s", s.Patch)
				}
				b.write(gitrepo.Files{"in/b.txt": "b\nagent\n"})
				if s := b.snapshot(); paths(s) != "M in/b.txt" {
					t.Errorf("changed: %s", paths(s))
				}
				shot.Same(t)
			})
		})
	}
}

func TestSHA256Repository(t *testing.T) {
	r := gitrepo.Empty(t)
	if _, err := r.Try("init", "-q", "--object-format=sha256", "-b", "trunk", "../sha256"); err != nil {
		t.Skip("NOT TESTED: this git knows no sha256 repositories")
	}
	r = gitrepo.At(t, filepath.Join(filepath.Dir(r.Root), "sha256"))
	r.Write(gitrepo.Files{"a": "a\n"})
	r.Commit("first")
	r.Write(gitrepo.Files{"b": "b\n"})
	b := open(t, r)
	b.write(gitrepo.Files{"a": "c\n"})
	if s := b.snapshot(); paths(s) != "M a" || len(s.FinalTree) != 64 {
		t.Errorf("%s %s", paths(s), s.FinalTree)
	}
}

func TestShallowClone(t *testing.T) {
	r := gitrepo.New(t, gitrepo.Files{"a": "a\n"})
	r.Write(gitrepo.Files{"a": "b\n"})
	r.Commit("second")
	c := filepath.Join(filepath.Dir(r.Root), "shallow")
	r.Git("clone", "-q", "--depth=1", "file://"+r.Root, c)
	b := open(t, gitrepo.At(t, c))
	if got := b.git("log", "--format=%s"); got != "second" {
		t.Errorf("log: %q", got)
	}
	b.write(gitrepo.Files{"a": "c\n"})
	if s := b.snapshot(); paths(s) != "M a" {
		t.Errorf("changed: %s", paths(s))
	}
}
