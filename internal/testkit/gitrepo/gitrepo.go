// Package gitrepo makes toy repositories with fixed dates and identity for tests, and proves that a
// user's checkout was left exactly as it was. It imports nothing of the project, so that every
// package's tests can use it. It runs git itself, on repositories the test made.
package gitrepo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Repo is a repository of a test.
type Repo struct {
	t    testing.TB
	Root string // of the checkout, symbolic links resolved
}

// Files are the files of a tree: path to content. A content that starts with "-> " makes a
// symbolic link, a path that ends in "*" an executable file (without the star).
type Files map[string]string

// New makes a repository with one commit of files on branch trunk.
func New(t testing.TB, files Files) *Repo {
	t.Helper()
	r := Empty(t)
	r.Write(files)
	r.Commit("first")
	return r
}

// Empty makes a repository without a commit.
func Empty(t testing.TB) *Repo {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &Repo{t: t, Root: filepath.Join(root, "repo")}
	r.must(os.Mkdir(r.Root, 0o755))
	r.Git("init", "-q", "-b", "trunk", ".")
	return r
}

// At gives a handle on a checkout that is there already, such as a linked worktree.
func At(t testing.TB, root string) *Repo { return &Repo{t: t, Root: root} }

// Env is the environment of git in tests: no configuration of the machine, fixed identity and dates.
func Env() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
	}, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always")
}

// Git runs git in the checkout and gives its output without the last line break.
func (r *Repo) Git(args ...string) string {
	r.t.Helper()
	out, err := r.Try(args...)
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// Try is Git for a call that may fail.
func (r *Repo) Try(args ...string) (string, error) {
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir, cmd.Env = r.Root, Env()
	out, err := cmd.CombinedOutput()
	return strings.TrimSuffix(string(out), "\n"), err
}

// Write writes files below the root.
func (r *Repo) Write(files Files) {
	r.t.Helper()
	WriteTree(r.t, r.Root, files)
}

// WriteTree writes files below any folder.
func WriteTree(t testing.TB, root string, files Files) {
	t.Helper()
	for name, text := range files {
		name, exec := strings.CutSuffix(name, "*")
		p := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(target, p); err != nil {
				t.Fatal(err)
			}
			continue
		}
		mode := os.FileMode(0o644)
		if exec {
			mode = 0o755
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// Commit adds everything and commits it.
func (r *Repo) Commit(message string) string {
	r.t.Helper()
	r.Git("add", "-A")
	r.Git("commit", "-q", "--allow-empty", "-m", message)
	return r.Git("rev-parse", "HEAD")
}

// Read reads a file of the checkout.
func (r *Repo) Read(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.Root, filepath.FromSlash(name)))
	r.must(err)
	return string(b)
}

// Path is the host path of a file of the checkout.
func (r *Repo) Path(name string) string { return filepath.Join(r.Root, filepath.FromSlash(name)) }

// Clone makes a fresh clone of a commit, without any uncommitted work.
func (r *Repo) Clone(commit string) *Repo {
	r.t.Helper()
	c := &Repo{t: r.t, Root: filepath.Join(r.t.TempDir(), "clone")}
	r.Git("clone", "-q", "--no-checkout", r.Root, c.Root)
	c.Git("checkout", "-q", "--detach", commit)
	return c
}

func (r *Repo) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}
