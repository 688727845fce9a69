package proc_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/sandbox/sandboxtest"
)

func TestFullOwnerKilledLeavesNothing(t *testing.T) { ownerKilled(t, sandbox.TierFull) }

func openFull(t *testing.T, s sandbox.Spec) sandbox.Session {
	t.Helper()
	return openWith(t, proc.Options{Want: sandbox.TierFull}, s)
}

func openWith(t *testing.T, o proc.Options, s sandbox.Spec) sandbox.Session {
	t.Helper()
	if s.Tree == "" {
		s.Tree = t.TempDir()
	}
	if s.Scratch == "" {
		s.Scratch = t.TempDir()
	}
	if s.Env == nil {
		s.Env = sandbox.BaseEnv(s.Scratch, nil)
	}
	ses, err := proc.New(o).Open(t.Context(), s)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { ses.Close(context.Background()) })
	return ses
}

// script runs a shell script and gives its exit code and both streams together.
func script(t *testing.T, s sandbox.Session, text string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	e, err := s.Run(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", text}, Timeout: 5 * time.Minute}, sandbox.Output{Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return e.Code, out.String()
}

func TestFullOverlayKeepsTheLowerTreeAndOpensFromOutside(t *testing.T) {
	base := t.TempDir()
	o := &sandbox.Overlay{Lower: filepath.Join(base, "lower"), Upper: filepath.Join(base, "upper"), Work: filepath.Join(base, "work")}
	tree := filepath.Join(base, "tree")
	for _, d := range []string{o.Lower, o.Upper, o.Work, tree} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(o.Lower, "kept"), "old")
	write(t, filepath.Join(o.Lower, "gone"), "old")
	s := openFull(t, sandbox.Spec{Tree: tree, Overlay: o})
	if w := s.Receipt().Way; w != "overlay" {
		t.Errorf("way %q", w)
	}
	if code, out := script(t, s, "set -e; cat kept; echo new > kept; rm gone; mkdir d; echo x > d/f; pwd"); code != 0 || out != "old"+tree+"\n" {
		t.Fatalf("%d %q", code, out)
	}
	root, err := os.OpenRoot(s.Root())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if b, err := root.ReadFile("kept"); err != nil || string(b) != "new\n" {
		t.Errorf("from outside: %q %v", b, err)
	}
	if err := root.WriteFile("d/host", []byte("from outside"), 0o644); err != nil {
		t.Error(err)
	}
	if _, err := root.Stat("gone"); !os.IsNotExist(err) {
		t.Errorf("removed file is seen: %v", err)
	}
	if _, out := script(t, s, "cat d/host"); out != "from outside" {
		t.Errorf("inside: %q", out)
	}
	for name, want := range map[string]string{"kept": "old", "gone": "old"} {
		if b, _ := os.ReadFile(filepath.Join(o.Lower, name)); string(b) != want {
			t.Errorf("lower %s is %q", name, b)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(o.Upper, "kept")); string(b) != "new\n" {
		t.Errorf("upper holds %q", b)
	}
}

func TestFullOverlayThatCannotBeHad(t *testing.T) {
	base := t.TempDir()
	_, err := proc.New(proc.Options{}).Open(t.Context(), sandbox.Spec{Tree: base, Overlay: &sandbox.Overlay{Lower: base, Upper: filepath.Join(base, "none"), Work: filepath.Join(base, "no")}})
	if sandboxtest.Code(err) != sandbox.ErrOverlay {
		t.Errorf("got %v", err)
	}
}

func TestFullReadOnlyTree(t *testing.T) {
	tree := t.TempDir()
	write(t, filepath.Join(tree, "f"), "x")
	s := openFull(t, sandbox.Spec{Tree: tree, ReadOnly: true})
	if code, out := script(t, s, "cat f; echo y > f || rm f || touch g || mkdir d"); code == 0 || !strings.HasPrefix(out, "x") {
		t.Errorf("%d %s", code, out)
	}
	if code, out := script(t, s, "echo t > /tmp/t && echo h > $HOME/h && cat /tmp/t"); code != 0 {
		t.Errorf("scratch: %s", out)
	}
}

func TestFullWT07TheUsersCheckoutCannotBeReached(t *testing.T) { wt07(t) }

func wt07(t *testing.T) {
	checkout := t.TempDir()
	file := filepath.Join(checkout, "a.txt")
	write(t, file, "mine\n")
	s := openFull(t, sandbox.Spec{})
	if code, out := script(t, s, "echo x >> "+file); code == 0 {
		t.Errorf("wrote outside: %s", out)
	}
	if b, _ := os.ReadFile(file); string(b) != "mine\n" {
		t.Errorf("checkout holds %q", b)
	}
}

func TestFullBindsAreShownAsAsked(t *testing.T) {
	ro, rw := t.TempDir(), t.TempDir()
	write(t, filepath.Join(ro, "f"), "ro")
	s := openFull(t, sandbox.Spec{Binds: []sandbox.Bind{{Path: ro}, {Path: rw, Writable: true}}})
	if code, out := script(t, s, "cat "+ro+"/f && echo w > "+rw+"/g"); code != 0 || out != "ro" {
		t.Errorf("%d %s", code, out)
	}
	if code, _ := script(t, s, "echo x > "+ro+"/g"); code == 0 {
		t.Error("wrote into a read-only folder")
	}
	for _, p := range []string{"/", "/proc", "/etc", "relative"} {
		_, err := proc.New(proc.Options{}).Open(t.Context(), sandbox.Spec{Tree: ro, Binds: []sandbox.Bind{{Path: p}}})
		if sandboxtest.Code(err) != sandbox.ErrStart {
			t.Errorf("bind %s: %v", p, err)
		}
	}
}

func TestFullNothingLeftOfTheHost(t *testing.T) {
	s := openFull(t, sandbox.Spec{})
	for what, text := range map[string]string{
		"capabilities":   "grep -E 'Cap(Prm|Eff|Inh|Bnd|Amb)' /proc/self/status | grep -v '\t0000000000000000'",
		"seccomp":        "! grep -q 'Seccomp:.2' /proc/self/status",
		"new privileges": "! grep -q 'NoNewPrivs:.1' /proc/self/status",
		"shadow":         "cat /etc/shadow",
		"kernel":         "ls /proc/sys/kernel/core_pattern",
		"pid 1":          "cat /proc/1/environ",
		"descriptors":    "ls /proc/self/fd | grep -vE '^[0-3]$'", // 3 is ls's own
		"interfaces":     "test -e /sys/class/net",
		"home":           "ls -A $HOME | grep .",
		"write usr":      "touch /usr/x",
		"write root":     "touch /x",
		"mount":          "mount -t tmpfs x /tmp",
		"unshare":        "unshare -U true",
	} {
		if code, out := script(t, s, text); code == 0 {
			t.Errorf("%s: %s", what, out)
		}
	}
}

func TestFullSignalsToPidOneDoNotEndTheSession(t *testing.T) {
	s := openFull(t, sandbox.Spec{})
	script(t, s, "for s in TERM INT HUP QUIT USR1 KILL STOP PIPE ALRM ABRT; do kill -$s 1; done; kill -KILL -1")
	if code, out := script(t, s, "echo on"); code != 0 || out != "on\n" {
		t.Errorf("%d %q", code, out)
	}
}

func TestFullLimits(t *testing.T) {
	l := sandbox.Limits{Memory: 256 << 20, FileSize: 1 << 20}
	if raceEnabled {
		l.Memory = 0
	}
	s := openFull(t, sandbox.Spec{Limits: l})
	if code, _ := script(t, s, "head -c 2000000 /dev/zero > big"); code == 0 {
		t.Error("wrote a file over the limit")
	}
	if raceEnabled {
		return
	}
	if code, _ := script(t, s, "head -c 1000000000 /dev/zero | tail -c 900000000 > /dev/null"); code == 0 {
		t.Error("held more memory than the limit")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
