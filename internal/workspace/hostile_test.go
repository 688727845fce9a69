package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

// trap makes programs that leave a mark when they are run.
type trap struct {
	t   *testing.T
	dir string
}

func newTrap(t *testing.T) trap { return trap{t, t.TempDir()} }

func (tr trap) program(name string) string {
	p := filepath.Join(tr.dir, "p."+name)
	gitrepo.WriteTree(tr.t, tr.dir, gitrepo.Files{"p." + name + "*": fmt.Sprintf("#!/bin/sh\ntouch %s/ran.%s\ncat 2>/dev/null\nexit 0\n", tr.dir, name)})
	return p
}

func (tr trap) quiet(what string) {
	tr.t.Helper()
	ran, _ := filepath.Glob(filepath.Join(tr.dir, "ran.*"))
	for _, p := range ran {
		tr.t.Errorf("%s ran %s", what, filepath.Base(p))
		_ = os.Remove(p)
	}
}

// config plants every program that git can be told to run in a repository's configuration.
func (tr trap) config(side string) string {
	return "[core]\n\tfsmonitor = " + tr.program(side+"-fsmonitor") + "\n\tsshCommand = " + tr.program(side+"-ssh") +
		"\n\tpager = " + tr.program(side+"-pager") + "\n\teditor = " + tr.program(side+"-editor") + "\n\thooksPath = " + tr.dir + "/hooks\n\taskPass = " + tr.program(side+"-askpass") +
		"\n\talternateRefsCommand = " + tr.program(side+"-alt") + "\n[filter \"x\"]\n\tclean = " + tr.program(side+"-clean") + "\n\tsmudge = " + tr.program(side+"-smudge") +
		"\n\tprocess = " + tr.program(side+"-process") + "\n\trequired = true\n[diff \"x\"]\n\ttextconv = " + tr.program(side+"-textconv") + "\n\tcommand = " + tr.program(side+"-diff") +
		"\n[diff]\n\texternal = " + tr.program(side+"-external") + "\n[merge \"x\"]\n\tdriver = " + tr.program(side+"-merge") +
		"\n[gpg]\n\tprogram = " + tr.program(side+"-gpg") + "\n[commit]\n\tgpgsign = true\n[credential]\n\thelper = " + tr.program(side+"-credential") +
		"\n[uploadpack]\n\tpackObjectsHook = " + tr.program(side+"-pack") + "\n[interactive]\n\tdiffFilter = " + tr.program(side+"-filter") + "\n[alias]\n\tstatus = !" + tr.program(side+"-alias") + "\n"
}

func (tr trap) hooks(dir string) gitrepo.Files {
	files := gitrepo.Files{}
	for _, h := range []string{"post-checkout", "pre-commit", "post-commit", "post-index-change", "reference-transaction", "post-merge", "pre-auto-gc", "applypatch-msg", "pre-applypatch", "fsmonitor-watchman", "post-rewrite"} {
		files[dir+"/"+h+"*"] = fmt.Sprintf("#!/bin/sh\ntouch %s/ran.hook-%s\nexit 0\n", tr.dir, h)
	}
	return files
}

func attributes() string { return "* filter=x diff=x merge=x\n" }

// PP-03 and the vectors of sandbox.md 2.5: whatever the user's repository or the agent plants, no
// call of the host runs it.
func TestPP03NothingPlantedEverRuns(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		tr := newTrap(t)
		user := gitrepo.New(t, gitrepo.Files{"a.txt": "1\n2\n3\n", "b.txt": "b\n", ".gitattributes": attributes()})
		user.Git("config", "user.name", "Grace")
		user.Git("config", "user.email", "grace@example.com")
		user.Write(gitrepo.Files{"a.txt": "1\n2\n3\ndirty\n", "untracked": "u\n"})
		user.Write(gitrepo.Files{".git/config": user.Read(".git/config") + tr.config("user")})
		user.Write(tr.hooks(".git/hooks"))
		gitrepo.WriteTree(t, tr.dir, tr.hooks("hooks"))
		shot := gitrepo.Snapshot(t, user.Root)
		repo, err := workspace.Discover(t.Context(), user.Root)
		if err != nil {
			t.Fatal(err)
		}
		tr.quiet("discover")
		if _, err := repo.Survey(t.Context(), contract.DirtyInclude, nil); err != nil {
			t.Fatal(err)
		}
		tr.quiet("survey")
		b := open(t, user, way)
		tr.quiet("create")
		shot.Same(t)

		plantInTree(t, tr, b)
		if _, err := b.ws.Changes(t.Context()); err != nil {
			t.Error(err)
		}
		tr.quiet("changes")
		s := b.snapshot()
		tr.quiet("snapshot")
		if got := paths(s); got != "M .gitattributes, M a.txt, A evil/s, A evil/t" {
			t.Errorf("changed: %s", got)
		}
		if err := b.ws.Checkout(t.Context(), s, filepath.Join(t.TempDir(), "clean")); err != nil {
			t.Fatal(err)
		}
		tr.quiet("checkout")
		shot.Same(t)
		for what, change := range map[string]func(*workspace.ApplyOptions){
			"check":  func(o *workspace.ApplyOptions) { o.Check = true },
			"branch": func(o *workspace.ApplyOptions) { o.Branch = "side" },
			"3way":   func(o *workspace.ApplyOptions) { o.ThreeWay, o.Check = true, true },
			"plain":  func(*workspace.ApplyOptions) {},
		} {
			r, err := try(t, b, s, change)
			if err != nil && what != "branch" { // the branch starts from HEAD, which has not the dirty line
				t.Errorf("%s: %v", what, err)
			}
			tr.quiet("apply " + what)
			if r.State == workspace.ReceiptApplied && r.Branch == "" {
				undo(t, b, r)
				tr.quiet("undo")
			}
		}
		user.Write(gitrepo.Files{"a.txt": "1\n2\n3\n"})
		if _, err := try(t, b, s, func(o *workspace.ApplyOptions) { o.Commit, o.Paths = "c", []string{"evil/**"} }); err != nil {
			t.Errorf("commit: %v", err)
		}
		tr.quiet("apply commit")
		b.unmount()
		if err := b.ws.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		tr.quiet("remove")
	})
}

// plantInTree does what a hostile agent would: it owns its repository and everything in the tree.
func plantInTree(t *testing.T, tr trap, b *bench) {
	t.Helper()
	agent := b.ws.Binds()[0].Path
	config, err := os.ReadFile(filepath.Join(agent, "config"))
	if err != nil {
		t.Fatal(err)
	}
	gitrepo.WriteTree(t, agent, gitrepo.Files{"config": string(config) + tr.config("agent")})
	gitrepo.WriteTree(t, agent, tr.hooks("hooks"))
	// a nested repository, also as a gitlink in the agent's index
	gitrepo.WriteTree(t, b.tree, gitrepo.Files{"evil/s": "s\n"})
	nested := gitrepo.At(t, filepath.Join(b.tree, "evil"))
	nested.Git("init", "-q", ".")
	nested.Commit("s")
	nested.Write(gitrepo.Files{".git/config": nested.Read(".git/config") + tr.config("nested"), "t": "t\n"})
	nested.Write(tr.hooks(".git/hooks"))
	// the tree's pointer replaced by a repository of the agent's
	b.remove(".git")
	gitrepo.At(t, b.tree).Git("init", "-q", ".")
	b.write(gitrepo.Files{".git/config": "[core]\n\trepositoryformatversion = 0\n" + tr.config("fresh"), "a.txt": "1\nTWO\n3\ndirty\n", ".gitattributes": attributes() + "*.bin diff=x\n"})
	b.write(tr.hooks(".git/hooks"))
	for _, p := range []string{"ran.*"} { // what the planting itself set off
		ran, _ := filepath.Glob(filepath.Join(tr.dir, p))
		for _, r := range ran {
			_ = os.Remove(r)
		}
	}
}

func TestGitPointerSwapsLeadNowhere(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		tr := newTrap(t)
		b := open(t, gitrepo.New(t, gitrepo.Files{"a": "a\n", "d/x": "x\n"}), way)
		evil := gitrepo.New(t, gitrepo.Files{"z": "z\n"})
		evil.Write(gitrepo.Files{".git/config": evil.Read(".git/config") + tr.config("redirect")})
		b.remove(".git")
		b.write(gitrepo.Files{".git": "gitdir: " + evil.Root + "/.git\n", "d/.git": "gitdir: " + evil.Root + "/.git\n", "a": "b\n"})
		if s := b.snapshot(); paths(s) != "M a" {
			t.Errorf("changed: %s", paths(s))
		}
		b.remove(".git", "d/.git")
		b.write(gitrepo.Files{".git": "-> " + evil.Root + "/.git", "d/.git": "-> " + evil.Root + "/.git"})
		if s := b.snapshot(); paths(s) != "M a" {
			t.Errorf("changed: %s", paths(s))
		}
		tr.quiet("snapshot")
	})
}

func TestLFSFilesAreNamedAndNoFilterRuns(t *testing.T) {
	tr := newTrap(t)
	user := gitrepo.New(t, gitrepo.Files{".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"})
	user.Git("config", "filter.lfs.process", tr.program("lfs"))
	user.Git("config", "filter.lfs.required", "true")
	b := open(t, user)
	if n := b.notes(); n == "" || !strings.Contains(n, "*.bin") || !strings.Contains(n, "LFS") {
		t.Errorf("notes: %q", n)
	}
	b.write(gitrepo.Files{"x.bin": "new\n"})
	b.snapshot()
	tr.quiet("a run")
}
