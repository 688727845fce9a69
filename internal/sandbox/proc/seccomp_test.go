//go:build linux && (amd64 || arm64)

package proc

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// verdict interprets the filter for one call. The kernel gives the data in the machine's order and
// the interpreter reads big-endian, so every word is written that way round.
func verdict(t *testing.T, arch, call uint32, args ...uint32) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(callFilter([]uint32{unix.AF_INET, unix.AF_INET6}))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offCall:], call)
	binary.BigEndian.PutUint32(data[offArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[offArgs+8*i:], a)
	}
	n, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

func TestFilterKillsForeignArchitectures(t *testing.T) {
	for _, arch := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_RISCV64, 0} {
		for _, call := range []uint32{1, 20, 90, 165, 359} {
			if got := verdict(t, arch, call); got != actKill {
				t.Errorf("architecture %#x call %d: %#x", arch, call, got)
			}
		}
	}
	if hasX32 {
		if got := verdict(t, auditArch, x32Bit|unix.SYS_GETPID); got != errno(unix.ENOSYS) {
			t.Errorf("x32: %#x", got)
		}
	}
}

func TestFilterVerdicts(t *testing.T) {
	for _, c := range []struct {
		name string
		call uint32
		args []uint32
		want uint32
	}{
		{"read", unix.SYS_READ, nil, actAllow},
		{"execve", unix.SYS_EXECVE, nil, actAllow},
		{"clone3", unix.SYS_CLONE3, nil, errno(unix.ENOSYS)},
		{"clone of a process", unix.SYS_CLONE, []uint32{unix.CLONE_VM | unix.CLONE_VFORK | 17}, actAllow},
		{"clone into a namespace", unix.SYS_CLONE, []uint32{unix.CLONE_NEWUSER | 17}, errno(unix.EPERM)},
		{"terminal size", unix.SYS_IOCTL, []uint32{0, unix.TIOCGWINSZ}, actAllow},
		{"terminal injection", unix.SYS_IOCTL, []uint32{0, unix.TIOCSTI}, errno(unix.EPERM)},
		{"console injection", unix.SYS_IOCTL, []uint32{0, tiocLinux}, errno(unix.EPERM)},
		{"inet", unix.SYS_SOCKET, []uint32{unix.AF_INET}, actAllow},
		{"inet6", unix.SYS_SOCKET, []uint32{unix.AF_INET6}, actAllow},
		{"unix", unix.SYS_SOCKET, []uint32{unix.AF_UNIX}, errno(unix.EAFNOSUPPORT)},
		{"vsock", unix.SYS_SOCKET, []uint32{unix.AF_VSOCK}, errno(unix.EAFNOSUPPORT)},
		{"pair", unix.SYS_SOCKETPAIR, []uint32{unix.AF_UNIX}, actAllow},
		{"vsock pair", unix.SYS_SOCKETPAIR, []uint32{unix.AF_VSOCK}, errno(unix.EAFNOSUPPORT)},
	} {
		if got := verdict(t, auditArch, c.call, c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	for _, call := range append(deniedCalls, deniedHere...) {
		if got := verdict(t, auditArch, call); got != errno(unix.EPERM) {
			t.Errorf("call %d: %#x", call, got)
		}
	}
}
