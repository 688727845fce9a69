//go:build unix

package proc

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/sandbox"
)

func TestSimplePlainTier(t *testing.T) {
	tree := t.TempDir()
	s, err := openSimple(t.Context(), sandbox.Spec{Tree: tree, Env: []string{"PATH=" + os.Getenv("PATH"), "A=1"}})
	if err != nil {
		t.Fatal(err)
	}
	run := func(c sandbox.Command) (sandbox.Exit, string) {
		t.Helper()
		var out bytes.Buffer
		e, err := s.Run(t.Context(), c, sandbox.Output{Stdout: &out, Stderr: &out})
		if err != nil {
			t.Fatal(err)
		}
		return e, out.String()
	}
	sh := func(text string) sandbox.Command { return sandbox.Command{Argv: []string{"sh", "-c", text}} }
	if e, out := run(sh("echo $A; exit 7")); e.Code != 7 || out != "1\n" {
		t.Errorf("%+v %q", e, out)
	}
	begun := time.Now()
	if e, out := run(sh("sleep 120 & echo done")); e.Code != 0 || out != "done\n" || e.Left != 1 || time.Since(begun) > 20*time.Second {
		t.Errorf("SH01: %+v %q", e, out)
	}
	c := sh(`(trap "" TERM; sleep 120; touch late) & wait`)
	c.Timeout, c.Grace = 300*time.Millisecond, 200*time.Millisecond
	if e, _ := run(c); !e.TimedOut || e.Canceled {
		t.Errorf("SH02: %+v", e)
	}
	c = sh(`trap 'exit 3' TERM; while :; do sleep 0.05; done`)
	c.Timeout, c.Grace = time.Second, 20*time.Second
	if e, _ := run(c); !e.TimedOut || e.Code != 3 {
		t.Errorf("terminate first: %+v", e)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if e, err := s.Run(ctx, sh("sleep 120"), sandbox.Output{}); err != nil || !e.Canceled || e.Code != 143 {
		t.Errorf("CX02: %+v %v", e, err)
	}
	if err := os.Symlink("/", filepath.Join(tree, "out")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"out", "..", "none"} {
		c := sh("pwd")
		c.Dir = dir
		if _, err := s.Run(t.Context(), c, sandbox.Output{}); err == nil {
			t.Errorf("ran in %q", dir)
		}
	}
	for range 2 {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Run(t.Context(), sh("true"), sandbox.Output{}); err == nil {
		t.Error("ran after close")
	}
}
