package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

// terminal is a factory of the real program at a screen, with a home and a temporary folder of its own.
func terminal(t *testing.T, s *screen) (f *Factory, tmp string) {
	t.Helper()
	if proc.Detect(t.Context()).Best == "" {
		if os.Getenv("RIVUMI_CI") != "" {
			t.Fatal("no sandbox can be had here, and RIVUMI_CI does not let a sandbox test skip")
		}
		t.Skip("no sandbox can be had here")
	}
	tmp = t.TempDir()
	for name, value := range map[string]string{
		"TMPDIR": tmp, "HOME": t.TempDir(), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "RIVUMI_STATE_DIR": filepath.Join(t.TempDir(), "state"), "RIVUMI_CONFIG": "",
	} {
		t.Setenv(name, value)
	}
	f = NewFactory("test")
	f.IO = s.io()
	return f, tmp
}

func TestDemoAsksAtATerminalAndKeepsTheResult(t *testing.T) {
	s := newScreen(t)
	f, tmp := terminal(t, s)
	done := make(chan int, 1)
	go func() { done <- Run(t.Context(), f, []string{"demo"}) }()
	s.wait(t, "[y/N]")
	s.keys(t, "y\n")
	if code := <-done; code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.text())
	}
	found, _ := filepath.Glob(filepath.Join(tmp, "rivumi-demo-*", "sample", "add.sh"))
	if len(found) != 1 {
		t.Fatalf("the sample is not kept: %v\n%s", found, s.text())
	}
	if raw, err := os.ReadFile(found[0]); err != nil || !strings.Contains(string(raw), "$1 + $2") {
		t.Errorf("the patch is not applied: %s %v", raw, err)
	}
	if _, err := os.Stat(f.Getenv("RIVUMI_STATE_DIR")); err == nil {
		t.Error("the demo wrote into the user's state")
	}
}

func TestDemoLeavesNothingWhenItIsNotKept(t *testing.T) {
	s := newScreen(t)
	f, tmp := terminal(t, s)
	done := make(chan int, 1)
	go func() { done <- Run(t.Context(), f, []string{"demo"}) }()
	s.wait(t, "[y/N]")
	s.keys(t, "\n")
	if code := <-done; code != 0 {
		t.Fatalf("exit code %d:\n%s", code, s.text())
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
