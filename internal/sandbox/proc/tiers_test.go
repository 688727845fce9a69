package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/sandbox/sandboxtest"
)

func TestWeakSuite(t *testing.T) {
	sandboxtest.Suite(t, proc.New(proc.Options{Want: sandbox.TierWeak}))
}

func TestWeakOwnerKilledLeavesNothing(t *testing.T) { ownerKilled(t, sandbox.TierWeak) }

func TestWeakKeepsFilesSignalsAndSockets(t *testing.T) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "key"), "secret")
	victim := exec.Command("sleep", "100")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { victim.Process.Kill(); victim.Wait() }()
	pid := itoa(victim.Process.Pid)
	s := openWith(t, proc.Options{Want: sandbox.TierWeak}, sandbox.Spec{})
	for what, text := range map[string]string{
		"read outside":   "cat " + outside + "/key",
		"write outside":  "echo x > " + outside + "/new",
		"signal outside": "kill -TERM " + pid,
		"supervisor":     "kill -KILL $PPID",
		"environ":        "cat /proc/" + pid + "/environ",
		"shadow":         "cat /etc/shadow",
		"socket":         "exec 5<>/dev/tcp/127.0.0.1/1",
		"python socket":  "python3 -c 'import socket; socket.socket()'",
	} {
		if code, out := script(t, s, text); code == 0 {
			t.Errorf("%s: %s", what, out)
		}
	}
	if code, out := script(t, s, "echo on > f && cat f"); code != 0 || out != "on\n" {
		t.Errorf("%d %q", code, out)
	}
	_, err := proc.New(proc.Options{Want: sandbox.TierWeak}).Open(t.Context(), sandbox.Spec{Tree: t.TempDir(), Hosts: []string{"example.org"}})
	if sandboxtest.Code(err) != sandbox.ErrTier {
		t.Errorf("hosts: %v", err)
	}
}

func TestBwrapSuite(t *testing.T) {
	needsBwrap(t)
	sandboxtest.Suite(t, proc.New(proc.Options{Want: sandbox.TierBwrap}))
}

func TestBwrapOwnerKilledLeavesNothing(t *testing.T) {
	needsBwrap(t)
	ownerKilled(t, sandbox.TierBwrap)
}

func needsBwrap(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/bwrap"); err != nil {
		missing(t, "bubblewrap is not installed")
	}
}

func TestPlainIsRefusedWhereMoreIsAsked(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		want sandbox.Tier
		spec sandbox.Spec
		code string
	}{
		{sandbox.TierNone, sandbox.Spec{MinTier: sandbox.TierWeak}, sandbox.ErrTier},
		{sandbox.TierNone, sandbox.Spec{MinTier: sandbox.TierFull}, sandbox.ErrTier},
		{sandbox.TierWeak, sandbox.Spec{MinTier: sandbox.TierBwrap}, sandbox.ErrTier},
		{sandbox.TierFull, sandbox.Spec{MinTier: sandbox.TierGVisor}, sandbox.ErrTier},
		{"", sandbox.Spec{MinTier: sandbox.TierGVisor}, sandbox.ErrTier},
		{"L9", sandbox.Spec{}, sandbox.ErrTier},
		{sandbox.TierNone, sandbox.Spec{ReadOnly: true}, sandbox.ErrTier},
		{sandbox.TierNone, sandbox.Spec{Overlay: &sandbox.Overlay{}}, sandbox.ErrOverlay},
		{sandbox.TierWeak, sandbox.Spec{Overlay: &sandbox.Overlay{}}, sandbox.ErrOverlay},
	} {
		c.spec.Tree = dir
		_, err := proc.New(proc.Options{Want: c.want}).Open(t.Context(), c.spec)
		if sandboxtest.Code(err) != c.code {
			t.Errorf("%q %+v: %v", c.want, c.spec, err)
		}
	}
}

func TestFullIsWhatIsOpenedWithoutAWish(t *testing.T) {
	s := openWith(t, proc.Options{}, sandbox.Spec{MinTier: sandbox.TierFull})
	if r := s.Receipt(); r.Tier != sandbox.TierFull || r.Layers["seccomp"] == "" || !strings.HasPrefix(r.Layers["landlock"], "ABI") {
		t.Errorf("receipt %+v", r)
	}
}

func TestFullDetectSaysWhatThereIs(t *testing.T) {
	r := proc.Detect(t.Context())
	if r.Best != sandbox.TierFull || len(r.Tiers) != 4 {
		t.Errorf("%+v", r)
	}
	for _, tr := range r.Tiers {
		if !tr.Available && (tr.Missing == "" || tr.Hint == "") {
			t.Errorf("%s is missing without a reason or a way to get it: %+v", tr.Tier, tr)
		}
	}
}
