package proc

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The filter lets through what it does not name, so it first makes sure that it understands the
// call: a foreign architecture has other numbers and is killed, x32 and clone3 (whose flags lie
// behind a pointer) do not exist.

const (
	actAllow = 0x7fff0000
	actErrno = 0x00050000
	actKill  = 0x80000000

	offCall = 0 // of struct seccomp_data
	offArch = 4
	offArgs = 16

	x32Bit      = 0x40000000
	tiocLinux   = 0x541c
	tsyncNone   = 0
	setModeProg = 1
)

// deniedCalls get EPERM: other processes' memory, kernel surface that no build needs, mounts and
// namespaces, the machine's clock, name and modules.
var deniedCalls = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
	unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE,
	unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_FANOTIFY_INIT, unix.SYS_VHANGUP, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
}

const namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

func errno(e unix.Errno) uint32 { return actErrno | uint32(e) }

// program assembles a filter. Between instructions the accumulator holds the number of the call.
type program struct{ ins []bpf.Instruction }

func (p *program) add(ins ...bpf.Instruction) { p.ins = append(p.ins, ins...) }

// deny answers one call with e.
func (p *program) deny(call uint32, e unix.Errno) {
	p.add(bpf.JumpIf{Cond: bpf.JumpEqual, Val: call, SkipFalse: 1}, bpf.RetConstant{Val: errno(e)})
}

// inspect runs body for one call; body may use the accumulator.
func (p *program) inspect(call uint32, body ...bpf.Instruction) {
	p.add(bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: uint8(len(body) + 1)})
	p.add(body...)
	p.add(bpf.LoadAbsolute{Off: offCall, Size: 4})
}

// argument gives the low half of an argument; the flags and families looked at are 32 bits wide and
// the kernel ignores the rest.
func argument(n uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offArgs + 8*n, Size: 4} }

// callFilter is the program for this architecture; families are the socket families that may be
// made. Pairs of unix sockets always may.
func callFilter(families []uint32) []bpf.Instruction {
	p := &program{}
	p.add(
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: actKill},
		bpf.LoadAbsolute{Off: offCall, Size: 4})
	if hasX32 {
		p.add(bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: x32Bit, SkipFalse: 1}, bpf.RetConstant{Val: errno(unix.ENOSYS)})
	}
	p.deny(unix.SYS_CLONE3, unix.ENOSYS) // libraries fall back to clone
	for _, n := range deniedCalls {
		p.deny(n, unix.EPERM)
	}
	for _, n := range deniedHere {
		p.deny(n, unix.EPERM)
	}
	p.inspect(unix.SYS_CLONE, argument(0),
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: namespaceFlags, SkipTrue: 1}, bpf.RetConstant{Val: errno(unix.EPERM)})
	for _, request := range []uint32{unix.TIOCSTI, tiocLinux} {
		p.inspect(unix.SYS_IOCTL, argument(1),
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: request, SkipTrue: 1}, bpf.RetConstant{Val: errno(unix.EPERM)})
	}
	p.families(unix.SYS_SOCKET, families)
	p.families(unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX})
	p.add(bpf.RetConstant{Val: actAllow})
	return p.ins
}

func (p *program) families(call uint32, allowed []uint32) {
	body := []bpf.Instruction{argument(0)}
	for i, f := range allowed {
		body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: f, SkipTrue: uint8(len(allowed) - i)})
	}
	body = append(body, bpf.RetConstant{Val: errno(unix.EAFNOSUPPORT)})
	p.inspect(call, body...)
}

// filterCalls installs the filter on the calling thread.
func filterCalls(families []uint32) error {
	raw, err := bpf.Assemble(callFilter(families))
	if err != nil {
		return fmt.Errorf("assemble the call filter: %w", err)
	}
	prog := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		prog[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, setModeProg, tsyncNone, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	if e != 0 {
		return fmt.Errorf("install the call filter: %w", e)
	}
	return nil
}
