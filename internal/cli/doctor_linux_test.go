package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/sandbox"
)

func TestDoctorSandboxAttacksAndKeepsTheProof(t *testing.T) {
	s := newScreen(t)
	f, _ := terminal(t, s)
	var out bytes.Buffer
	f.IO.Out = &out
	if code := Run(t.Context(), f, []string{"doctor", "--sandbox", "--json"}); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out.String())
	}
	var c containment
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		t.Fatal(err)
	}
	if !c.OK || c.Worked != 0 || c.Stopped < 30 || len(c.Matrix) != c.Stopped+c.Unshown || !strings.HasPrefix(c.Digest, "sha256:") {
		t.Errorf("%d stopped, %d worked, %d unshown of %d, %q", c.Stopped, c.Worked, c.Unshown, len(c.Matrix), c.Digest)
	}
	place, err := f.place(t.Context(), contract.Task{})
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	ses, err := place.Opener.Open(t.Context(), sandbox.Spec{Tree: t.TempDir(), Scratch: scratch, Env: sandbox.BaseEnv(scratch, nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer ses.Close(t.Context())
	if got := ses.Receipt().Matrix; got != c.Digest {
		t.Errorf("the receipt of a session names %q, the doctor found %q", got, c.Digest)
	}
	f.Version = "another"
	if f.proven() != nil {
		t.Error("the proof of one program counts for another")
	}
}

// maskEnv makes the test binary run rivumi with a call masked, as on a machine that has not got it.
const maskEnv = "RIVUMI_TEST_MASK"

// masked runs rivumi in a process in which the calls fail with e.
func masked(t *testing.T, mask string, args ...string) (code int, out string) {
	t.Helper()
	c := exec.Command(os.Args[0], append([]string{"-test.run=^TestMaskedChild$", "--"}, args...)...)
	c.Env = append(os.Environ(), maskEnv+"="+mask)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	err := c.Run()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), text.String()
}

// TestMaskedChild is the other process of [masked] and does nothing by itself.
func TestMaskedChild(t *testing.T) {
	mask := os.Getenv(maskEnv)
	if mask == "" {
		return
	}
	os.Unsetenv(maskEnv)
	runtime.LockOSThread()
	install(t, mask)
	for i, a := range os.Args {
		if a == "--" {
			os.Exit(Run(t.Context(), NewFactory("test"), os.Args[i+1:]))
		}
	}
}

// install puts a filter on every thread that answers the calls of a mask.
func install(t *testing.T, mask string) {
	calls := map[string][]uint32{
		"landlock": {unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF},
		"mount":    {unix.SYS_OPEN_TREE, unix.SYS_MOUNT},
		"seccomp":  {unix.SYS_SECCOMP},
	}[mask]
	errno := map[string]unix.Errno{"landlock": unix.ENOSYS, "mount": unix.EPERM, "unshare": unix.EPERM, "seccomp": unix.ENOSYS}[mask]
	deny := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(errno)}
	prog := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}}
	for _, n := range calls {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: n}, deny)
	}
	if mask == "unshare" {
		prog = append(prog,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_CLONE3},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(unix.ENOSYS)},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_UNSHARE}, deny,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: unix.SYS_CLONE},
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: unix.CLONE_NEWUSER}, deny)
	}
	prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000})
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, e := syscall.Syscall(unix.SYS_SECCOMP, 1, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog))); e != 0 {
		t.Fatal(e)
	}
}

// What is asked for and cannot be had ends with exit code 7, names the missing piece and a way to get
// it; nothing weaker is used unless it is typed.
func TestSandboxFailsClosed(t *testing.T) {
	s := newScreen(t)
	terminal(t, s)
	for _, c := range []struct{ mask, piece, way string }{
		{"landlock", "Landlock", "lsm=landlock"},
		{"unshare", "user namespaces", "use "},
		{"mount", "", "sandbox"},
		{"seccomp", "call filter", "sandbox"},
	} {
		t.Run(c.mask, func(t *testing.T) {
			code, out := masked(t, c.mask, "demo")
			if code != contract.ExitSandbox || !strings.Contains(out, c.piece) || !strings.Contains(out, c.way) {
				t.Errorf("exit code %d:\n%s", code, out)
			}
		})
	}
}
