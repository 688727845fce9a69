package gitrepo_test

import (
	"os"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
)

func TestSnapshotSeesEveryKindOfChange(t *testing.T) {
	r := gitrepo.New(t, gitrepo.Files{"a.txt": "a\n", "run*": "#!/bin/sh\n", "link": "-> a.txt"})
	for name, change := range map[string]func(){
		"content":  func() { r.Write(gitrepo.Files{"a.txt": "b\n"}) },
		"mode":     func() { _ = os.Chmod(r.Path("a.txt"), 0o755) },
		"time":     func() { _ = os.Chtimes(r.Path("a.txt"), time.Time{}, time.Unix(1, 5)) },
		"ref":      func() { r.Git("branch", "b") },
		"config":   func() { r.Git("config", "a.b", "c") },
		"index":    func() { r.Git("add", "-A") },
		"stash":    func() { r.Write(gitrepo.Files{"a.txt": "c\n"}); r.Git("stash") },
		"hook":     func() { r.Write(gitrepo.Files{".git/hooks/post-checkout*": "#!/bin/sh\n"}) },
		"worktree": func() { r.Git("worktree", "add", "-q", "--detach", t.TempDir()+"/w") },
		"new file": func() { r.Write(gitrepo.Files{"n": "n"}) },
		"link":     func() { _ = os.Remove(r.Path("link")); r.Write(gitrepo.Files{"link": "-> run"}) },
	} {
		shot := gitrepo.Snapshot(t, r.Root)
		if d := shot.Diff(t); len(d) > 0 {
			t.Fatalf("before %s: %v", name, d)
		}
		change()
		if len(shot.Diff(t)) == 0 {
			t.Errorf("a change of %s was not seen", name)
		}
	}
}

func TestCommitsAreTheSameEverywhere(t *testing.T) {
	a := gitrepo.New(t, gitrepo.Files{"a.txt": "a\n"})
	b := gitrepo.New(t, gitrepo.Files{"a.txt": "a\n"})
	if x, y := a.Git("rev-parse", "HEAD"), b.Git("rev-parse", "HEAD"); x != y {
		t.Errorf("two toys differ: %s and %s", x, y)
	}
}
