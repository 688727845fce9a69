package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

func TestWT02UncommittedWorkComesAlongOrIsNamed(t *testing.T) {
	for dirty, want := range map[contract.Dirty]contract.DirtySummary{
		"":                    {Tracked: 1, Untracked: 1, Included: 2},
		contract.DirtyInclude: {Tracked: 1, Untracked: 1, Included: 2},
		contract.DirtyExclude: {Tracked: 1, Untracked: 1},
	} {
		user := gitrepo.New(t, gitrepo.Files{"a.txt": "a\n"})
		user.Write(gitrepo.Files{"a.txt": "edited\n", "b.txt": "b\n"})
		shot := gitrepo.Snapshot(t, user.Root)
		b := open(t, user, func(o *workspace.Options) { o.Dirty = dirty })
		r := b.ws.Ready()
		if r.Dirty != want || r.BaseSHA != user.Git("rev-parse", "HEAD") || r.Root != user.Root || r.Way != workspace.WayWorktree {
			t.Errorf("%s: %+v", dirty, r)
		}
		if excluded := dirty == contract.DirtyExclude; excluded == b.has("b.txt") || excluded != strings.Contains(b.notes(), "1 changed and 1 untracked") {
			t.Errorf("%s: notes %q", dirty, b.notes())
		}
		if s := b.snapshot(); len(s.Patch) > 0 {
			t.Errorf("%s: the user's own work is in the patch: %s", dirty, s.Patch)
		}
		shot.Same(t)
	}
	user := gitrepo.New(t, gitrepo.Files{"a.txt": "a\n"})
	user.Write(gitrepo.Files{"b.txt": "b\n"})
	repo, err := workspace.Discover(t.Context(), user.Root)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	_, err = workspace.Create(t.Context(), workspace.Options{Repo: repo, Dirty: contract.DirtyRefuse, Dir: dir})
	if contract.KindOf(err) != contract.KindConflict {
		t.Errorf("refuse: %v", err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("a refusal left its folder behind")
	}
}

func TestWT02StagedWorkComesAlong(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{"a": "a\n", "b": "b\n", "c": "c\n", "d": "d\n", "e": "e\n"})
	user.Write(gitrepo.Files{"a": "staged\n", "new": "staged new\n", "both": "one\n"})
	user.Git("add", "a", "new", "both")
	user.Git("rm", "-q", "b")
	user.Git("rm", "-q", "--cached", "c") // in the checkout still, now untracked
	user.Git("mv", "d", "moved")
	user.Write(gitrepo.Files{"both": "two\n"})
	user.Git("add", "-N", "e")
	if err := os.Remove(user.Path("e")); err != nil {
		t.Fatal(err)
	}
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		shot := gitrepo.Snapshot(t, user.Root)
		b := open(t, user, way)
		if got, want := listing(t, b.tree), listing(t, user.Root); got != want {
			t.Errorf("tree:\n%swant:\n%s", got, want)
		}
		if s := b.snapshot(); len(s.Patch) > 0 {
			t.Errorf("the user's own work is in the patch: %s", s.Patch)
		}
		shot.Same(t)
	})
}

func TestWT01SubmodulesAreNamedAndStay(t *testing.T) {
	lib := gitrepo.New(t, gitrepo.Files{"v.txt": "1\n"})
	user := gitrepo.New(t, gitrepo.Files{"a.txt": "a\n"})
	user.Git("submodule", "add", "-q", lib.Root, "lib")
	user.Commit("with a submodule")
	user.Write(gitrepo.Files{"lib/v.txt": "changed inside\n"})
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		shot := gitrepo.Snapshot(t, user.Root)
		b := open(t, user, way)
		if !strings.Contains(b.notes(), "submodules are empty in the run: lib") {
			t.Errorf("notes: %q", b.notes())
		}
		b.write(gitrepo.Files{"a.txt": "b\n", "lib/agent.txt": "x\n"})
		if s := b.snapshot(); paths(s) != "M a.txt" {
			t.Errorf("changed: %s", paths(s))
		}
		b.remove("lib")
		if s := b.snapshot(); paths(s) != "M a.txt" {
			t.Errorf("changed: %s", paths(s))
		}
		shot.Same(t)
	})
}

func TestWT03IgnoredFilesAreNamedOrCopied(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{".gitignore": ".env\ndeps/\n*.log\n", "a": "a\n"})
	user.Write(gitrepo.Files{".env": "KEY=1\n", "deps/x/y": "y\n", "deps/z*": "z\n", "noise.log": "n\n"})
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		b := open(t, user, way)
		if n := b.notes(); !strings.Contains(n, ".env, deps/, noise.log") || !strings.Contains(n, "--include") {
			t.Errorf("notes: %q", n)
		}
		if b.has(".env") {
			t.Error(".env came along unasked")
		}
		b = open(t, user, way, func(o *workspace.Options) { o.Include = []string{".env", "deps/**"} })
		if b.read(".env") != "KEY=1\n" || b.read("deps/x/y") != "y\n" || b.has("noise.log") || strings.Contains(b.notes(), ".env") {
			t.Errorf("include: %q", b.notes())
		}
		b.write(gitrepo.Files{".gitignore": "", ".env": "KEY=2\n", "a": "b\n"}) // no longer ignored, but never part of a patch
		s := b.snapshot()
		if paths(s) != "M .gitignore, M a" {
			t.Errorf("changed: %s", paths(s))
		}
		clean := b.clean(s)
		if got := listing(t, clean); !strings.Contains(got, `".env" false "KEY=1\n"`) || !strings.Contains(got, `"deps/z" true`) {
			t.Errorf("the clean tree lacks included files:\n%s", got)
		}
		b.unmount()
		ws, err := workspace.Reopen(t.Context(), b.ws.Dir())
		if err != nil {
			t.Fatal(err)
		}
		if s, err := ws.Snapshot(t.Context()); err != nil || paths(s) != "M .gitignore, M a" {
			t.Errorf("reopened: %s %v", paths(s), err)
		}
	})
}

func TestWT05OnlyRecordedTreesArePruned(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{"a.txt": "a\n"})
	runs := t.TempDir()
	at := func(name string) func(*workspace.Options) {
		return func(o *workspace.Options) { o.Dir = filepath.Join(runs, name, "workspace") }
	}
	b := open(t, user, at("one"))
	b.write(gitrepo.Files{"a.txt": "edited by a run that was killed\n"})
	open(t, user, at("two"))
	gitrepo.WriteTree(t, runs, gitrepo.Files{"mine/workspace/precious": "p", "loose": "l", "half/workspace/workspace.json": "{}"})
	ws, err := workspace.Reopen(t.Context(), b.ws.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if s, err := ws.Snapshot(t.Context()); err != nil || !strings.Contains(string(s.Patch), "+edited by a run") {
		t.Errorf("the work of a killed run is lost: %v %s", err, s.Patch)
	}
	removed, err := workspace.Prune(t.Context(), runs, "workspace", func(name string) bool { return name == "one" })
	if err != nil || len(removed) != 1 || removed[0] != filepath.Join(runs, "two", "workspace") {
		t.Errorf("pruned %v %v", removed, err)
	}
	for _, p := range []string{"mine/workspace/precious", "loose", "half/workspace/workspace.json", "one/workspace/tree/a.txt"} {
		if _, err := os.Lstat(filepath.Join(runs, p)); err != nil {
			t.Errorf("prune took what is not its own: %v", err)
		}
	}
	if err := workspace.Discard(t.Context(), filepath.Join(runs, "mine", "workspace")); contract.KindOf(err) != contract.KindNotFound {
		t.Errorf("discard of a strange folder: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(runs, "one")); err != nil { // by hand
		t.Fatal(err)
	}
	if err := ws.Remove(t.Context()); err != nil {
		t.Errorf("remove after removal by hand: %v", err)
	}
	open(t, user, at("one"))
}

func TestRemoveTakesUnreadableFoldersAndFollowsNoLink(t *testing.T) {
	out := t.TempDir()
	gitrepo.WriteTree(t, out, gitrepo.Files{"keep": "k"})
	b := open(t, gitrepo.New(t, gitrepo.Files{"a": "a"}))
	b.write(gitrepo.Files{"locked/in/x": "x", "leave": "-> " + out})
	for _, p := range []string{"locked/in", "locked"} {
		if err := os.Chmod(filepath.Join(b.tree, p), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.ws.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(out, "keep")); err != nil {
		t.Error("a link was followed")
	}
}

func TestWT06HooksDoNotRunAtStart(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{"a": "a\n"})
	ran := filepath.Join(t.TempDir(), "ran")
	for _, h := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc"} {
		user.Write(gitrepo.Files{".git/hooks/" + h + "*": "#!/bin/sh\ntouch " + ran + "\nexit 1\n"})
	}
	user.Write(gitrepo.Files{"a": "dirty\n"})
	b := open(t, user)
	b.write(gitrepo.Files{"a": "b\n"})
	b.snapshot()
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a hook ran")
	}
	if got := user.Git("worktree", "list", "--porcelain"); strings.Count(got, "worktree ") != 1 {
		t.Errorf("a worktree is registered with the user: %s", got)
	}
}

func TestWT09SigningAndIdentityDoNotMatter(t *testing.T) {
	home := t.TempDir()
	gitrepo.WriteTree(t, home, gitrepo.Files{
		"sign*":      "#!/bin/sh\nsleep 600\n",
		".gitconfig": "[commit]\n\tgpgsign = true\n[tag]\n\tgpgsign = true\n[gpg]\n\tprogram = " + home + "/sign\n[user]\n\tuseConfigOnly = true\n",
	})
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	user := gitrepo.New(t, gitrepo.Files{"a": "a\n"})
	user.Write(gitrepo.Files{"b": "b\n"})
	user.Git("config", "commit.gpgsign", "true")
	began := time.Now()
	b := open(t, user)
	b.write(gitrepo.Files{"a": "b\n"})
	b.snapshot()
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	if out, err := gitrepo.At(t, b.tree).Try("-c", "user.name=", "commit", "-qam", "x"); err == nil {
		t.Logf("agent commit: %s", out)
	}
}

func TestDK03BulkIsNeverCopied(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{"a": "a\n"})
	files := gitrepo.Files{}
	for i := range 6000 {
		files[fmt.Sprintf("bulk/%d/%d.dat", i%20, i)] = "x"
	}
	user.Write(files)
	huge, err := os.Create(user.Path("huge.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := huge.Truncate(2 << 30); err != nil { // sparse: takes no room
		t.Fatal(err)
	}
	huge.Close()
	began := time.Now()
	b := open(t, user)
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("start took %v", d)
	}
	if b.has("huge.bin") || b.has("bulk") || !strings.Contains(b.notes(), "huge.bin") || !strings.Contains(b.notes(), "bulk/") {
		t.Errorf("notes: %q", b.notes())
	}
	if got := b.ws.Ready().Dirty; got.Untracked != 6001 || got.Included != 0 {
		t.Errorf("%+v", got)
	}
	var size int64
	_ = filepath.Walk(b.ws.Dir(), func(_ string, fi os.FileInfo, err error) error {
		if err == nil {
			size += fi.Size()
		}
		return nil
	})
	if size > 1<<20 {
		t.Errorf("the run's folder holds %d bytes", size)
	}
}

func TestDK05ParallelStarts(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		user := gitrepo.New(t, gitrepo.Files{"a": "a\n", "b/c": "c\n"})
		user.Write(gitrepo.Files{"a": "dirty\n", "n": "new\n", ".git/index.lock": "stale"})
		shot := gitrepo.Snapshot(t, user.Root)
		repo, err := workspace.Discover(t.Context(), user.Root)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		all := make([]*workspace.Workspace, 8)
		for i := range all {
			o := workspace.Options{Repo: repo, Dir: filepath.Join(t.TempDir(), "run")}
			if way != nil {
				way(&o)
			}
			wg.Go(func() {
				ws, err := workspace.Create(t.Context(), o)
				if err != nil {
					t.Errorf("create %d: %v", i, err)
				}
				all[i] = ws
			})
		}
		wg.Wait()
		shot.Same(t)
		for i, ws := range all {
			if ws == nil {
				continue
			}
			b := &bench{t: t, user: user, repo: repo, ws: ws, tree: ws.Tree()}
			b.mount()
			b.write(gitrepo.Files{"a": fmt.Sprintf("run %d\n", i)})
			if s := b.snapshot(); !strings.Contains(string(s.Patch), fmt.Sprintf("+run %d\n", i)) || paths(s) != "M a" {
				t.Errorf("run %d: %s", i, s.Patch)
			}
			b.unmount()
			if err := ws.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		}
		shot.Same(t)
	})
}

func TestSpecialFilesDoNotHang(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		user := gitrepo.New(t, gitrepo.Files{"a": "a\n", "d/.gitignore": "x\n", ".gitattributes": "* -text\n"})
		if err := unix.Mkfifo(user.Path("pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		b := open(t, user, way)
		if !strings.Contains(b.notes(), "pipe") {
			t.Errorf("notes: %q", b.notes())
		}
		b.remove("a", "d/.gitignore", ".gitattributes")
		for _, p := range []string{"a", "d/.gitignore", ".gitattributes", ".gitignore"} {
			if err := unix.Mkfifo(filepath.Join(b.tree, p), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.write(gitrepo.Files{"d/new": "n\n"})
		if s := b.snapshot(); paths(s) != "D .gitattributes, D a, D d/.gitignore, A d/new" {
			t.Errorf("changed: %s", paths(s))
		}
	})
}

func TestBaseOtherThanHead(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{"a": "1\n"})
	first := user.Git("rev-parse", "HEAD")
	user.Write(gitrepo.Files{"a": "2\n"})
	user.Commit("second")
	user.Write(gitrepo.Files{"a": "dirty\n"})
	b := open(t, user, func(o *workspace.Options) { o.Base = "HEAD~1" })
	if b.read("a") != "1\n" || b.ws.Ready().BaseSHA != first || !strings.Contains(b.notes(), "another commit") {
		t.Errorf("%+v", b.ws.Ready())
	}
	for _, bad := range []string{"nope", "--help", "HEAD~9", "a\nb"} {
		repo, _ := workspace.Discover(t.Context(), user.Root)
		_, err := workspace.Create(t.Context(), workspace.Options{Repo: repo, Base: bad, Dir: filepath.Join(t.TempDir(), "r")})
		if contract.KindOf(err) != contract.KindInvalid {
			t.Errorf("base %q: %v", bad, err)
		}
	}
}

// A small start must not cost many processes: each is some milliseconds.
func TestFewGitProcesses(t *testing.T) {
	real, err := findGit()
	if err != nil {
		t.Fatal(err)
	}
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	gitrepo.WriteTree(t, bin, gitrepo.Files{"git*": "#!/bin/sh\necho x >> " + log + "\nexec " + real + " \"$@\"\n"})
	user := gitrepo.New(t, gitrepo.Files{"a": "a\n", "b": "b\n"})
	path := os.Getenv("PATH")
	count := func(what string, most int, do func()) {
		t.Helper()
		_ = os.Remove(log)
		t.Setenv("PATH", bin+":"+path)
		do()
		t.Setenv("PATH", path)
		b, _ := os.ReadFile(log)
		if n := strings.Count(string(b), "x"); n > most {
			t.Errorf("%s took %d git processes, more than %d", what, n, most)
		} else {
			t.Logf("%s: %d git processes", what, n)
		}
	}
	var b *bench
	count("a clean start", 3, func() { b = open(t, user) })
	count("a look without changes", 0, func() { _, _ = b.ws.Changes(t.Context()) })
	b.write(gitrepo.Files{"a": "c\n"})
	count("a look with a change", 1, func() { _, _ = b.ws.Changes(t.Context()) })
	count("a second look", 0, func() { _, _ = b.ws.Changes(t.Context()) })
	count("a snapshot", 6, func() { b.snapshot() })
	user.Write(gitrepo.Files{"a": "dirty\n", "n": "n\n"})
	count("a dirty start", 6, func() { open(t, user) })
}

func findGit() (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if fi, err := os.Stat(filepath.Join(dir, "git")); err == nil && fi.Mode().IsRegular() {
			return filepath.Join(dir, "git"), nil
		}
	}
	return "", os.ErrNotExist
}
