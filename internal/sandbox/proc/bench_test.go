package proc_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

// One command, with its output read, bare and in each tier: the difference is what a sandbox costs.
func BenchmarkCommand(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			var out, errs bytes.Buffer
			c := exec.Command("/bin/true")
			c.Env, c.Stdout, c.Stderr = []string{}, &out, &errs
			if err := c.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, tier := range []sandbox.Tier{sandbox.TierNone, sandbox.TierWeak, sandbox.TierBwrap, sandbox.TierFull} {
		b.Run(string(tier), func(b *testing.B) {
			s := benchOpen(b, tier)
			for b.Loop() {
				var out, errs bytes.Buffer
				e, err := s.Run(b.Context(), sandbox.Command{Argv: []string{"/bin/true"}}, sandbox.Output{Stdout: &out, Stderr: &errs})
				if err != nil || e.Code != 0 {
					b.Fatal(e, err)
				}
			}
		})
	}
}

// Opening a session and closing it again.
func BenchmarkOpen(b *testing.B) {
	b.Run("re-exec only", func(b *testing.B) {
		for b.Loop() {
			c := exec.Command("/proc/self/exe", "-test.run=^$")
			c.Args[0] = os.Args[0]
			if err := c.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, tier := range []sandbox.Tier{sandbox.TierNone, sandbox.TierWeak, sandbox.TierBwrap, sandbox.TierFull} {
		b.Run(string(tier), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dir, scratch := b.TempDir(), b.TempDir()
				spec := sandbox.Spec{Tree: dir, Scratch: scratch, Env: sandbox.BaseEnv(scratch, nil)}
				b.StartTimer()
				s, err := proc.New(proc.Options{Want: tier}).Open(b.Context(), spec)
				if err != nil {
					b.Skip(err)
				}
				b.StopTimer()
				s.Close(context.Background())
				b.StartTimer()
			}
		})
	}
}

func benchOpen(b *testing.B, tier sandbox.Tier) sandbox.Session {
	b.Helper()
	scratch := b.TempDir()
	s, err := proc.New(proc.Options{Want: tier}).Open(b.Context(), sandbox.Spec{Tree: b.TempDir(), Scratch: scratch, Env: sandbox.BaseEnv(scratch, nil)})
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { s.Close(context.Background()) })
	return s
}
