package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

const (
	maxGitOutput = 1 << 30  // bytes of one git call's output
	maxGitErrors = 16 << 10 // bytes kept of what it says on stderr
	gitKillDelay = 2 * time.Second
)

// git is one place git is run in: a git directory, perhaps a work tree and an index. The zero
// index is the directory's own.
type git struct {
	dir   string // --git-dir
	tree  string // --work-tree; "" for none
	index string // GIT_INDEX_FILE
	cwd   string // "" is tree, or dir
	env   []string
	input io.Reader

	settings []string // more of -c, after the safe ones
}

// safeConfig holds on every call, whatever the repository's own configuration says: nothing in it
// names a program to run, and no protocol may be spoken.
func safeConfig() []string {
	return []string{
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.attributesFile=/dev/null",
		"-c", "core.untrackedCache=false", "-c", "core.splitIndex=false", "-c", "core.pager=cat", "-c", "core.editor=false",
		"-c", "core.quotePath=false", "-c", "protocol.allow=never", "-c", "submodule.recurse=false",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "commit.gpgSign=false", "-c", "core.logAllRefUpdates=false",
	}
}

// baseEnv is all the environment a git call gets. No GIT_ variable of the caller is in it.
func baseEnv() []string {
	env := []string{
		"LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1",
		"GIT_LITERAL_PATHSPECS=1", "GIT_ALLOW_PROTOCOL=", "GIT_ASKPASS=false", "GIT_SSH_COMMAND=false", "GIT_PAGER=cat",
		"GIT_AUTHOR_NAME=rivumi", "GIT_AUTHOR_EMAIL=rivumi@localhost", "GIT_AUTHOR_DATE=946684800 +0000",
		"GIT_COMMITTER_NAME=rivumi", "GIT_COMMITTER_EMAIL=rivumi@localhost", "GIT_COMMITTER_DATE=946684800 +0000",
	}
	for _, name := range []string{"PATH", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// run starts git with args and gives its standard output.
func (g git) run(ctx context.Context, args ...string) ([]byte, error) {
	full := safeConfig()
	for _, s := range g.settings {
		full = append(full, "-c", s)
	}
	if g.dir != "" {
		full = append(full, "--git-dir="+g.dir)
	}
	if g.tree != "" {
		full = append(full, "--work-tree="+g.tree)
	}
	env := append(baseEnv(), g.env...)
	if g.index != "" {
		env = append(env, "GIT_INDEX_FILE="+g.index)
	}
	cwd := g.cwd
	if cwd == "" {
		cwd = g.tree
	}
	if cwd == "" {
		cwd = g.dir
	}
	return start(ctx, call{cwd: cwd, env: env, args: append(full, args...), name: args[0], input: g.input})
}

// call is one git process.
type call struct {
	cwd, name string
	env, args []string
	input     io.Reader
}

func start(ctx context.Context, c call) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", c.args...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.WaitDelay = c.cwd, c.env, c.input, gitKillDelay
	out := &bounded{limit: maxGitOutput}
	errs := &bounded{limit: maxGitErrors, drop: true}
	cmd.Stdout, cmd.Stderr = out, errs
	err := cmd.Run()
	if err == nil {
		return out.buf.Bytes(), nil
	}
	if ctx.Err() != nil {
		return out.buf.Bytes(), fmt.Errorf("git %s: %w", c.name, context.Cause(ctx))
	}
	if errors.Is(err, exec.ErrNotFound) {
		return nil, contract.Errorf(contract.KindUnavailable, "git is not installed or not in PATH: %w", err)
	}
	ge := &gitError{name: c.name, text: contract.CleanText(strings.TrimSpace(errs.buf.String())), err: err}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		ge.code = exit.ExitCode()
	}
	if strings.Contains(ge.text, "No space left on device") {
		ge.err = syscall.ENOSPC
	}
	return out.buf.Bytes(), ge
}

// gitError is a git process that did not end well.
type gitError struct {
	name string
	code int
	text string
	err  error
}

// Error implements error.
func (e *gitError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("git %s: %v", e.name, e.err)
	}
	return fmt.Sprintf("git %s: %s", e.name, e.text)
}

// Unwrap gives the cause.
func (e *gitError) Unwrap() error { return e.err }

// exitedWith reports whether err is a git process that ended with this code.
func exitedWith(err error, code int) bool {
	ge, ok := errors.AsType[*gitError](err)
	return ok && ge.code == code
}

// bounded is a buffer that refuses, or drops, what is over its limit.
type bounded struct {
	buf   bytes.Buffer
	limit int
	drop  bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.limit - b.buf.Len(); len(p) > room {
		if !b.drop {
			return 0, contract.Errorf(contract.KindTooLarge, "git printed more than %d bytes", b.limit)
		}
		b.buf.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return b.buf.Write(p)
}
