package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	killEvery = 20 * time.Millisecond // killed processes may have started others meanwhile
	killFor   = 5 * time.Second
)

// supervisor runs one command after another on the thread it is locked to: what confines that
// thread confines every command.
type supervisor struct {
	link *link
	tree string
	null int
	all  func(unix.Signal) // signals every process but this one
	oom  func() int64      // how often the kernel has killed for memory, nil where that cannot be told
	bait func(bool)        // makes what is started the first to go when memory ends, nil where nothing can be set
	in   chan incoming

	yield   bool // commands are ended for memory before this process is
	lenient bool // what a command leaves is not ended; only tests set it
	stuck   bool // something could not be killed: no further command may run beside it
}

type incoming struct {
	message
	fds []int
}

// serve answers until the owner's end of the socket is closed. The caller has locked the thread.
func (s *supervisor) serve() int {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 125
	}
	s.null = null
	s.in = make(chan incoming)
	go s.read()
	for m := range s.in {
		if m.Run == nil || len(m.fds) != 2 {
			closeAll(m.fds)
			continue
		}
		reply, alive := s.run(m.Run, m.fds)
		if !alive {
			return 0
		}
		if err := s.link.send(message{Exit: &reply}); err != nil || s.stuck {
			return 0
		}
	}
	return 0
}

// read feeds s.in and closes it when the owner is gone. It lives as long as the process.
func (s *supervisor) read() {
	defer close(s.in)
	for {
		m, fds, err := s.link.receive()
		if err != nil {
			return
		}
		s.in <- incoming{m, fds}
	}
}

// run carries one command to the end of its last process. alive is false when the owner is gone.
func (s *supervisor) run(q *runRequest, fds []int) (reply exitReply, alive bool) {
	if s.oom != nil {
		before := s.oom()
		defer func() { reply.Memory = s.oom() > before }()
	}
	pid, err := s.start(q, fds)
	closeAll(fds)
	if err != nil {
		return exitReply{Code: 126, Err: err.Error()}, true
	}
	ends := make(chan reaped, 16)
	go reap(ends)
	if err := s.link.send(message{Started: true}); err != nil {
		s.end(ends)
		return reply, false
	}
	w := &watch{s: s, leader: pid, grace: time.Duration(q.GraceMS) * time.Millisecond}
	return w.wait(ends)
}

func (s *supervisor) start(q *runRequest, fds []int) (int, error) {
	dir, err := openDir(s.tree, q.Dir)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	env := q.Env
	path, err := lookPath(q.Argv, env, dir)
	if err != nil {
		return 0, err
	}
	if s.bait != nil {
		s.bait(true)
		defer s.bait(false)
	}
	pid, err := syscall.ForkExec(path, q.Argv, &syscall.ProcAttr{
		Dir:   fdPath(dir),
		Env:   env,
		Files: []uintptr{uintptr(s.null), uintptr(fds[0]), uintptr(fds[1])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, &fs.PathError{Op: "exec", Path: q.Argv[0], Err: err}
	}
	if s.yield {
		done := make(chan struct{})
		go func() { // the file rules of the thread that starts commands do not let it write there
			defer close(done)
			// Where it fails this process may be ended instead, and the session is lost.
			_ = os.WriteFile("/proc/"+itoa(pid)+"/oom_score_adj", []byte("500"), 0o600)
		}()
		<-done
	}
	return pid, nil
}

// end kills everything and waits for it, bounded.
func (s *supervisor) end(ends <-chan reaped) {
	deadline := time.After(killFor)
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case _, ok := <-ends:
			if !ok {
				return
			}
		case <-again.C:
			s.all(unix.SIGKILL)
			again.Reset(killEvery)
		case <-deadline:
			return
		}
	}
}

type reaped struct {
	pid int
	ws  syscall.WaitStatus
}

// reap collects ended children until there is none; the end of the channel is the proof.
func reap(ends chan<- reaped) {
	defer close(ends)
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		ends <- reaped{pid, ws}
	}
}

// watch follows the processes of one command.
type watch struct {
	s       *supervisor
	leader  int
	grace   time.Duration
	ended   bool // the leader has ended
	killing bool // the rest is being killed
	killed  bool // the grace is over
	rounds  int
	reply   exitReply
}

func (w *watch) wait(ends <-chan reaped) (exitReply, bool) {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	in := w.s.in
	for {
		select {
		case r, ok := <-ends:
			if !ok {
				return w.reply, true
			}
			w.reap(r, timer)
		case m, ok := <-in:
			if !ok {
				w.s.end(ends)
				return w.reply, false
			}
			closeAll(m.fds)
			if m.Stop && !w.ended {
				w.s.all(unix.SIGTERM)
				timer.Reset(w.grace)
			}
		case <-timer.C:
			if !w.kill(timer) {
				return w.reply, true
			}
		}
	}
}

func (w *watch) reap(r reaped, timer *time.Timer) {
	switch {
	case r.pid == w.leader:
		w.ended = true
		w.reply.Code, w.reply.Signal = exitOf(r.ws)
		switch {
		case w.killed:
			timer.Reset(0)
		case w.s.lenient:
		default:
			timer.Reset(drainDelay)
		}
	case w.killing && r.ws.Signaled() && r.ws.Signal() == syscall.SIGKILL:
		w.reply.Left++
	}
}

// kill runs when the grace is over or the drain delay after the leader is. It is false when what is
// left cannot be killed (a process the kernel does not let go).
func (w *watch) kill(timer *time.Timer) bool {
	if w.ended && !w.killed {
		w.killing = true
	}
	if !w.ended {
		w.killed = true
	}
	w.s.all(unix.SIGKILL)
	w.rounds++
	timer.Reset(killEvery)
	if time.Duration(w.rounds)*killEvery > killFor {
		w.reply.Left++
		w.s.stuck = true
		return false
	}
	return true
}

func exitOf(ws syscall.WaitStatus) (code int, signal string) {
	if ws.Signaled() {
		return 128 + int(ws.Signal()), unix.SignalName(ws.Signal())
	}
	return ws.ExitStatus(), ""
}

// openDir opens a folder of the tree without leaving it, whatever links lie on the way.
func openDir(tree, dir string) (*os.File, error) {
	if dir == "" {
		dir = "."
	}
	if !filepath.IsLocal(dir) {
		return nil, &fs.PathError{Op: "chdir", Path: dir, Err: errors.New("leaves the tree")}
	}
	root, err := unix.Open(tree, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "chdir", Path: tree, Err: err}
	}
	if dir == "." {
		return os.NewFile(uintptr(root), tree), nil
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, dir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "chdir", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

func fdPath(f *os.File) string { return "/proc/self/fd/" + itoa(int(f.Fd())) }

// lookPath finds the program by the command's own PATH. A name with a slash is relative to dir.
func lookPath(argv, env []string, dir *os.File) (string, error) {
	if len(argv) == 0 || argv[0] == "" {
		return "", errors.New("no command")
	}
	name := argv[0]
	if strings.Contains(name, "/") {
		return name, nil // the child resolves it after its chdir
	}
	for _, e := range env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(list) {
			if !filepath.IsAbs(d) {
				continue // a program of the tree is not started by a bare name
			}
			p := filepath.Join(d, name)
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && unix.Access(p, unix.X_OK) == nil {
				return p, nil
			}
		}
	}
	return "", &fs.PathError{Op: "exec", Path: name, Err: errors.New("not found in PATH")}
}
