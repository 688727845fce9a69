package control

import (
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

func running(t failer, p contract.Profile) *world {
	w := newWorld(t, testConfig(p))
	w.create(validTask())
	w.claim()
	return w
}

// in gives a world whose run is in a state.
func in(t failer, s contract.State) *world {
	w := newWorld(t, testConfig(contract.Edge()))
	w.create(validTask())
	switch s {
	case contract.Queued:
	case contract.Cancelled:
		w.must(w.cancel())
	case contract.Running, contract.Completed, contract.Failed:
		w.claim()
		if s == contract.Completed {
			_, err := w.finish(1, provenEnding())
			w.must(err)
		}
		if s == contract.Failed {
			_, err := w.finish(1, failing(contract.FailSteps))
			w.must(err)
		}
	}
	return w
}

func failing(c contract.FailureCode) contract.Ending {
	return contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: c, Message: "m"}}
}

func (w *world) cancel() error {
	return w.m.do(func(tx Tx) error {
		_, err := w.core.Cancel(tx, w.env(), "alice", "")
		return err
	})
}

// All pairs of states: what each decision makes of each state, or with which kind it refuses.
func TestEveryDecisionInEveryState(t *testing.T) {
	type outcome struct {
		to   contract.State
		kind contract.Kind
	}
	ok := func(s contract.State) outcome { return outcome{to: s} }
	no := func(k contract.Kind) outcome { return outcome{kind: k} }
	done := no(contract.KindRunFinished)
	decisions := map[string]func(*world) error{
		"claim": func(w *world) error {
			return w.m.do(func(tx Tx) error {
				_, err := w.core.Claim(tx, w.env(), "o", time.Minute)
				return err
			})
		},
		"complete":  func(w *world) error { _, err := w.finish(1, provenEnding()); return err },
		"fail":      func(w *world) error { _, err := w.finish(1, failing(contract.FailModel)); return err },
		"not start": func(w *world) error { _, err := w.finish(0, failing(contract.FailSandboxStart)); return err },
		"cancel":    (*world).cancel,
		"interrupt": func(w *world) error {
			w.now = w.now.Add(time.Hour)
			return w.m.do(func(tx Tx) error {
				_, err := w.core.Interrupt(tx, w.env())
				return err
			})
		},
		"append": func(w *world) error { return w.append(1, contract.NewEvent(0, contract.Notice{})) },
		"send": func(w *world) error {
			return w.m.do(func(tx Tx) error {
				_, err := w.core.Send(tx, w.env(), "hi")
				return err
			})
		},
		"delete": func(w *world) error { return w.m.do(func(tx Tx) error { return w.core.Delete(tx) }) },
	}
	table := map[string]map[contract.State]outcome{
		"claim":     {contract.Queued: ok(contract.Running), contract.Running: no(contract.KindConflict)},
		"complete":  {contract.Queued: no(contract.KindConflict), contract.Running: ok(contract.Completed)},
		"fail":      {contract.Queued: no(contract.KindConflict), contract.Running: ok(contract.Failed)},
		"not start": {contract.Queued: ok(contract.Failed), contract.Running: no(contract.KindFenced)},
		"cancel": {
			contract.Queued: ok(contract.Cancelled), contract.Running: ok(contract.Running), contract.Completed: ok(contract.Completed),
			contract.Failed: ok(contract.Failed), contract.Cancelled: ok(contract.Cancelled),
		},
		"interrupt": {contract.Queued: no(contract.KindConflict), contract.Running: ok(contract.Failed)},
		"append":    {contract.Queued: no(contract.KindConflict), contract.Running: ok(contract.Running)},
		"send":      {contract.Queued: ok(contract.Queued), contract.Running: ok(contract.Running)},
		"delete": {
			contract.Queued: no(contract.KindRunNotFinished), contract.Running: no(contract.KindRunNotFinished),
			contract.Completed: ok(""), contract.Failed: ok(""), contract.Cancelled: ok(""),
		},
	}
	for name, decide := range decisions {
		for _, s := range contract.States() {
			want, found := table[name][s]
			if !found {
				want = done
			}
			w := in(t, s)
			err := decide(w)
			if contract.KindOf(err) != want.kind {
				t.Errorf("%s of a %s run: %v, want %q", name, s, err, want.kind)
			}
			if err == nil && want.to != "" && w.read().Status != want.to {
				t.Errorf("%s of a %s run gives %s, want %s", name, s, w.read().Status, want.to)
			}
		}
	}
}

func TestAnEndingThatProvesNothingIsNoSuccess(t *testing.T) {
	cases := map[string]struct {
		spoil func(*contract.Ending)
		code  contract.FailureCode
	}{
		"no result":           {func(e *contract.Ending) { e.Result = nil }, contract.FailResult},
		"an error too":        {func(e *contract.Ending) { e.Error = &contract.Failure{Code: contract.FailModel} }, contract.FailResult},
		"no checks":           {func(e *contract.Ending) { e.Result.Checks = nil }, contract.FailResult},
		"another check":       {func(e *contract.Ending) { e.Result.Checks[0].Argv = contract.Check{"true"} }, contract.FailResult},
		"joined check":        {func(e *contract.Ending) { e.Result.Checks[0].Argv = contract.Check{"git diff --check"} }, contract.FailResult},
		"failed check":        {func(e *contract.Ending) { e.Result.Checks[0].ExitCode = 1 }, contract.FailResult},
		"check not passed":    {func(e *contract.Ending) { e.Result.Checks[0].Passed = false }, contract.FailResult},
		"timed out":           {func(e *contract.Ending) { e.Result.Checks[0].TimedOut = true }, contract.FailResult},
		"feedback only":       {func(e *contract.Ending) { e.Result.Checks[0].Phase = "feedback" }, contract.FailResult},
		"twice":               {func(e *contract.Ending) { e.Result.Checks = append(e.Result.Checks, e.Result.Checks[0]) }, contract.FailResult},
		"unverified":          {func(e *contract.Ending) { e.Result.Outcome = contract.OutcomeUnverified }, contract.FailResult},
		"no changes, some":    {func(e *contract.Ending) { e.Result.Outcome = contract.OutcomeNoChanges }, contract.FailResult},
		"no patch":            {func(e *contract.Ending) { e.Result.Patch = nil }, contract.FailResult},
		"patch elsewhere":     {func(e *contract.Ending) { e.Result.Patch.Artifact = "../x" }, contract.FailResult},
		"outside":             {func(e *contract.Ending) { e.Result.ChangedFiles[0].Path = "lib/a.py" }, contract.FailPaths},
		"renamed from":        {func(e *contract.Ending) { e.Result.ChangedFiles[0].OldPath = "lib/a.py" }, contract.FailPaths},
		"up":                  {func(e *contract.Ending) { e.Result.ChangedFiles[0].Path = "src/../../a" }, contract.FailPaths},
		".git":                {func(e *contract.Ending) { e.Result.ChangedFiles[0].Path = "src/.git/config" }, contract.FailPaths},
		"submodule":           {func(e *contract.Ending) { e.Result.ChangedFiles[0].Mode = "160000" }, contract.FailPaths},
		"setuid":              {func(e *contract.Ending) { e.Result.ChangedFiles[0].Mode = "104755" }, contract.FailPaths},
		"no path":             {func(e *contract.Ending) { e.Result.ChangedFiles[0].Path = "" }, contract.FailPaths},
		"still running":       {func(e *contract.Ending) { e.State = contract.Running }, contract.FailResult},
		"made-up state":       {func(e *contract.Ending) { e.State = "great" }, contract.FailResult},
		"cancel nobody asked": {func(e *contract.Ending) { *e = contract.Ending{State: contract.Cancelled} }, contract.FailResult},
		"failed, no error":    {func(e *contract.Ending) { *e = contract.Ending{State: contract.Failed} }, contract.FailResult},
		"failed, made up":     {func(e *contract.Ending) { *e = failing("because") }, contract.FailResult},
		"failed and outside": {func(e *contract.Ending) {
			e.State, e.Error = contract.Failed, &contract.Failure{Code: contract.FailSteps}
			e.Result.ChangedFiles[0].Path = "lib/a.py"
		}, contract.FailPaths},
	}
	for name, c := range cases {
		w := running(t, contract.Edge())
		e := provenEnding()
		c.spoil(&e)
		run, err := w.finish(1, e)
		w.must(err)
		if run.Status != contract.Failed || run.Error == nil || run.Error.Code != c.code {
			t.Errorf("%s: %s %+v", name, run.Status, run.Error)
		}
		if run.Result != nil && run.Result.Outcome != "" {
			t.Errorf("%s: a failed run claims %s", name, run.Result.Outcome)
		}
	}
	idle := provenEnding()
	idle.Result.Outcome, idle.Result.ChangedFiles, idle.Result.Patch = contract.OutcomeNoChanges, nil, nil
	feedback := provenEnding()
	feedback.Result.Checks = append([]contract.CheckResult{{Argv: contract.Check{"x"}, ExitCode: 1, Phase: "feedback"}}, feedback.Result.Checks...)
	for name, e := range map[string]contract.Ending{"proven": provenEnding(), "idle": idle, "after feedback": feedback} {
		if run, err := running(t, contract.Edge()).finish(1, e); err != nil || run.Status != contract.Completed {
			t.Errorf("%s: %s %+v %v", name, run.Status, run.Error, err)
		}
	}
}

// PT-06: on the user's machine a name is theirs, whatever a wire would say to it.
func TestPT06NamesOfTheUserDoNotEndALocalRun(t *testing.T) {
	for _, p := range []contract.Profile{contract.Local(), contract.Server()} {
		for _, name := range []string{"src/tab\there", "src/cafe\u0301", "src/latin\xe9", "src/back\\slash"} {
			e := provenEnding()
			e.Result.ChangedFiles[0].Path = name
			run, err := running(t, p).finish(1, e)
			if err != nil || p.LocalRepository != (run.Status == contract.Completed) {
				t.Errorf("%s: %q: %s %+v %v", p.Name, name, run.Status, run.Error, err)
			}
		}
	}
}

func TestCX01ACancelWinsOverALateCompletion(t *testing.T) {
	w := running(t, contract.Edge())
	w.must(w.cancel())
	run, err := w.finish(1, provenEnding())
	w.must(err)
	if run.Status != contract.Cancelled || run.ExitCode() != contract.ExitInterrupt || run.Result == nil {
		t.Errorf("%+v", run)
	}
	got := strings.Join(types(w.log()), " ")
	if !strings.HasSuffix(got, "run.cancel_requested run.late_result run.cancelled") {
		t.Errorf("log: %s", got)
	}
	w = running(t, contract.Edge())
	w.must(w.m.do(func(tx Tx) error {
		_, err := w.core.Cancel(tx, w.env(), "alice", contract.ReasonTerminated)
		return err
	}))
	run, err = w.finish(1, contract.Ending{State: contract.Cancelled})
	w.must(err)
	if run.ExitCode() != contract.ExitTerminate {
		t.Errorf("a terminated run exits with %d", run.ExitCode())
	}
}

func TestAResultTooBigForAnEventStillEndsTheRun(t *testing.T) {
	w := running(t, contract.Edge())
	e := provenEnding()
	for range 15_000 {
		e.Result.ChangedFiles = append(e.Result.ChangedFiles, contract.FileChange{Path: "src/" + strings.Repeat("p", 200), Status: "added"})
	}
	e.Result.Summary = strings.Repeat("s", 1<<20)
	run, err := w.finish(1, e)
	w.must(err)
	if run.Status != contract.Completed || len(run.Result.ChangedFiles) == 0 {
		t.Errorf("%s, %d files", run.Status, len(run.Result.ChangedFiles))
	}
	f := failing(contract.FailModel)
	f.Error.Message = strings.Repeat("\u202e", 1<<20)
	run, err = running(t, contract.Edge()).finish(1, f)
	if err != nil || !contract.IsClean(run.Error.Message) {
		t.Errorf("%v", err)
	}
}

func TestAResumedRunPointsAtTheOneItGoesOnFrom(t *testing.T) {
	w := running(t, contract.Edge())
	w.wants(w.m.do(func(tx Tx) error { _, err := w.core.Resumable(tx); return err }), contract.KindRunNotFinished)
	w.now = w.now.Add(2 * time.Minute)
	var old contract.Run
	w.must(w.m.do(func(tx Tx) (err error) { old, err = w.core.Interrupt(tx, w.env()); return err }))
	if old.Error.Code != contract.FailInterrupted {
		t.Fatalf("%+v", old.Error)
	}
	origin, err := w.core.Resumable(w.m)
	w.must(err)
	w.m = newMemory()
	var next contract.Run
	w.must(w.m.do(func(tx Tx) (err error) { next, err = w.core.Resume(tx, w.env(), origin, "and test it"); return err }))
	if next.ID == old.ID || next.Status != contract.Queued || next.Instruction != old.Instruction {
		t.Errorf("%+v", next)
	}
	log := w.log()
	resumed, ok := contract.As[contract.RunResumed](log[1])
	if !ok || resumed.From != old.ID || resumed.Attempt != 2 || resumed.Reason != "interrupted" || log[2].Type != contract.TypeMessageUser {
		t.Errorf("log: %v %+v", types(log), resumed)
	}
	if run := w.claim(); run.Attempt != 2 {
		t.Errorf("attempt %d", run.Attempt)
	}
	status, err := w.core.StatusOf(w.m)
	w.must(err)
	if status.From != old.ID || status.Principal != "alice" {
		t.Errorf("%+v", status)
	}
}
