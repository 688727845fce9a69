package runner_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/runner"
	"github.com/rivumi/rivumi/internal/testkit/runlog"
)

// BenchmarkOneStepRun is a whole run of one tool step on a small repository, with one check: workspace,
// sandbox, two model calls of a script, snapshot, check, bundle. The log is in memory, artifacts
// are plain files without fsync. The metrics are milliseconds of its parts.
func BenchmarkOneStepRun(b *testing.B) {
	for _, checks := range []int{0, 1} {
		b.Run([]string{"unchecked", "checked"}[checks], func(b *testing.B) {
			w := newWorld(b, toy())
			if checks == 1 {
				w.task.Checks = []contract.Check{{"sh", "test.sh"}}
			}
			w.script(editThree)
			var ready, agent, end time.Duration
			for b.Loop() {
				b.StopTimer()
				w.dir = b.TempDir()
				w.s = &runlog.Session{Dir: b.TempDir(), Attempt: 1}
				b.StartTimer()
				began := time.Now()
				if e := runner.New(w.c).Run(context.Background(), w.job()); e.State != contract.Completed {
					b.Fatalf("%+v", e.Error)
				}
				total := time.Since(began)
				var first, last time.Time
				for _, e := range w.s.Events() {
					switch e.Type {
					case contract.TypeWorkspaceReady:
						first = e.Time.Time
					case contract.TypeModelMessage, contract.TypeCheckResult:
						last = e.Time.Time
					default:
					}
				}
				ready += first.Sub(began)
				agent += last.Sub(first)
				end += total - last.Sub(began)
			}
			for name, d := range map[string]time.Duration{"ready": ready, "agent": agent, "end": end} {
				b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), name+"-ms/op")
			}
		})
	}
}

// TestOneStepRunStartsFewProcesses holds what one small run costs in git processes, the measure that a
// busy machine does not change.
func TestOneStepRunStartsFewProcesses(t *testing.T) {
	real, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	w := newWorld(t, toy())
	put(t, filepath.Join(bin, "git.sh"), "#!/bin/sh\nfor a; do case $a in -*|*=*|/*) ;; *) echo $a; break;; esac; done >> "+log+"\nexec "+real+" \"$@\"\n")
	if err := os.Rename(filepath.Join(bin, "git.sh"), filepath.Join(bin, "git")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	w.task.Checks = []contract.Check{{"sh", "test.sh"}}
	w.script(editThree)
	w.s = runlog.New(t, w.task)
	e := runner.New(w.c).Run(t.Context(), w.job())
	want(t, e, contract.Completed, "")
	data, err := os.ReadFile(log)
	if err != nil {
		t.Skipf("git was not started by name: %v", err)
	}
	t.Logf("git processes: %s", strings.Join(strings.Fields(string(data)), " "))
	if n := strings.Count(string(data), "\n"); n > 20 {
		t.Errorf("%d git processes for a run of one step", n)
	}
}
