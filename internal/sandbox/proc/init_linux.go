package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
)

const initFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// namespaces are the flags without those that a test left out.
func namespaces(off []string) uintptr {
	flags := uintptr(initFlags)
	if slices.Contains(off, "namespaces") {
		return 0
	}
	if slices.Contains(off, "net") {
		flags &^= unix.CLONE_NEWNET
	}
	if slices.Contains(off, "pid") {
		flags &^= unix.CLONE_NEWPID
	}
	return flags
}

// setupCapabilities, over these namespaces only, are what pid 1 needs until it is confined: mounts,
// the loopback interface, dropping for good; and what an overlay does to its work folder in the name
// of who mounted it.
var setupCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP,
	unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN, unix.CAP_FSETID, unix.CAP_MKNOD,
}

// proxyPort is where commands find the way out, in their own network.
const proxyPort = 8118

// starterMain makes the namespaces and waits for their pid 1. It is a process between the owner and
// the place, because the owner may be closed to ptrace (not dumpable) and could then not write the
// id maps; this one holds nothing and need not be.
func starterMain() int {
	runtime.LockOSThread() // the death signal of pid 1 is tied to this thread
	control := os.NewFile(controlFD, "control")
	join(os.Args[1:])
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		_ = syscall.Setgroups(nil) // an unprivileged user cannot, and has none that the view shows
	}
	c := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{stageInit}, Env: stageEnv(), Dir: "/", Stderr: os.Stderr,
		ExtraFiles: []*os.File{control},
		SysProcAttr: &syscall.SysProcAttr{
			Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: namespaces(os.Args[1:]),
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
			AmbientCaps: setupCapabilities,
		},
	}
	if c.SysProcAttr.Cloneflags == 0 { // rights over namespaces are of no use without them
		c.SysProcAttr.UidMappings, c.SysProcAttr.GidMappings, c.SysProcAttr.AmbientCaps = nil, nil, nil
	}
	if err := c.Start(); err != nil {
		refuse(controlFD, &sandbox.Error{
			Code: sandbox.ErrTier, What: "user namespaces cannot be made here", Err: err, Hint: namespaceHint(),
		})
		return 125
	}
	control.Close()
	_ = c.Wait() // it answers over the socket
	return 0
}

// refuse tells the owner why there will be no session.
func refuse(fd int, err error) {
	l, lerr := newLink(fd, "control")
	if lerr != nil {
		return
	}
	_ = l.send(message{Ready: refusal(err)})
}

func refusal(err error) *ready {
	var e *sandbox.Error
	if errors.As(err, &e) {
		what := e.What
		if e.Err != nil {
			what += ": " + e.Err.Error()
		}
		return &ready{Code: e.Code, What: what, Hint: e.Hint}
	}
	var o *overlayError
	if errors.As(err, &o) {
		return &ready{Code: sandbox.ErrOverlay, What: err.Error(), Hint: "a plain tree is used instead"}
	}
	return &ready{Code: sandbox.ErrTier, What: err.Error(), Hint: "choose another sandbox; `rivumi doctor --sandbox` says what this machine has"}
}

// accept takes the control socket of a stage and its first message.
func accept() (*link, *openRequest, error) {
	l, err := newLink(controlFD, "control")
	if err != nil {
		return nil, nil, err
	}
	m, fds, err := l.receive()
	closeAll(fds)
	if err == nil && m.Open == nil {
		err = errors.New("unexpected message")
	}
	return l, m.Open, err
}

// onOtherThread runs f locked to a thread that is not the process's first one. A signal to a process
// is judged by its first thread: since that one stays outside of the file rules' domain, commands,
// which are started from f's thread and are inside of it, cannot signal their supervisor.
func onOtherThread(f func() int) int {
	code := make(chan int)
	go func() {
		runtime.LockOSThread() // never let go: the thread gets confined
		if unix.Gettid() == unix.Getpid() {
			code <- onOtherThread(f) // this goroutine holds the first thread meanwhile
			return
		}
		code <- f()
	}()
	return <-code
}

// initMain is pid 1 of the place: it builds the view, confines its thread and serves commands.
func initMain() int {
	l, q, err := accept()
	if err != nil {
		return 125
	}
	return onOtherThread(func() int {
		return servePlace(l, q, func() ([]int, error) { return makePlace(q) }, "user, mount, pid, net, ipc, uts")
	})
}

// servePlace makes the place, confines the thread in it and serves commands as pid 1.
func servePlace(l *link, q *openRequest, build func() ([]int, error), namespaces string) int {
	// Signals from inside must not end pid 1. They are taken and dropped, not ignored: what is ignored
	// would stay so in commands.
	signal.Notify(make(chan os.Signal, 1))
	layers, out, err := contain(q, build)
	if err != nil {
		_ = l.send(message{Ready: refusal(err)})
		return 125
	}
	layers["namespaces"] = namespaces
	layers["root"] = "own, read-only"
	err = l.send(message{Ready: &ready{Layers: layers, Shown: variables(q.Layered)}}, out...)
	closeAll(out)
	if err != nil {
		return 125
	}
	all := func(sig unix.Signal) { _ = unix.Kill(-1, sig) }
	if self := os.Getpid(); self != 1 { // only a test leaves the namespace out
		all = func(sig unix.Signal) { signalBelow(self, sig) }
	}
	s := &supervisor{link: l, tree: q.Tree, all: all, yield: q.Limits.Memory > 0, lenient: q.off("end")}
	return s.serve()
}

// contain makes the place and confines this thread. It gives descriptors for the owner: the tree,
// and the listener where one was asked for.
func contain(q *openRequest, build func() ([]int, error)) (layers map[string]string, out []int, err error) {
	if !q.off("dumpable") {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return nil, nil, fmt.Errorf("close pid 1 to others: %w", err)
		}
	}
	out, err = build()
	if err != nil {
		return nil, nil, err
	}
	layers, err = confineThread(q, wallsOf(q, landlockFloorFull), []uint32{unix.AF_INET, unix.AF_INET6})
	return layers, out, err
}

// makePlace makes the view, the name and the network of the full tier.
func makePlace(q *openRequest) ([]int, error) {
	if !q.off("view") {
		if err := buildView(q); err != nil {
			return nil, err
		}
	}
	if !q.off("namespaces") {
		if err := unix.Sethostname([]byte("sandbox")); err != nil {
			return nil, fmt.Errorf("set the host name: %w", err)
		}
	}
	if !q.off("net") {
		if err := loopbackUp(); err != nil {
			return nil, err
		}
	}
	return handOut(q)
}

// handOut opens what the owner gets.
func handOut(q *openRequest) ([]int, error) {
	tree, err := unix.Open(q.Tree, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the tree: %w", err)
	}
	if !q.Listen {
		return []int{tree}, nil
	}
	fd, err := listenLoopback()
	return []int{tree, fd}, err
}

// wallsOf are the same view again as file rules: a mount that should not be there stays closed.
func wallsOf(q *openRequest, floor int) walls {
	w := walls{floor: floor, list: []string{"/"}, readDirs: []string{"/proc"}}
	for _, b := range q.Binds {
		st, err := os.Stat(b.at())
		if err != nil {
			continue
		}
		switch file := !st.IsDir(); {
		case file && b.Writable:
			w.writeFiles = append(w.writeFiles, b.at())
		case file:
			w.readFiles = append(w.readFiles, b.at())
		case b.Writable:
			w.writeDirs = append(w.writeDirs, b.at())
		default:
			w.readDirs = append(w.readDirs, b.at())
		}
	}
	for p := range q.Files {
		w.readFiles = append(w.readFiles, p)
	}
	w.writeDirs = append(w.writeDirs, q.Folders...)
	if q.Lower != "" {
		w.writeDirs = append(w.writeDirs, q.Tree)
	}
	for _, l := range q.Layered {
		w.writeDirs = append(w.writeDirs, l.At)
	}
	return w
}

// loopbackUp brings the only interface of the new network up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring loopback up: %w", err)
	}
	defer unix.Close(fd)
	var request [40]byte // struct ifreq
	copy(request[:], "lo")
	*(*uint16)(unsafe.Pointer(&request[16])) = unix.IFF_UP | unix.IFF_RUNNING
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); e != 0 {
		return fmt.Errorf("bring loopback up: %w", e)
	}
	return nil
}

// listenLoopback makes the listener that the owner accepts on from outside of this network.
func listenLoopback() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("make the proxy's listener: %w", err)
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: proxyPort, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(fd, 64)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("make the proxy's listener: %w", err)
	}
	return fd, nil
}
