package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/netproxy"
)

const (
	openTimeout  = 30 * time.Second // from start to ready
	startTimeout = 30 * time.Second // from a command to "started"
	stopSlack    = 15 * time.Second // over the grace, until a supervisor counts as lost
	defaultGrace = 2 * time.Second
)

// session is the owner's side of one supervisor.
type session struct {
	link    *link
	held    holder
	env     []string
	root    string
	receipt sandbox.Receipt
	tree    *os.File // holds a tree that is only mounted inside, or nil
	work    string   // of the overlay
	proxy   *netproxy.Server
	group   *group
	release func() // what is to be done once it has ended, or nil

	turn chan struct{} // holds one token: commands run one after another

	mu     sync.Mutex
	closed bool
	lost   error
}

// holder is what the owner knows of the process or container that is the supervisor.
type holder struct {
	gone  <-chan struct{} // closed when it has been waited for
	kill  func()          // ends it and everything below it, at the latest when it returns gone closes
	words func() string   // what it said last, for errors
}

// launch starts a supervisor and waits until it is ready.
func launch(ctx context.Context, p process, q openRequest, env []string) (*session, ready, error) {
	defer closeFiles(p.files)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, ready{}, startError("make a control socket", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	l, err := newLink(pair[0], "control")
	if err != nil {
		return nil, ready{}, startError("open the control socket", err)
	}
	// The lifetime of the supervisor is the session's, not that of the ctx which opens it.
	stderr := &sandbox.Capture{Edge: 4096}
	cmd := p.command(theirs, stderr)
	if err := cmd.Start(); err != nil {
		l.conn.Close()
		return nil, ready{}, startError("start the supervisor", err)
	}
	theirs.Close()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // its replies tell how it went
	}()
	return begin(ctx, l, holder{gone: gone, words: stderr.String, kill: func() {
		signalBelow(cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Process.Kill() // an ended one is fine
	}}, q, env)
}

// begin opens the session of a supervisor that is there. Descriptors given go with the request.
func begin(ctx context.Context, l *link, h holder, q openRequest, env []string, fds ...int) (*session, ready, error) {
	s := &session{link: l, held: h, env: env, root: q.Tree, turn: make(chan struct{}, 1)}
	r, err := s.handshake(ctx, q, fds)
	if err != nil {
		_ = s.end(context.WithoutCancel(ctx))
		return nil, r, err
	}
	s.turn <- struct{}{}
	return s, r, nil
}

func (s *session) handshake(ctx context.Context, q openRequest, give []int) (ready, error) {
	_ = s.link.conn.SetDeadline(time.Now().Add(openTimeout))
	stop := s.interrupt(ctx)
	defer stop()
	if err := s.link.send(message{Open: &q}, give...); err != nil {
		return ready{}, startError("talk to the supervisor", err)
	}
	m, fds, err := s.link.receive()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return ready{}, startError("open the session", s.explain(err))
	}
	if m.Ready == nil {
		closeAll(fds)
		return ready{}, startError("open the session", errors.New("unexpected reply"))
	}
	if m.Ready.Code != "" {
		closeAll(fds)
		return *m.Ready, &sandbox.Error{Code: m.Ready.Code, What: m.Ready.What, Hint: m.Ready.Hint}
	}
	_ = s.link.conn.SetDeadline(time.Time{})
	m.Ready.fds = fds
	return *m.Ready, nil
}

// interrupt makes reads fail at once when ctx ends. The returned function undoes it and has waited
// for what it started.
func (s *session) interrupt(ctx context.Context) (undo func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = s.link.conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// explain adds what a supervisor that has ended, or is about to, printed last.
func (s *session) explain(err error) error {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-s.held.gone:
		if text := strings.TrimSpace(s.held.words()); text != "" {
			return fmt.Errorf("%w: %s", err, text)
		}
	case <-t.C:
	}
	return err
}

// Root implements sandbox.Session.
func (s *session) Root() string { return s.root }

// prove names the attacks that this tier held, where it is the same tier on the same kernel.
func (s *session) prove(p sandbox.Proof) {
	if p.Tier == s.receipt.Tier && p.Kernel == s.receipt.Versions["kernel"] {
		s.receipt.Matrix = p.Digest
	}
}

// Receipt implements sandbox.Session.
func (s *session) Receipt() sandbox.Receipt { return s.receipt }

// Run implements sandbox.Commander. Commands of one session run one after another: only so can a
// process that outlives its parent be told to belong to one of them.
func (s *session) Run(ctx context.Context, c sandbox.Command, out sandbox.Output) (sandbox.Exit, error) {
	if err := check(c); err != nil {
		return sandbox.Exit{}, err
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Exit{}, startError("run "+c.Argv[0], context.Cause(ctx))
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		return sandbox.Exit{}, startError("run "+c.Argv[0], context.Cause(ctx))
	}
	defer func() { s.turn <- struct{}{} }()
	if err := s.usable(); err != nil {
		return sandbox.Exit{}, err
	}
	begun := time.Now()
	streams, err := openStreams(out)
	if err != nil {
		return sandbox.Exit{}, startError("make pipes", err)
	}
	defer streams.wait()
	e, err := s.command(ctx, c, streams)
	e.Duration = time.Since(begun)
	return e, err
}

func (s *session) usable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return &sandbox.Error{Code: sandbox.ErrLost, What: "session is closed"}
	case s.lost != nil:
		return &sandbox.Error{Code: sandbox.ErrLost, What: "session is gone", Err: s.lost}
	}
	return nil
}

// command talks one command through. The pipes' write ends are closed here in any case.
func (s *session) command(ctx context.Context, c sandbox.Command, st *streams) (sandbox.Exit, error) {
	grace := c.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	q := &runRequest{Argv: c.Argv, Dir: filepath.FromSlash(c.Dir), Env: sandbox.MergeEnv(s.env, c.Env), GraceMS: grace.Milliseconds()}
	_ = s.link.conn.SetDeadline(time.Now().Add(startTimeout))
	err := s.link.send(message{Run: q}, st.fds()...)
	st.handedOver()
	if err != nil {
		return sandbox.Exit{}, s.fail(err)
	}
	m, err := s.reply()
	if err != nil {
		return sandbox.Exit{}, s.fail(err)
	}
	if m.Exit != nil {
		return sandbox.Exit{}, startError("start "+c.Argv[0], errors.New(m.Exit.Err))
	}
	_ = s.link.conn.SetDeadline(time.Time{})
	kills := s.group.memoryKills()
	h := s.stopper(ctx, c.Timeout, grace)
	m, err = s.reply()
	e := sandbox.Exit{}
	e.Canceled, e.TimedOut = h.release()
	if err != nil {
		return e, s.fail(err)
	}
	if m.Exit == nil {
		return e, s.fail(errors.New("unexpected reply"))
	}
	e.Code, e.Signal, e.Left = m.Exit.Code, m.Exit.Signal, m.Exit.Left
	e.Memory = m.Exit.Memory || s.group.memoryKills() > kills
	return e, nil
}

func (s *session) reply() (message, error) {
	m, fds, err := s.link.receive()
	closeAll(fds)
	return m, err
}

// fail marks the session as lost and ends what is left of it.
func (s *session) fail(err error) error {
	s.mu.Lock()
	closed := s.closed
	if s.lost == nil {
		s.lost = err
	}
	s.mu.Unlock()
	s.kill()
	if closed {
		return &sandbox.Error{Code: sandbox.ErrLost, What: "session was closed"}
	}
	return &sandbox.Error{Code: sandbox.ErrLost, What: "session is gone", Err: s.explain(err)}
}

// stopper asks the supervisor to end the command when ctx or the time-out is over.
type stopper struct {
	s     *session
	grace time.Duration

	mu       sync.Mutex
	over     bool
	canceled bool
	timedOut bool

	timer *time.Timer
	undo  func() bool
	wg    sync.WaitGroup
}

func (s *session) stopper(ctx context.Context, timeout, grace time.Duration) *stopper {
	h := &stopper{s: s, grace: grace}
	h.wg.Add(1)
	h.undo = context.AfterFunc(ctx, func() { defer h.wg.Done(); h.stop(&h.canceled) })
	if timeout > 0 {
		h.wg.Add(1)
		h.timer = time.AfterFunc(timeout, func() { defer h.wg.Done(); h.stop(&h.timedOut) })
	}
	return h
}

// stop sets why, unless something else came first.
func (h *stopper) stop(why *bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.canceled || h.timedOut {
		return
	}
	*why = true
	_ = h.s.link.conn.SetDeadline(time.Now().Add(h.grace + stopSlack))
	_ = h.s.link.send(message{Stop: true}) // where it fails, the read of the reply does too
}

// release ends the stopper and waits for its goroutines.
func (h *stopper) release() (canceled, timedOut bool) {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	if h.undo() {
		h.wg.Done()
	}
	if h.timer != nil && h.timer.Stop() {
		h.wg.Done()
	}
	h.wg.Wait()
	return h.canceled, h.timedOut
}

// Close implements sandbox.Session.
func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	err := s.end(ctx)
	if first && s.proxy != nil {
		s.proxy.Close()
	}
	if first && s.release != nil {
		s.release()
	}
	if first && s.tree != nil {
		s.tree.Close()
		// The kernel leaves a folder without any permission, which its owner could not remove.
		_ = os.Chmod(filepath.Join(s.work, "work"), 0o700)
	}
	return err
}

// abandon ends a session that answered what it must not.
func (s *session) abandon(ctx context.Context) error {
	_ = s.Close(context.WithoutCancel(ctx))
	return startError("open the session", errors.New("unexpected reply"))
}

// serveProxy lets commands reach the hosts, and tells them how. It takes the listener over.
func (s *session) serveProxy(ctx context.Context, fd int, hosts []string) error {
	f := os.NewFile(uintptr(fd), "proxy")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		return err
	}
	p, err := netproxy.Serve(ctx, ln, netproxy.Options{Hosts: hosts})
	if err != nil {
		ln.Close()
		return err
	}
	s.proxy = p
	url := "http://127.0.0.1:" + itoa(proxyPort)
	more := []string{"NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1"}
	for _, n := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"} {
		more = append(more, n+"="+url)
	}
	s.env = sandbox.MergeEnv(s.env, more)
	return nil
}

// end closes the socket, which ends the supervisor and everything below it, and waits. What has not
// ended in time is killed.
func (s *session) end(ctx context.Context) error {
	s.link.conn.Close()
	t := time.NewTimer(closeTimeout)
	defer t.Stop()
	select {
	case <-s.held.gone:
		return nil
	case <-ctx.Done():
	case <-t.C:
	}
	s.kill()
	return nil
}

// kill ends a supervisor that may not answer any more, and waits for it.
func (s *session) kill() {
	s.link.conn.Close()
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-s.held.gone: // it took the end of the socket
		return
	case <-t.C:
	}
	s.held.kill()
	<-s.held.gone
}
