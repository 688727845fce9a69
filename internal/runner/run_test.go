package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/runner"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/testkit/runlog"
)

const editThree = `
turns:
  - text: I add the line.
    calls: [{name: bash, arguments: {command: "echo three >> a.txt"}}]
  - text: Done, a.txt has three lines.
`

func TestVerifiedRunLeavesAWholeBundle(t *testing.T) {
	w := newWorld(t, toy())
	w.task.Checks = []contract.Check{{"sh", "test.sh"}}
	w.script(editThree)
	e := w.run(t.Context())
	want(t, e, contract.Completed, "")
	if e.Result.Outcome != contract.OutcomeVerified || len(e.Result.ChangedFiles) != 1 || e.Result.Summary == "" {
		t.Fatalf("result %+v", e.Result)
	}
	r := w.bundle()
	if len(r.Findings) != 0 || r.Manifest.FinalTree != e.Result.FinalTree || len(r.Manifest.Files) != 1 || !r.Chain.Ended {
		t.Fatalf("report %+v", r)
	}
	if f := r.Manifest.Files[0]; f.Path != "a.txt" || f.Before.Bytes != 8 || f.After.Bytes != 14 {
		t.Errorf("manifest %+v", f)
	}
	fresh := makeRepo(t, toy())
	put(t, filepath.Join(fresh, "../p"), w.s.Artifact(t, contract.ArtifactPatch))
	git(t, fresh, "apply", "--index", "../p")
	if tree := strings.TrimSpace(git(t, fresh, "write-tree")); tree != e.Result.FinalTree {
		t.Errorf("the patch gives %s, not %s", tree, e.Result.FinalTree)
	}
	for _, name := range []string{contract.ArtifactTranscript, contract.ArtifactResult, bundle.CheckLog(1)} {
		if w.s.Artifact(t, name) == "" && name != bundle.CheckLog(1) {
			t.Errorf("no %s", name)
		}
	}
	order := w.types()
	ready, step := slices.Index(order, contract.TypeWorkspaceReady), slices.Index(order, contract.TypeStepStarted)
	if ready < 0 || step < ready || !slices.Contains(order, contract.TypeDiffUpdated) || !slices.Contains(order, contract.TypeCheckResult) {
		t.Errorf("events %v", order)
	}
	if left, _ := os.ReadDir(w.dir); slices.ContainsFunc(left, func(d os.DirEntry) bool { return d.Name() == "checks" || d.Name() == "scratch" }) {
		t.Errorf("left in the run's folder: %v", left)
	}
}

func (w *world) types() []contract.EventType {
	var out []contract.EventType
	for _, e := range w.s.Events() {
		out = append(out, e.Type)
	}
	return out
}

func TestUncheckedRunIsUnverifiedAndIdleOneHasNoChanges(t *testing.T) {
	w := newWorld(t, toy())
	w.script(editThree)
	if e := w.run(t.Context()); e.State != contract.Completed || e.Result.Outcome != contract.OutcomeUnverified {
		t.Fatalf("%+v", e)
	}
	w = newWorld(t, toy())
	w.script("turns: [{text: There are two lines.}]")
	if e := w.run(t.Context()); e.State != contract.Completed || e.Result.Outcome != contract.OutcomeNoChanges {
		t.Fatalf("%+v", e)
	}
	w.bundle()
}

func TestAR01LyingModelFailsItsCheck(t *testing.T) {
	w := newWorld(t, toy())
	w.task.Checks = []contract.Check{{"sh", "test.sh"}}
	w.task.Limits.MaxSteps = 3
	w.script(`
turns:
  - calls: [{name: bash, arguments: {command: "echo x >> a.txt; sh test.sh | tail -1"}}]
  - text: All tests pass.
default: repeat-last
`)
	e := w.run(t.Context())
	want(t, e, contract.Failed, contract.FailChecks)
	if contract.ExitCode(e.State, e.Error) != contract.ExitChecks {
		t.Error("exit code")
	}
	if e.Result.Patch == nil || e.Result.Patch.Artifact != contract.ArtifactPatch || e.Result.Checks[0].ExitCode != 1 || e.Result.Checks[0].Passed {
		t.Errorf("result %+v", e.Result)
	}
	w.bundle()
}

func TestFailingCheckOfAQuestionFailsTheRun(t *testing.T) {
	w := newWorld(t, toy())
	w.task.Checks = []contract.Check{{"sh", "test.sh"}}
	w.task.Limits.MaxSteps = 2
	w.script("turns: [{text: Nothing to do.}]\ndefault: repeat-last")
	want(t, w.run(t.Context()), contract.Failed, contract.FailChecks)
}

func TestCheckThatNeverEndsIsStoppedWithinTheWallTime(t *testing.T) {
	w := newWorld(t, toy())
	w.task.Checks = []contract.Check{{"sh", "-c", "echo waiting; sleep 300"}}
	w.task.Limits.MaxSteps, w.task.Limits.WallTimeSeconds = 1, 3
	w.script("turns: [{text: Done.}]\ndefault: repeat-last")
	e := w.run(t.Context())
	want(t, e, contract.Failed, contract.FailChecks)
	if c := e.Result.Checks; len(c) != 1 || !c[0].TimedOut || c[0].Passed || !strings.Contains(w.s.Artifact(t, bundle.CheckLog(1)), "waiting") {
		t.Errorf("checks %+v", c)
	}
}

func TestCheckThatCannotStartHasExitCode127(t *testing.T) {
	w := newWorld(t, toy())
	w.task.Checks = []contract.Check{{"no-such-program-here"}}
	w.task.Limits.MaxSteps = 1
	w.script("turns: [{text: Done.}]\ndefault: repeat-last")
	e := w.run(t.Context())
	want(t, e, contract.Failed, contract.FailChecks)
	if c := e.Result.Checks; len(c) != 1 || c[0].ExitCode != 127 || w.s.Artifact(t, bundle.CheckLog(1)) == "" {
		t.Errorf("checks %+v", c)
	}
}

func TestFailingCheckGoesBackToTheModel(t *testing.T) {
	w := newWorld(t, toy())
	w.task.Checks = []contract.Check{{"sh", "-c", "grep -q three a.txt || { echo no three here; exit 4; }"}}
	m := w.script(`
turns:
  - text: Done.
  - calls: [{name: bash, arguments: {command: "echo three >> a.txt"}}]
  - text: Really done.
`)
	e := w.run(t.Context())
	want(t, e, contract.Completed, "")
	checks := runlog.All[contract.CheckFinished](w.s.Events())
	if len(checks) != 2 || checks[0].Phase != "feedback" || checks[0].ExitCode != 4 || checks[1].Phase != "final" {
		t.Errorf("checks %+v", checks)
	}
	if len(e.Result.Checks) != 1 || e.Result.Checks[0].Phase != "final" {
		t.Errorf("result %+v", e.Result.Checks)
	}
	told := false
	for _, r := range m.all() {
		for _, msg := range r.Messages {
			told = told || strings.Contains(msg.Text, "no three here")
		}
	}
	if !told {
		t.Error("the model did not see the output of the check")
	}
}

func TestAR02EarlyEndKeepsPatchTranscriptAndReason(t *testing.T) {
	edit := "turns:\n  - {text: edit, calls: [{name: bash, arguments: {command: \"echo three >> a.txt\"}}]}\n"
	for _, c := range []struct {
		name, script string
		steps        int
		state        contract.State
		code         contract.FailureCode
	}{
		{"model error", edit + "  - {error: {kind: status, status: 500, message: broken}}\n", 10, contract.Failed, contract.FailModel},
		{"credentials", edit + "  - {error: {kind: status, status: 401, message: bad key}}\n", 10, contract.Failed, contract.FailCredentials},
		{"cancel", edit + "  - {text: wait, hang: true}\n", 10, contract.Cancelled, contract.FailCancelled},
		{"wall time", edit + "  - {text: wait, hang: true}\n", 10, contract.Failed, contract.FailWallTime},
		{"shutdown", edit + "  - {text: wait, hang: true}\n", 10, contract.Failed, contract.FailInterrupted},
		{"step limit", edit, 1, contract.Failed, contract.FailSteps},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, toy())
			w.task.Checks = []contract.Check{{"sh", "test.sh"}}
			w.task.Limits.MaxSteps = c.steps
			w.script(c.script)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			w.s = runlog.New(t, w.task)
			w.s.OnAppend = func(e contract.Event) error {
				if e.Type == contract.TypeStepStarted && e.Step == 2 {
					cancel(map[string]error{"cancel": w.errStop, "wall time": errWall, "shutdown": errShutdown}[c.name])
				}
				return nil
			}
			if !strings.Contains(c.script, "hang") {
				w.s.OnAppend = nil
			}
			began := time.Now()
			e := w.run(ctx)
			want(t, e, c.state, c.code)
			if !strings.Contains(w.s.Artifact(t, contract.ArtifactPatch), "+three") || e.Error.Message == "" {
				t.Errorf("patch or reason missing: %+v", e.Error)
			}
			if !strings.Contains(w.s.Artifact(t, contract.ArtifactTranscript), "echo three") || len(e.Result.Checks) != 0 {
				t.Error("the transcript is missing, or checks are claimed")
			}
			if time.Since(began) > 30*time.Second {
				t.Error("it took too long")
			}
			w.bundle()
		})
	}
}

func TestAR03ChecksAndBuildsStayOutOfThePatch(t *testing.T) {
	w := newWorld(t, toy())
	w.task.Checks = []contract.Check{{"sh", "-c", "echo x > dump.rdb; echo y > a.txt"}}
	w.script(`
turns:
  - calls: [{name: bash, arguments: {command: "echo three >> a.txt; head -c 2000000 /dev/zero > app"}}]
  - text: Done.
`)
	e := w.run(t.Context())
	want(t, e, contract.Completed, "")
	patch := w.s.Artifact(t, contract.ArtifactPatch)
	if strings.Contains(patch, "dump.rdb") || strings.Contains(patch, "+y") || !strings.Contains(patch, "+three") {
		t.Error("files of the check reached the patch")
	}
	if !slices.Contains(e.Result.LargeAdditions, "app") {
		t.Errorf("large additions %q", e.Result.LargeAdditions)
	}
}

func TestWT03IgnoredFilesAreNamedAndCanBeIncluded(t *testing.T) {
	w := newWorld(t, toy())
	put(t, filepath.Join(w.repo, ".env"), "TOKEN=hunter2hunter2\n")
	put(t, filepath.Join(w.repo, "deps/x"), "x\n")
	w.before = fingerprint(t, w.repo)
	w.task.Checks = []contract.Check{{"test", "-f", ".env"}}
	w.task.Limits.MaxSteps = 1
	w.script("turns: [{text: Fine.}]\ndefault: repeat-last")
	e := w.run(t.Context())
	want(t, e, contract.Failed, contract.FailChecks)
	if !strings.Contains(e.Error.Hint, ".env") {
		t.Errorf("hint %q does not name the ignored file", e.Error.Hint)
	}
	again := newWorld(t, toy())
	again.repo, again.before, again.task = w.repo, w.before, w.task
	again.task.Repository.Include = []string{".env"}
	again.script("turns: [{text: Fine.}]")
	want(t, again.run(t.Context()), contract.Completed, "")
	for _, name := range []string{contract.ArtifactPatch, contract.ArtifactManifest, contract.ArtifactEvents, contract.ArtifactTranscript} {
		if strings.Contains(again.s.Artifact(t, name), "hunter2") {
			t.Errorf("%s holds the ignored file", name)
		}
	}
}

func TestSE01KeyReachesNothing(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", secret)
	w := newWorld(t, toy())
	w.task.Sandbox.Env = []string{"OPENAI_API_KEY"}
	m := w.script(`
turns:
  - calls:
      - {name: bash, arguments: {command: "env; cat /proc/self/environ; cat /proc/1/environ; echo sk-test-000111222; printf %s sk-test-000111 222333"}}
      - {name: bash, arguments: {command: "tr '\\0' '\\n' < /proc/$PPID/environ"}}
      - {name: bash, arguments: {command: "test -z \"$OPENAI_API_KEY\" && echo it is absent"}}
  - text: The key is sk-test-000111222333.
`)
	e := w.run(t.Context())
	want(t, e, contract.Completed, "")
	if strings.Contains(e.Result.Summary, secret) {
		t.Error("summary")
	}
	if r := runlog.All[contract.ToolResult](w.s.Events()); !strings.Contains(r[2].Text, "it is absent") {
		t.Errorf("a variable that holds a known secret reached a command: %s", r[2].Text)
	}
	for _, r := range m.all() {
		for _, msg := range r.Messages {
			for _, res := range msg.Results {
				if strings.Contains(res.Text, secret) {
					t.Error("a model request holds the key")
				}
			}
		}
	}
	entries, _ := os.ReadDir(w.s.Dir)
	for _, f := range entries {
		if strings.Contains(w.s.Artifact(t, f.Name()), secret) {
			t.Errorf("artifact %s holds the key", f.Name())
		}
	}
}

func TestSecretInTheTreeIsNotHandedOn(t *testing.T) {
	w := newWorld(t, toy())
	w.script(`
turns:
  - calls: [{name: bash, arguments: {command: "printf 'sk-test-000111%s\n' 222333 > leak.txt"}}]
  - text: Done.
`)
	e := w.run(t.Context())
	want(t, e, contract.Failed, contract.FailResult)
	if p := w.s.Artifact(t, contract.ArtifactRejected); strings.Contains(p, secret) || !strings.Contains(p, "[redacted:KEY]") {
		t.Errorf("rejected patch %q", p)
	}
}

func TestChangesOutsideTheAllowedPathsAreRejected(t *testing.T) {
	w := newWorld(t, toy())
	w.task.AllowedPaths = []string{"src/**"}
	w.script(editThree)
	e := w.run(t.Context())
	want(t, e, contract.Failed, contract.FailPaths)
	if contract.ExitCode(e.State, e.Error) != contract.ExitPaths || !strings.Contains(e.Error.Message, "a.txt") {
		t.Errorf("%+v", e.Error)
	}
	if w.s.Artifact(t, contract.ArtifactPatch) != "" || !strings.Contains(w.s.Artifact(t, contract.ArtifactRejected), "+three") {
		t.Error("the patch must be kept as rejected only")
	}
	w.bundle()
}

func TestApprovalsDecideTheOutcome(t *testing.T) {
	by := func(v contract.Verdict, who string) func(contract.Approval) contract.Decision {
		return func(contract.Approval) contract.Decision { return contract.Decision{Verdict: v, By: who} }
	}
	denyFirst := func() func(contract.Approval) contract.Decision {
		n := 0
		return func(contract.Approval) contract.Decision {
			if n++; n == 1 {
				return contract.Decision{Verdict: contract.Deny, By: "ann"}
			}
			return contract.Decision{Verdict: contract.AllowOnce, By: "ann"}
		}
	}
	two := `
turns:
  - calls: [{name: bash, arguments: {command: "touch other"}}]
  - calls: [{name: bash, arguments: {command: "echo three >> a.txt"}}]
  - text: Done.
`
	for _, c := range []struct {
		name   string
		decide func(contract.Approval) contract.Decision
		state  contract.State
		code   contract.FailureCode
	}{
		{"nobody answers", by(contract.Deny, contract.ByNobody), contract.Failed, contract.FailApproval},
		{"time-out", by(contract.Deny, contract.ByTimeout), contract.Failed, contract.FailApproval},
		{"a person denies all", by(contract.Deny, "ann"), contract.Failed, contract.FailApproval},
		{"a person denies one", denyFirst(), contract.Completed, ""},
		{"a person allows", by(contract.AllowOnce, "ann"), contract.Completed, ""},
		{"a person cancels", by(contract.CancelRun, "ann"), contract.Cancelled, contract.FailCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, toy())
			w.task.Approval.Policy = contract.PolicyAsk
			w.script(two)
			w.s = runlog.New(t, w.task)
			w.s.Decide = c.decide
			want(t, w.run(t.Context()), c.state, c.code)
			if len(w.s.Asked()) == 0 {
				t.Error("nothing was asked")
			}
			w.bundle()
		})
	}
}

func TestSetUpFailuresHaveTheirReason(t *testing.T) {
	t.Run("no repository", func(t *testing.T) {
		w := newWorld(t, toy())
		w.task.Repository.Path = t.TempDir()
		w.script(editThree)
		want(t, w.run(t.Context()), contract.Failed, contract.FailWorkspace)
	})
	t.Run("no sandbox", func(t *testing.T) {
		w := newWorld(t, toy())
		w.task.Sandbox.MinTier = "gvisor"
		w.script(editThree)
		e := w.run(t.Context())
		want(t, e, contract.Failed, contract.FailSandboxStart)
		if contract.ExitCode(e.State, e.Error) != contract.ExitSandbox {
			t.Error("exit code")
		}
		w.bundle()
	})
	t.Run("no model", func(t *testing.T) {
		w := newWorld(t, toy())
		w.c.Model = func(context.Context, contract.Task) (runner.ModelSetup, error) { return runner.ModelSetup{}, noKey() }
		want(t, w.run(t.Context()), contract.Failed, contract.FailCredentials)
	})
}

func TestCX02CancelDuringACommandEndsItAndKeepsThePatch(t *testing.T) {
	w := newWorld(t, toy())
	pid := filepath.Join(t.TempDir(), "pid")
	w.script(`
turns:
  - calls: [{name: bash, arguments: {command: "echo three >> a.txt; (trap '' TERM; echo $BASHPID > ` + pid + `; sleep 300) & sleep 300"}}]
`)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3000 {
			if data, err := os.ReadFile(pid); err == nil && len(data) > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		cancel(w.errStop)
	}()
	e := w.run(ctx)
	<-done
	want(t, e, contract.Cancelled, contract.FailCancelled)
	if !strings.Contains(w.s.Artifact(t, contract.ArtifactPatch), "+three") {
		t.Error("no patch")
	}
	data, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(data))); !errors.Is(err, os.ErrNotExist) {
		t.Error("the command outlived the run")
	}
}

func TestWhatSlipsInBehindTheChecksIsNotInThePatch(t *testing.T) {
	w := newWorld(t, toy())
	w.task.Checks = []contract.Check{{"sh", "test.sh"}}
	w.script(editThree)
	w.c.Sandbox = func(context.Context, contract.Task) (runner.Place, error) {
		place, err := plain(t.Context(), w.task)
		late := func(root string) { // what a process that nobody could end would do
			put(t, filepath.Join(root, "late.txt"), "not checked\n")
		}
		return runner.Place{Opener: broken{Opener: place.Opener, closing: late}}, err
	}
	e := w.run(t.Context())
	want(t, e, contract.Completed, "")
	if p := w.s.Artifact(t, contract.ArtifactPatch); strings.Contains(p, "late.txt") || !strings.Contains(p, "+three") {
		t.Errorf("the patch is not what was checked: %s", p)
	}
	w.bundle()
}

// broken wraps an opener to fail on demand.
type broken struct {
	sandbox.Opener
	run     func() error // of commands
	closing func(root string)
	close   error
}

func (b broken) Open(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	in, err := b.Opener.Open(ctx, s)
	return brokenSession{in, b}, err
}

type brokenSession struct {
	sandbox.Session
	b broken
}

func (s brokenSession) Run(ctx context.Context, c sandbox.Command, o sandbox.Output) (sandbox.Exit, error) {
	exit, err := s.Session.Run(ctx, c, o)
	if err == nil && s.b.run != nil {
		err = s.b.run()
	}
	return exit, err
}

func (s brokenSession) Close(ctx context.Context) error {
	if s.b.closing != nil {
		s.b.closing(s.Root())
	}
	return errors.Join(s.Session.Close(ctx), s.b.close)
}

func TestDK02FullDiskEndsTheRunWithItsReason(t *testing.T) {
	w := newWorld(t, toy())
	w.script(editThree)
	w.s = runlog.New(t, w.task)
	w.s.OnAppend = func(e contract.Event) error {
		if e.Type == contract.TypeToolResult {
			return &os.PathError{Op: "write", Path: "log", Err: syscall.ENOSPC}
		}
		return nil
	}
	want(t, w.run(t.Context()), contract.Failed, contract.FailDisk)
	if !strings.Contains(w.s.Artifact(t, contract.ArtifactPatch), "+three") {
		t.Error("the patch is missing")
	}
	w.bundle()

	w = newWorld(t, toy())
	w.script(editThree)
	w.s = runlog.New(t, w.task)
	w.s.PutErr = &os.PathError{Op: "write", Path: "artifacts", Err: syscall.ENOSPC}
	want(t, w.run(t.Context()), contract.Failed, contract.FailDisk)
	if entries, _ := os.ReadDir(w.s.Dir); len(entries) != 1 { // the log, which the test writes
		t.Errorf("half an artifact was left: %v", entries)
	}
}

func TestBrokenPlacesStillLeaveABundle(t *testing.T) {
	for _, c := range []struct {
		name  string
		b     broken
		state contract.State
		code  contract.FailureCode
	}{
		{"lost", broken{run: func() error { return &sandbox.Error{Code: sandbox.ErrLost, What: "gone"} }}, contract.Failed, contract.FailSandboxLost},
		{"panic", broken{run: func() error { panic("tool " + secret) }}, contract.Failed, contract.FailInternal},
		{"cleanup", broken{close: errors.New("busy")}, contract.Completed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, toy())
			w.script(editThree)
			w.c.Sandbox = func(context.Context, contract.Task) (runner.Place, error) {
				place, err := plain(t.Context(), w.task)
				c.b.Opener = place.Opener
				return runner.Place{Opener: c.b}, err
			}
			e := w.run(t.Context())
			want(t, e, c.state, c.code)
			if !strings.Contains(w.s.Artifact(t, contract.ArtifactPatch), "+three") {
				t.Error("the patch is missing")
			}
			if c.name == "cleanup" && !slices.ContainsFunc(runlog.All[contract.Notice](w.s.Events()), func(n contract.Notice) bool {
				return n.Code == string(contract.FailSandboxCleanup)
			}) {
				t.Error("the failed clean-up is hidden")
			}
			if strings.Contains(w.s.Artifact(t, "panic.txt"), secret) {
				t.Error("the panic's text holds the secret")
			}
			w.bundle()
		})
	}
}
