package proc_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Tests named TestFull…, TestPlain…, TestWeak… run again as a user without any rights when the tests
// run as root: the promises are the same.
func TestUnprivilegedToo(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("already unprivileged")
	}
	// Neither the test binary nor the temporary folder of root can be reached by that user.
	base, err := os.MkdirTemp("/var/tmp", "rivumi-nobody-") //nolint:usetesting // that user must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	binary := filepath.Join(base, "test")
	copyFile(t, os.Args[0], binary)
	tmp := filepath.Join(base, "tmp")
	for _, d := range []string{base, tmp} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(binary, "-test.run=^Test(Full|Plain|Weak|Bwrap)", "-test.skip=Toolchains/(go|java)", "-test.timeout=10m") // those two take long and were tried as root
	if testing.Verbose() {
		c.Args = append(c.Args, "-test.v")
	}
	c.Dir = tmp
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base, "TMPDIR=" + tmp, "LANG=C.UTF-8", "RIVUMI_CI=" + os.Getenv("RIVUMI_CI")}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("as an unprivileged user: %v\n%s", err, out.String())
	}
	if testing.Verbose() {
		t.Log(out.String())
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
}
