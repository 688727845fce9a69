package matrix

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

type attack struct {
	name string
	run  func(targets) error // nil when it worked, as far as the attacker can tell
	// seen is asked outside where the attacker cannot tell: what it wrote may lie in a folder of its
	// own that has the same name. nil: the attacker's word counts.
	seen func(targets) bool
	// held names the controls without which the attack works in the full tier. A test leaves them out
	// and sees it work.
	held []string
	// bare says that even the plain tier stops it: the control is a child process like any other.
	bare bool
}

// attacks lists all of them; the order is that of the table.
func attacks() []attack {
	all := fileAttacks()
	all = append(all, processAttacks()...)
	all = append(all, supervisorAttacks()...)
	all = append(all, networkAttacks()...)
	all = append(all, kernelAttacks()...)
	all = append(all, programAttacks()...)
	return append(all, resourceAttacks()...)
}

func fileAttacks() []attack {
	return []attack{
		{name: "read a key outside", held: []string{"view", "landlock"}, run: func(t targets) error { return sees(os.ReadFile(filepath.Join(t.Outside, "key"))) }},
		{name: "read it through a link in the tree", held: []string{"view", "landlock"}, run: func(t targets) error { return sees(os.ReadFile(filepath.Join(t.Tree, "link"))) }},
		{name: "hard link it into the tree", held: []string{"view", "landlock"}, run: func(t targets) error {
			return os.Link(filepath.Join(t.Outside, "key"), filepath.Join(t.Tree, "hard"))
		}},
		{name: "write outside", held: []string{"view", "landlock"}, run: func(t targets) error { return os.WriteFile(filepath.Join(t.Outside, "new"), []byte("x"), 0o600) }, seen: func(t targets) bool { return exists(filepath.Join(t.Outside, "new")) }},
		{name: "change a file outside", held: []string{"view"}, run: func(t targets) error { return os.Chmod(filepath.Join(t.Outside, "key"), 0o640) }},
		{name: "write next to the tree", held: []string{"view", "landlock"}, run: func(t targets) error { return os.WriteFile(t.Tree+".x", []byte("x"), 0o600) }, seen: func(t targets) bool { return exists(t.Tree + ".x") }},
		{name: "write a system folder", held: []string{"view", "landlock", "capabilities", "seccomp"}, run: func(targets) error {
			p := "/usr/rivumi-matrix"
			defer os.Remove(p)
			return os.WriteFile(p, nil, 0o600)
		}},
		{name: "read password hashes", held: []string{"view", "landlock", "capabilities"}, run: func(targets) error { _, err := os.ReadFile("/etc/shadow"); return err }},
		{name: "open core_pattern for writing", held: []string{"view", "landlock", "pid", "capabilities"}, run: func(targets) error { return opens("/proc/sys/kernel/core_pattern", os.O_WRONLY) }},
		{name: "open sysrq-trigger for writing", held: []string{"view", "landlock", "pid"}, run: func(targets) error { return opens("/proc/sysrq-trigger", os.O_WRONLY) }},
		{name: "open a disk", held: []string{"namespaces", "landlock", "capabilities"}, run: func(targets) error { return opensAny("/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg") }},
		{name: "make a control group", held: []string{"view", "landlock"}, run: func(targets) error { return cgroup() }},
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func opens(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func opensAny(paths ...string) error {
	err := error(os.ErrNotExist)
	for _, p := range paths {
		if err = opens(p, os.O_RDONLY); err == nil {
			return nil
		}
	}
	return err
}

func cgroup() error {
	err := error(os.ErrNotExist)
	for _, d := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"} {
		p := filepath.Join(d, "rivumi-matrix")
		if err = os.Mkdir(p, 0o755); err == nil {
			return os.Remove(p)
		}
	}
	return err
}

func processAttacks() []attack {
	proc := func(t targets, name string) string { return "/proc/" + strconv.Itoa(t.Victim) + "/" + name }
	return []attack{
		{name: "read another process's environment", held: []string{"namespaces", "landlock", "capabilities"}, run: func(t targets) error { return sees(os.ReadFile(proc(t, "environ"))) }},
		{name: "open another process's memory", held: []string{"namespaces", "landlock", "capabilities"}, run: func(t targets) error { return opens(proc(t, "mem"), os.O_RDWR) }},
		{name: "go through another process's root", held: []string{"namespaces", "landlock", "capabilities"}, run: func(t targets) error {
			return sees(os.ReadFile(proc(t, "root"+filepath.Join(t.Outside, "key"))))
		}},
		{name: "go through another process's folder", held: []string{"namespaces", "landlock", "capabilities"}, run: func(t targets) error { return sees(os.ReadFile(proc(t, "cwd/key"))) }},
		{name: "list another process's descriptors", held: []string{"namespaces", "landlock", "capabilities"}, run: func(t targets) error { _, err := os.ReadDir(proc(t, "fd")); return err }},
		{name: "see another process's arguments", held: []string{"pid"}, run: func(t targets) error { _, err := os.ReadFile(proc(t, "cmdline")); return err }},
		{name: "ptrace another process", held: []string{"namespaces", "landlock", "seccomp", "capabilities"}, run: func(t targets) error {
			runtime.LockOSThread()
			err := unix.PtraceSeize(t.Victim)
			if err == nil {
				_ = unix.PtraceDetach(t.Victim) // its tracer ends anyway
			}
			return err
		}},
		{name: "read another process's memory", held: []string{"namespaces", "landlock", "seccomp", "capabilities"}, run: func(t targets) error {
			b := make([]byte, 8)
			local := unix.Iovec{Base: &b[0]}
			local.SetLen(1)
			_, err := unix.ProcessVMReadv(t.Victim, []unix.Iovec{local}, []unix.RemoteIovec{{Base: 1, Len: 1}}, 0)
			if errors.Is(err, unix.EFAULT) {
				return nil // the right to read was there, only nothing at that place
			}
			return err
		}},
		{name: "take another process's descriptor", held: []string{"namespaces", "landlock", "seccomp", "capabilities"}, run: func(t targets) error {
			fd, err := unix.PidfdOpen(t.Victim, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		}},
		{name: "signal another process", held: []string{"pid", "landlock"}, run: func(t targets) error { return unix.Kill(t.Victim, unix.SIGCONT) }},
		{name: "inherited descriptors", run: func(targets) error { return inherited() }},
		{name: "enter another process's namespaces", held: []string{"namespaces", "landlock", "seccomp", "capabilities"}, run: func(t targets) error {
			fd, err := unix.PidfdOpen(t.Victim, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWUTS|unix.CLONE_NEWNET)
		}},
	}
}

// inherited works when there is any descriptor but the three streams and what the runtime opened,
// which is close-on-exec and so is told apart.
func inherited() error {
	for fd := 3; fd < 1024; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			return nil
		}
	}
	return errors.New("none")
}

func networkAttacks() []attack {
	family := func(f, kind, proto int) func(targets) error {
		return func(targets) error {
			fd, err := unix.Socket(f, kind, proto)
			if err == nil {
				unix.Close(fd)
			}
			return err
		}
	}
	return []attack{
		{name: "TCP to the host", held: []string{"net"}, run: func(t targets) error { return asks("tcp", t.TCP) }},
		{name: "UDP to the host", held: []string{"net"}, run: func(t targets) error { return asks("udp", t.UDP) }},
		{name: "a socket by its path", held: []string{"view", "landlock", "seccomp"}, run: func(t targets) error { return asks("unix", t.Unix) }},
		{name: "an abstract socket", held: []string{"net", "seccomp", "landlock"}, run: func(t targets) error { return asks("unix", t.Abstract) }},
		{name: "vsock", held: []string{"seccomp"}, run: family(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{name: "netlink", held: []string{"seccomp"}, run: family(unix.AF_NETLINK, unix.SOCK_RAW, 0)},
		{name: "raw socket", held: []string{"namespaces", "seccomp", "capabilities"}, run: family(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{name: "packet socket", held: []string{"seccomp", "capabilities"}, run: family(unix.AF_PACKET, unix.SOCK_RAW, 0)},
		{name: "kernel crypto socket", held: []string{"seccomp"}, run: family(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
	}
}

func asks(network, address string) error {
	c, err := net.DialTimeout(network, address, 3*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return err
	}
	if network == "udp" {
		if _, err := c.Write([]byte("?")); err != nil {
			return err
		}
		b := make([]byte, 64)
		n, err := c.Read(b)
		return sees(b[:n], err)
	}
	return sees(io.ReadAll(c))
}

func kernelAttacks() []attack {
	call := func(n uintptr, args ...uintptr) func(targets) error {
		return func(targets) error {
			var a [6]uintptr
			copy(a[:], args)
			fd, _, e := unix.Syscall6(n, a[0], a[1], a[2], a[3], a[4], a[5])
			if e != 0 {
				return e
			}
			unix.Close(int(fd))
			return nil
		}
	}
	return []attack{
		{name: "new user namespace", held: []string{"seccomp"}, run: func(targets) error { return inNamespace(unix.CLONE_NEWUSER) }},
		{name: "new user and mount namespace", held: []string{"seccomp", "landlock"}, run: func(targets) error { return inNamespace(unix.CLONE_NEWUSER | unix.CLONE_NEWNS) }},
		{name: "mount", held: []string{"seccomp", "capabilities", "landlock"}, run: func(t targets) error {
			if err := unix.Mount("tmpfs", t.Tree, "tmpfs", 0, ""); err != nil {
				return err
			}
			return unix.Unmount(t.Tree, unix.MNT_DETACH)
		}},
		{name: "change the root", held: []string{"seccomp", "capabilities"}, run: func(t targets) error { return unix.Chroot(t.Tree) }},
		{name: "io_uring", held: []string{"seccomp"}, run: func(targets) error {
			var params [120]byte
			fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
			if e != 0 {
				return e
			}
			return unix.Close(int(fd))
		}},
		{name: "userfaultfd", held: []string{"seccomp"}, run: call(unix.SYS_USERFAULTFD, 1)}, // 1: faults of user space only, which need no right
		{name: "kernel keys", held: []string{"seccomp"}, run: func(targets) error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
			return err
		}},
		{name: "perf events", held: []string{"seccomp"}, run: func(targets) error { return perf() }},
		{name: "type into a terminal", held: []string{"view", "landlock", "seccomp"}, run: func(targets) error { return typeInto() }},
		{name: "gain a capability", held: []string{"capabilities"}, run: func(targets) error { return capable() }},
	}
}

func inNamespace(flags uintptr) error {
	return (&exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"attack", stage, "none", "{}"},
		SysProcAttr: &syscall.SysProcAttr{Unshareflags: flags},
	}).Start()
}

func perf() error {
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitExcludeKernel,
	}, 0, -1, -1, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// typeInto makes a terminal of its own, as one would that a user left, and types into it.
func typeInto() error {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return err
	}
	pts, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_CLOEXEC, 0) // becomes the controlling one: this is a session's leader
	if err != nil {
		return err
	}
	defer unix.Close(pts)
	signalsIgnored(syscall.SIGHUP) // the terminal goes away with this function
	c := byte('x')
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(pts), unix.TIOCSTI, uintptr(unsafe.Pointer(&c))); e != 0 {
		return e
	}
	return nil
}

func signalsIgnored(s ...os.Signal) { signal.Ignore(s...) }

// capable works when the process holds any capability over where it is.
func capable() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return err
	}
	if data[0].Effective|data[1].Effective|data[0].Permitted|data[1].Permitted == 0 {
		return errors.New("none")
	}
	return nil
}
