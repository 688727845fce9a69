package workspace_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

// try applies a snapshot to the user's checkout.
func try(t *testing.T, b *bench, s workspace.Snapshot, change func(*workspace.ApplyOptions)) (workspace.Receipt, error) {
	t.Helper()
	repo, err := workspace.Discover(t.Context(), b.user.Root)
	if err != nil {
		t.Fatal(err)
	}
	o := workspace.ApplyOptions{Repo: repo, Patch: s.Patch, Manifest: s.Manifest, Objects: b.ws.Objects(), Dir: filepath.Join(t.TempDir(), "receipt")}
	if change != nil {
		change(&o)
	}
	return workspace.Apply(t.Context(), o)
}

func apply(t *testing.T, b *bench, s workspace.Snapshot, change func(*workspace.ApplyOptions)) workspace.Receipt {
	t.Helper()
	r, err := try(t, b, s, change)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return r
}

func undo(t *testing.T, b *bench, r workspace.Receipt) workspace.Undone {
	t.Helper()
	r, err := workspace.ReadReceipt(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	u, err := workspace.Undo(t.Context(), b.repo, r)
	if err != nil {
		t.Fatalf("undo: %v", err)
	}
	return u
}

func edited(t *testing.T) *bench {
	t.Helper()
	user := gitrepo.New(t, gitrepo.Files{"one.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "two.txt": "a\nb\nc\n", "gone.txt": "g\n", "other.txt": "o\n", "x.sh*": "x\n"})
	user.Git("config", "user.name", "Grace")
	user.Git("config", "user.email", "grace@example.com")
	b := open(t, user)
	b.write(gitrepo.Files{"one.txt": "1\nTWO\n3\n4\n5\n6\n7\n8\n9\n", "two.txt": "a\nB\nc\n", "new/n.txt": "n\n", "x.sh*": "y\n"})
	b.remove("gone.txt")
	return b
}

func TestPT07ApplyIsAllOrNothing(t *testing.T) {
	b := edited(t)
	s := b.snapshot()
	b.user.Write(gitrepo.Files{"two.txt": "a\nuser\nc\n", "other.txt": "user\n"})
	b.user.Git("add", "other.txt")
	shot := gitrepo.Snapshot(t, b.user.Root)
	_, err := try(t, b, s, nil)
	if contract.KindOf(err) != contract.KindConflict || !strings.Contains(err.Error(), "two.txt") || strings.Contains(err.Error(), "one.txt") || !strings.Contains(err.Error(), "3way") {
		t.Errorf("got %v", err)
	}
	shot.Same(t)
	_, err = try(t, b, s, func(o *workspace.ApplyOptions) { o.Check = true })
	if contract.KindOf(err) != contract.KindConflict {
		t.Errorf("check: %v", err)
	}
	shot.Same(t)
}

func TestPT07SecondApplySaysAlready(t *testing.T) {
	for _, manifest := range []bool{true, false} {
		b := edited(t)
		s := b.snapshot()
		if !manifest {
			s.Manifest = nil
		}
		b.user.Write(gitrepo.Files{"one.txt": "1\n2\n3\n4\n5\n6\n7\n8\nuser\n", "other.txt": "user\n"}) // elsewhere
		r := apply(t, b, s, nil)
		if r.State != workspace.ReceiptApplied || len(r.Files) != 5 {
			t.Errorf("%+v", r)
		}
		if got := b.user.Read("one.txt"); got != "1\nTWO\n3\n4\n5\n6\n7\n8\nuser\n" || b.user.Read("other.txt") != "user\n" {
			t.Errorf("the user's own edits are gone: %q", got)
		}
		shot := gitrepo.Snapshot(t, b.user.Root)
		r, err := try(t, b, s, nil)
		if err != nil || r.State != workspace.ReceiptAlready {
			t.Errorf("second: %v %+v", err, r)
		}
		shot.Same(t)
	}
}

func TestApplyLeavesIndexRefsAndConfigAlone(t *testing.T) {
	b := edited(t)
	s := b.snapshot()
	shot := gitrepo.Snapshot(t, b.user.Root)
	r := apply(t, b, s, nil)
	for _, d := range shot.Diff(t) {
		if strings.Contains(d, "/.git/") {
			t.Errorf("apply touched git's own files: %s", d)
		}
	}
	if got, want := listing(t, b.user.Root), listing(t, b.tree); got != want {
		t.Errorf("applied:\n%swant:\n%s", got, want)
	}
	u := undo(t, b, r)
	if len(u.Kept) != 0 || len(u.Reverted) != 5 {
		t.Errorf("%+v", u)
	}
	if got := b.user.Git("status", "--short"); got != "" {
		t.Errorf("after undo: %s", got)
	}
}

func TestUndoKeepsWhatWasChangedSince(t *testing.T) {
	b := edited(t)
	r := apply(t, b, b.snapshot(), nil)
	b.user.Write(gitrepo.Files{"two.txt": "later\n"})
	u := undo(t, b, r)
	if !slices.Equal(u.Kept, []string{"two.txt"}) || b.user.Read("two.txt") != "later\n" || b.user.Git("status", "--short") != " M two.txt" {
		t.Errorf("%+v %s", u, b.user.Git("status", "--short"))
	}
	r, err := workspace.ReadReceipt(r.Dir)
	if err != nil || r.State != workspace.ReceiptUndone {
		t.Errorf("%v %s", err, r.State)
	}
	if _, err := workspace.Undo(t.Context(), b.repo, r); contract.KindOf(err) != contract.KindConflict {
		t.Errorf("second undo: %v", err)
	}
}

func TestApplyThreeWay(t *testing.T) {
	b := edited(t)
	s := b.snapshot()
	b.user.Write(gitrepo.Files{"one.txt": "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", "two.txt": "a\nuser\nc\n"})
	r := apply(t, b, s, func(o *workspace.ApplyOptions) { o.ThreeWay = true })
	if !slices.Equal(r.Conflicts, []string{"two.txt"}) {
		t.Errorf("conflicts: %v", r.Conflicts)
	}
	if got := b.user.Read("two.txt"); !strings.Contains(got, "<<<<<<<") || !strings.Contains(got, "user") {
		t.Errorf("two.txt: %q", got)
	}
	if got := b.user.Read("one.txt"); got != "0\n1\nTWO\n3\n4\n5\n6\n7\n8\n9\n" {
		t.Errorf("one.txt: %q", got)
	}
	undo(t, b, r)
	if b.user.Read("two.txt") != "a\nuser\nc\n" {
		t.Error("undo of a merge")
	}
}

func TestApplyToIndexCommitAndBranch(t *testing.T) {
	b := edited(t)
	s := b.snapshot()
	head := b.user.Git("rev-parse", "HEAD")
	ran := filepath.Join(t.TempDir(), "ran")
	for _, h := range []string{"pre-commit", "commit-msg", "post-commit", "post-index-change", "reference-transaction", "prepare-commit-msg"} {
		b.user.Write(gitrepo.Files{".git/hooks/" + h + "*": "#!/bin/sh\ntouch " + ran + "\n"})
	}
	branch := apply(t, b, s, func(o *workspace.ApplyOptions) { o.Branch = "side"; o.Commit = "on the side" })
	if b.user.Git("log", "-1", "--format=%s", "side") != "on the side" || b.user.Git("status", "--short") != "" || branch.Commit == "" {
		t.Errorf("branch: %+v %s", branch, b.user.Git("status", "--short"))
	}
	if _, err := try(t, b, s, func(o *workspace.ApplyOptions) { o.Branch = "side" }); contract.KindOf(err) != contract.KindConflict {
		t.Errorf("a branch that is there: %v", err)
	}
	for _, bad := range []string{"-x", "a..b", "@{-1}", "a b"} {
		if _, err := try(t, b, s, func(o *workspace.ApplyOptions) { o.Branch = bad }); contract.KindOf(err) != contract.KindInvalid {
			t.Errorf("branch %q: %v", bad, err)
		}
	}
	b.user.Write(gitrepo.Files{"other.txt": "user\n"})
	r := apply(t, b, s, func(o *workspace.ApplyOptions) { o.Commit = "from a run" })
	if got := b.user.Git("log", "--format=%s %an", "-1"); got != "from a run Grace" || b.user.Git("rev-parse", "HEAD~1") != head || r.Commit != b.user.Git("rev-parse", "HEAD") {
		t.Errorf("commit: %s", got)
	}
	if got := b.user.Git("status", "--short"); got != " M other.txt" {
		t.Errorf("after commit: %q", got)
	}
	if b.user.Git("rev-parse", "HEAD^{tree}") != s.FinalTree {
		t.Error("the commit's tree is not the one that was checked")
	}
	if _, err := workspace.Undo(t.Context(), b.repo, r); contract.KindOf(err) != contract.KindInvalid || !strings.Contains(err.Error(), "git revert") {
		t.Errorf("undo of a commit: %v", err)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a hook ran")
	}
	c := edited(t)
	r = apply(t, c, c.snapshot(), func(o *workspace.ApplyOptions) { o.Index = true })
	if got := c.user.Git("diff", "--cached", "--name-only"); !r.Index || strings.Count(got, "\n") != 4 || c.user.Git("diff", "--name-only") != "" {
		t.Errorf("index: %q, not in it: %q", got, c.user.Git("diff", "--name-only"))
	}
}

func TestApplyWithALockedIndexChangesNothing(t *testing.T) {
	b := edited(t)
	s := b.snapshot()
	b.user.Write(gitrepo.Files{".git/index.lock": "stale"})
	shot := gitrepo.Snapshot(t, b.user.Root)
	if _, err := try(t, b, s, func(o *workspace.ApplyOptions) { o.Index = true }); contract.KindOf(err) != contract.KindConflict {
		t.Errorf("got %v", err)
	}
	shot.Same(t)
	apply(t, b, s, nil) // files alone need no lock
}

func TestApplyOnlySomePaths(t *testing.T) {
	b := edited(t)
	r := apply(t, b, b.snapshot(), func(o *workspace.ApplyOptions) { o.Paths = []string{"*.txt"} })
	if got := b.user.Git("status", "--short"); got != " D gone.txt\n M one.txt\n M two.txt" || !slices.Equal(r.Skipped, []string{"new/n.txt", "x.sh"}) {
		t.Errorf("%q, skipped %v", got, r.Skipped)
	}
}

func TestApplyThroughLinksIsRefused(t *testing.T) {
	out := t.TempDir()
	user := gitrepo.New(t, gitrepo.Files{"d/f": "f\n"})
	b := open(t, user)
	b.write(gitrepo.Files{"d/f": "g\n", "d/new": "n\n"})
	s := b.snapshot()
	if err := os.RemoveAll(user.Path("d")); err != nil {
		t.Fatal(err)
	}
	gitrepo.WriteTree(t, out, gitrepo.Files{"f": "f\n"})
	user.Write(gitrepo.Files{"d": "-> " + out})
	shot := gitrepo.Snapshot(t, out)
	if _, err := try(t, b, s, nil); contract.KindOf(err) != contract.KindConflict {
		t.Errorf("got %v", err)
	}
	shot.Same(t)
}

func TestApplyTurnsFilesIntoFoldersAndBack(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{"f": "f\n", "d/x": "x\n", "d/y": "y\n"})
	b := open(t, user)
	b.remove("f", "d")
	b.write(gitrepo.Files{"f/in": "i\n", "d": "now a file\n"})
	r := apply(t, b, b.snapshot(), nil)
	if got, want := listing(t, user.Root), listing(t, b.tree); got != want {
		t.Errorf("applied:\n%swant:\n%s", got, want)
	}
	undo(t, b, r)
	if got := user.Git("status", "--short"); got != "" {
		t.Errorf("after undo: %s", got)
	}
	s := b.snapshot()
	user.Write(gitrepo.Files{"d/mine": "m\n"}) // keeps the folder
	shot := gitrepo.Snapshot(t, user.Root)
	if _, err := try(t, b, s, nil); err == nil {
		t.Error("a folder with the user's file was replaced")
	}
	for _, d := range shot.Diff(t) {
		if !strings.Contains(d, "drwx") && !strings.Contains(d, "changed:") {
			t.Errorf("not rolled back: %s", d)
		}
	}
	if user.Read("d/x") != "x\n" || user.Read("f") != "f\n" || user.Read("d/mine") != "m\n" {
		t.Error("not rolled back")
	}
}

func TestApplyNamesFilesThatRunLater(t *testing.T) {
	b := open(t, gitrepo.New(t, gitrepo.Files{"a": "a\n"}))
	later := gitrepo.Files{".github/workflows/x.yml": "x\n", ".vscode/tasks.json": "{}\n", ".envrc": "e\n", ".husky/pre-commit": "h\n", "sub/package.json": "{}\n", "Makefile": "m\n", ".gitattributes": "* -text\n"}
	b.write(later)
	b.write(gitrepo.Files{"src/main.go": "package main\n"})
	s := b.snapshot()
	r := apply(t, b, s, func(o *workspace.ApplyOptions) { o.Check = true })
	if len(r.CodeLater) != len(later) || !slices.Equal(s.CodeLater, r.CodeLater) || r.State != workspace.ReceiptChecked {
		t.Errorf("%v %v", r.CodeLater, s.CodeLater)
	}
	if got := b.user.Git("status", "--short"); got != "" {
		t.Errorf("check changed: %s", got)
	}
}

func TestApplyRefusesAHostilePatch(t *testing.T) {
	b := edited(t)
	s := b.snapshot()
	s.Patch = append(s.Patch, "diff --git a/.git/hooks/x b/.git/hooks/x\nnew file mode 100755\nindex 0000000..257cc56\n--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+foo\n"...)
	shot := gitrepo.Snapshot(t, b.user.Root)
	if _, err := try(t, b, s, nil); contract.KindOf(err) != contract.KindInvalid {
		t.Errorf("got %v", err)
	}
	shot.Same(t)
}

func TestApplyOfAModeAlone(t *testing.T) {
	b := open(t, gitrepo.New(t, gitrepo.Files{"x": "x\n"}))
	if err := os.Chmod(filepath.Join(b.tree, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := apply(t, b, b.snapshot(), nil); r.State != workspace.ReceiptApplied || b.user.Git("diff", "--summary") != " mode change 100644 => 100755 x" {
		t.Errorf("%+v %q", r, b.user.Git("diff", "--summary"))
	}
}
