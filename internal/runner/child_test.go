package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model/scripted"
	"github.com/rivumi/rivumi/internal/runner"
	"github.com/rivumi/rivumi/internal/testkit/runlog"
)

const childEnv = "RIVUMI_RUNNER_TEST_CHILD"

// childSpec is what a process that will be killed runs.
type childSpec struct {
	Task              contract.Task
	Dir, Log, KeyDir  string
	Script, Artifacts string
}

// childMain runs one job in a process of its own and writes its log to a file as it goes.
func childMain(raw string) int {
	var c childSpec
	err := json.Unmarshal([]byte(raw), &c)
	var log *os.File
	if err == nil {
		log, err = os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	p, perr := scripted.Parse([]byte(c.Script))
	signer, serr := bundle.OpenSigner(c.KeyDir)
	if err := errors.Join(err, perr, serr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := &runlog.Session{Dir: c.Artifacts, Attempt: 1, File: log}
	if err := s.Store(contract.NewEvent(0, contract.RunQueued{Schema: "rivumi-events/1", Task: c.Task})); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	r := runner.New(runner.Config{
		Sandbox: plain, Signer: signer,
		Model: func(context.Context, contract.Task) (runner.ModelSetup, error) {
			return runner.ModelSetup{Model: p, Name: "scripted"}, nil
		},
	})
	e := r.Run(context.Background(), runner.Job{Run: contract.Run{ID: runlog.RunID}, Task: c.Task, Session: s, Dir: c.Dir})
	fmt.Fprintf(os.Stderr, "ended %+v\n", e)
	return 0
}

// killedRun starts the task in another process and kills it with SIGKILL when the file mark is there.
// It gives the log the process left.
func (w *world) killedRun(t *testing.T, script, mark string) []contract.Event {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	c := childSpec{Task: w.task, Dir: w.dir, Log: log, KeyDir: t.TempDir(), Script: script, Artifacts: t.TempDir()}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(contract.MarshalJSON(c)))
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { _, err := os.Stat(mark); return err == nil })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatalf("the process ended by itself: %s", out.String())
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var events []contract.Event
	for line := range strings.Lines(string(data)) {
		e, err := contract.DecodeEvent([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for range 6000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("waited a minute for nothing")
}

// resume goes on from an earlier log in a new run folder.
func (w *world) resume(ctx context.Context, history []contract.Event) (contract.Ending, *runlog.Session) {
	w.t.Helper()
	t, ok := w.t.(*testing.T)
	if !ok {
		w.t.Fatal("resume is for tests")
	}
	prior := w.dir
	w.dir, w.s = t.TempDir(), runlog.New(t, w.task)
	if err := w.s.Store(contract.NewEvent(0, contract.RunResumed{Attempt: 2, Reason: "interrupted"})); err != nil {
		t.Fatal(err)
	}
	j := w.job()
	j.History, j.Prior = history, prior
	if w.patch != nil {
		j.PriorPatch = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(*w.patch)), nil }
	}
	e := runner.New(w.c).Run(ctx, j)
	return e, w.s
}

func TestWT05KilledRunIsGoneOnWith(t *testing.T) {
	w := newWorld(t, toy())
	out := t.TempDir()
	count, mark := filepath.Join(out, "count"), filepath.Join(out, "mark")
	script := `
turns:
  - calls: [{id: c1, name: bash, arguments: {command: "echo three >> a.txt"}}]
  - calls: [{id: c2, name: bash, arguments: {command: "echo x >> ` + count + `; echo four >> a.txt; touch ` + mark + `; sleep 300"}}]
  - calls: [{id: c3, name: bash, arguments: {command: "echo five >> a.txt"}}]
  - text: Done.
`
	history := w.killedRun(t, script, mark)
	if fingerprint(t, w.repo) != w.before {
		t.Error("the user's repository changed by the kill")
	}
	if got := resultsOf(history); got["c1"] != 1 || got["c2"] != 0 {
		t.Fatalf("results in the killed log: %v", got)
	}
	w.script(script)
	e, s := w.resume(t.Context(), history)
	want(t, e, contract.Completed, "")
	patch := s.Artifact(t, contract.ArtifactPatch)
	for _, line := range []string{"+three", "+four", "+five"} {
		if !strings.Contains(patch, line) {
			t.Errorf("no %s in the patch", line)
		}
	}
	if data, _ := os.ReadFile(count); string(data) != "x\n" {
		t.Errorf("the interrupted command ran again: %q", data)
	}
	total := resultsOf(append(history, s.Events()...))
	for id, n := range total {
		if n != 1 {
			t.Errorf("call %s has %d results over both logs", id, n)
		}
	}
	if r := runlog.All[contract.ToolResult](s.Events())[0]; r.CallID != "c2" || !r.Interrupted || !r.IsError {
		t.Errorf("first result %+v", r)
	}
	if fingerprint(t, w.repo) != w.before {
		t.Error("the user's repository changed")
	}
	w.holds(t, e)
	w.bundle()
}

func TestOneWorkspaceIsGoneOnWithOnce(t *testing.T) {
	w := newWorld(t, toy())
	w.script(editThree)
	want(t, w.run(t.Context()), contract.Completed, "")
	prior, history := w.dir, w.s.Events()
	e, _ := w.resume(t.Context(), history)
	want(t, e, contract.Completed, "")
	second, secondLog := w.dir, w.s.Events()
	if got := runner.TakenBy(prior); got != second {
		t.Errorf("taken by %q, not by %q", got, second)
	}
	w.dir = prior
	e, _ = w.resume(t.Context(), history)
	want(t, e, contract.Failed, contract.FailWorkspace)
	w.dir = second
	e, _ = w.resume(t.Context(), append(history, secondLog...))
	want(t, e, contract.Completed, "")
	if err := os.RemoveAll(filepath.Join(prior, "workspace")); err != nil {
		t.Fatal(err)
	}
	e, _ = w.resume(t.Context(), history)
	want(t, e, contract.Failed, contract.FailWorkspace)
}

func TestRunWhoseWorkspaceIsGoneIsGoneOnWithFromItsPatch(t *testing.T) {
	w := newWorld(t, toy())
	w.task.Limits.MaxSteps = 1
	script := `
turns:
  - calls: [{name: bash, arguments: {command: "echo three >> a.txt"}}]
  - calls: [{name: bash, arguments: {command: "cat a.txt; echo four >> a.txt"}}]
  - text: Done.
`
	w.script(script)
	want(t, w.run(t.Context()), contract.Failed, contract.FailSteps)
	if err := os.RemoveAll(filepath.Join(w.dir, "workspace")); err != nil {
		t.Fatal(err)
	}
	patch, history := w.s.Artifact(t, contract.ArtifactPatch), w.s.Events()
	w.task.Limits.MaxSteps = 10
	w.patch = &patch
	e, s := w.resume(t.Context(), history)
	want(t, e, contract.Completed, "")
	if got := s.Artifact(t, contract.ArtifactPatch); !strings.Contains(got, "+three\n+four\n") {
		t.Errorf("patch %s", got)
	}
	if names, _ := os.ReadDir(w.dir); len(names) != 2 { // workspace and start.json
		t.Errorf("left in the run's folder: %v", names)
	}
}

func TestRunThatDidNothingIsStartedAnew(t *testing.T) {
	w := newWorld(t, toy())
	w.script(editThree)
	e, s := w.resume(t.Context(), []contract.Event{contract.NewEvent(1, contract.RunQueued{Schema: "rivumi-events/1", Task: w.task})})
	want(t, e, contract.Completed, "")
	if !strings.Contains(s.Artifact(t, contract.ArtifactPatch), "+three") {
		t.Error("the patch is not that of the task")
	}
}
