//go:build unix

package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// simple is the plain tier of systems that cannot reap what is not their child: a command is the
// leader of a session, and its process group is ended with it. A process that left the group is not
// found, which the receipt says.
type simple struct {
	tree string
	env  []string

	mu     sync.Mutex // held while a command runs
	closed atomic.Bool
	ctx    context.Context // ends with the session
	cancel context.CancelFunc
}

func openSimple(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	if s.Overlay != nil {
		return nil, &sandbox.Error{Code: sandbox.ErrOverlay, What: "the plain tier has no mounts of its own", Hint: "use a plain tree"}
	}
	if s.ReadOnly {
		return nil, &sandbox.Error{Code: sandbox.ErrTier, What: "the plain tier cannot keep the tree read-only", Hint: "use the docker sandbox"}
	}
	if st, err := os.Stat(s.Tree); err != nil {
		return nil, startError("open the tree", err)
	} else if !st.IsDir() {
		return nil, startError("open the tree", os.ErrInvalid)
	}
	p := &simple{tree: s.Tree, env: s.Env}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return p, nil
}

// Root implements sandbox.Session.
func (p *simple) Root() string { return p.tree }

// Receipt implements sandbox.Session.
func (p *simple) Receipt() sandbox.Receipt {
	return sandbox.Receipt{
		Tier: sandbox.TierNone, Network: "unrestricted", Way: "plain", Layers: map[string]string{"processes": "process group"},
		Missing: []string{
			"commands can read and write whatever this user can, and use the network",
			"a process that leaves its process group outlives its command",
		},
	}
}

// Run implements sandbox.Commander.
func (p *simple) Run(ctx context.Context, c sandbox.Command, out sandbox.Output) (sandbox.Exit, error) {
	if err := check(c); err != nil {
		return sandbox.Exit{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return sandbox.Exit{}, &sandbox.Error{Code: sandbox.ErrLost, What: "session is closed"}
	}
	if ctx.Err() != nil {
		return sandbox.Exit{}, startError("run "+c.Argv[0], context.Cause(ctx))
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(p.tree, filepath.FromSlash(c.Dir)))
	if err != nil {
		return sandbox.Exit{}, startError("run "+c.Argv[0], err)
	}
	root, err := filepath.EvalSymlinks(p.tree)
	if rel, rerr := filepath.Rel(root, dir); err != nil || rerr != nil || !filepath.IsLocal(rel) {
		return sandbox.Exit{}, startError("run "+c.Argv[0], errors.New("folder leaves the tree"))
	}
	return p.command(ctx, c, out, dir)
}

func (p *simple) command(ctx context.Context, c sandbox.Command, out sandbox.Output, dir string) (sandbox.Exit, error) {
	stop, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(errSessionClosed) })()
	if c.Timeout > 0 {
		t := time.AfterFunc(c.Timeout, func() { cancel(context.DeadlineExceeded) })
		defer t.Stop()
	}
	grace := c.Grace
	if grace <= 0 {
		grace = 2 * time.Second
	}
	st, err := openStreams(out)
	if err != nil {
		return sandbox.Exit{}, startError("make pipes", err)
	}
	defer st.wait()
	x := exec.CommandContext(stop, c.Argv[0], c.Argv[1:]...)
	x.Dir, x.Env, x.Stdout, x.Stderr = dir, sandbox.MergeEnv(p.env, c.Env), st.write[0], st.write[1]
	x.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	x.WaitDelay = grace // then the leader is killed, and its group right after
	x.Cancel = func() error { return syscall.Kill(-x.Process.Pid, syscall.SIGTERM) }
	begun := time.Now()
	err = x.Start()
	st.handedOver()
	if err != nil {
		return sandbox.Exit{}, startError("start "+c.Argv[0], err)
	}
	_ = x.Wait() // the state tells
	left := endGroup(x.Process.Pid, st)
	e := sandbox.Exit{Duration: time.Since(begun), Left: left}
	switch why := context.Cause(stop); {
	case ctx.Err() == nil && errors.Is(why, context.DeadlineExceeded):
		e.TimedOut = true
	case errors.Is(why, errSessionClosed):
		return e, &sandbox.Error{Code: sandbox.ErrLost, What: "session was closed"}
	case ctx.Err() != nil:
		e.Canceled = true
	}
	if ws, ok := x.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Code, e.Signal = 128+int(ws.Signal()), unix.SignalName(ws.Signal())
	} else {
		e.Code = x.ProcessState.ExitCode()
	}
	return e, nil
}

var errSessionClosed = errors.New("session closed")

// endGroup lets what the leader left a moment to end, as far as it holds the output, and kills the
// rest of the group. It gives 1 when there was anything to kill.
func endGroup(leader int, st *streams) int {
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		st.wg.Wait()
	}()
	t := time.NewTimer(drainDelay)
	defer t.Stop()
	select {
	case <-quiet:
	case <-t.C:
	}
	left := 0
	if syscall.Kill(-leader, syscall.SIGKILL) == nil {
		left = 1
	}
	st.deadline()
	<-quiet
	return left
}

// Close implements sandbox.Session.
func (p *simple) Close(context.Context) error {
	p.closed.Store(true)
	p.cancel()
	p.mu.Lock() // a running command has seen the end and is being waited for
	defer p.mu.Unlock()
	return nil
}
