package proc

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"

	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// boxMain is pid 1 of a container. The engine made the namespaces, the view and the limits; this
// adds what an engine does not have and serves commands as pid 1 of a local place does.
func boxMain() int {
	runtime.LockOSThread() // for good: this thread is confined and starts every command
	signal.Notify(make(chan os.Signal, 1))
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: BoxSocket, Net: "unix"})
	if err != nil {
		fmt.Fprintln(os.Stderr, "the owner cannot be reached:", err)
		return 125
	}
	l := &link{conn: conn}
	m, fds, err := l.receive()
	arrived := len(fds)
	closeAll(fds)
	if err != nil || m.Open == nil {
		fmt.Fprintln(os.Stderr, "no request came:", err)
		return 125
	}
	s := &supervisor{link: l, tree: m.Open.Tree, all: func(sig unix.Signal) { _ = unix.Kill(-1, sig) }, oom: outOfMemory}
	r, out, err := s.containBox(m.Open, arrived)
	if err != nil {
		_ = l.send(message{Ready: refusal(err)})
		return 125
	}
	err = l.send(message{Ready: r}, out...)
	closeAll(out)
	if err != nil {
		return 125
	}
	return s.serve()
}

// containBox confines this process in a container. It gives the listener where one is asked for.
func (s *supervisor) containBox(q *openRequest, arrived int) (*ready, []int, error) {
	if os.Getpid() != 1 || arrived != 1 {
		return nil, nil, &sandbox.Error{
			Code: sandbox.ErrTier, What: "the container's runtime passes no descriptors", Hint: "use a runtime on this kernel (runc, crun)",
		}
	}
	if err := noCapabilities(); err != nil {
		return nil, nil, err
	}
	s.bait = baited()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, nil, fmt.Errorf("close pid 1 to others: %w", err)
	}
	var out []int
	if q.Listen {
		fd, err := listenLoopback()
		if err != nil {
			return nil, nil, err
		}
		out = append(out, fd)
	}
	r := &ready{}
	q.Off = []string{"capabilities"} // none to drop
	if _, err := llsys.LandlockGetABIVersion(); err != nil {
		q.Off = append(q.Off, "landlock")
		r.Missing = append(r.Missing, "no Landlock inside the container: its mounts are the only file rules")
	}
	w := walls{
		readDirs:   []string{"/"},
		writeDirs:  []string{"/dev/shm"},
		writeFiles: []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"},
	}
	for _, b := range q.Binds {
		w.writeDirs = append(w.writeDirs, b.Path)
	}
	layers, err := confineThread(q, w, []uint32{unix.AF_INET, unix.AF_INET6})
	if err != nil {
		closeAll(out)
		return nil, nil, err
	}
	layers["capabilities"] = "none"
	r.Layers = layers
	return r, out, nil
}

// noCapabilities makes sure that the engine left none, not even to be had by starting a program.
func noCapabilities() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for line := range bytes.Lines(status) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		switch name {
		case "CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh":
			if n, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64); err != nil || n != 0 {
				return errors.New("the engine left capabilities: " + strings.TrimSpace(string(line)))
			}
		}
	}
	return nil
}

// outOfMemory reads how often the kernel has killed in this container, by the files of either
// version of control groups. 0 where neither is there.
func outOfMemory() int64 {
	for _, p := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		text, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		for line := range bytes.Lines(text) {
			if v, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
				n, err := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64)
				if err == nil {
					return n
				}
			}
		}
	}
	return 0
}

// baited gives a function that sets how likely this process, and what it starts at that moment, is
// to be killed when memory ends: commands go before pid 1. nil where it cannot be set.
func baited() func(bool) {
	const first = "1000"
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	old := make([]byte, 16)
	n, err := f.ReadAt(old, 0)
	if n == 0 && err != nil {
		f.Close()
		return nil
	}
	usual := bytes.TrimSpace(old[:n])
	return func(on bool) {
		value := usual
		if on {
			value = []byte(first)
		}
		_, _ = f.WriteAt(value, 0) // only a preference
	}
}
