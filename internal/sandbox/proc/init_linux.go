package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
)

const initFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

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
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		_ = syscall.Setgroups(nil) // an unprivileged user cannot, and has none that the view shows
	}
	c := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{stageInit}, Env: []string{}, Dir: "/", Stderr: os.Stderr,
		ExtraFiles: []*os.File{control},
		SysProcAttr: &syscall.SysProcAttr{
			Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: initFlags,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
			AmbientCaps: setupCapabilities,
		},
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

// initMain is pid 1 of the place: it builds the view, confines its thread and serves commands.
func initMain() int {
	runtime.LockOSThread() // for good: this thread is confined and starts every command
	// Signals from inside must not end pid 1. They are taken and dropped, not ignored: what is ignored
	// would stay so in commands.
	signal.Notify(make(chan os.Signal, 1))
	l, err := newLink(controlFD, "control")
	if err != nil {
		return 125
	}
	m, fds, err := l.receive()
	closeAll(fds)
	if err != nil || m.Open == nil {
		return 125
	}
	layers, out, err := contain(m.Open)
	if err != nil {
		_ = l.send(message{Ready: refusal(err)})
		return 125
	}
	err = l.send(message{Ready: &ready{Layers: layers}}, out...)
	closeAll(out)
	if err != nil {
		return 125
	}
	s := &supervisor{link: l, tree: m.Open.Tree, all: func(sig unix.Signal) { _ = unix.Kill(-1, sig) }}
	return s.serve()
}

// contain makes the place around this process. It gives descriptors for the owner: the tree, and
// the listener where one was asked for.
func contain(q *openRequest) (layers map[string]string, out []int, err error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, nil, fmt.Errorf("close pid 1 to others: %w", err)
	}
	sources, err := buildView(q)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Sethostname([]byte("sandbox")); err != nil {
		return nil, nil, fmt.Errorf("set the host name: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return nil, nil, err
	}
	tree, err := unix.Open(q.Tree, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open the tree: %w", err)
	}
	out = append(out, tree)
	if q.Listen {
		fd, err := listenLoopback()
		if err != nil {
			return nil, nil, err
		}
		out = append(out, fd)
	}
	layers, err = confineThread(q, fullWalls(q, sources), []uint32{unix.AF_INET, unix.AF_INET6})
	if err != nil {
		return nil, nil, err
	}
	layers["namespaces"] = "user, mount, pid, net, ipc, uts"
	layers["root"] = "own, read-only"
	return layers, out, nil
}

// fullWalls are the same view again as file rules: a mount that should not be there stays closed.
func fullWalls(q *openRequest, sources []source) walls {
	w := walls{floor: landlockFloorFull, list: []string{"/"}, readDirs: []string{"/proc"}}
	for _, s := range sources {
		switch {
		case s.file && s.Writable:
			w.writeFiles = append(w.writeFiles, s.at())
		case s.file:
			w.readFiles = append(w.readFiles, s.at())
		case s.Writable:
			w.writeDirs = append(w.writeDirs, s.at())
		default:
			w.readDirs = append(w.readDirs, s.at())
		}
	}
	for p := range q.Files {
		w.readFiles = append(w.readFiles, p)
	}
	w.writeDirs = append(w.writeDirs, q.Folders...)
	if q.Lower != "" {
		w.writeDirs = append(w.writeDirs, q.Tree)
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
