package runstest

import (
	"context"
	"errors"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
)

func question(call, script string) contract.Approval {
	return contract.Approval{
		CallID: call, Kind: contract.ApproveCommand, Title: "run " + script, Reason: "the policy asks",
		Command: contract.Asked{Script: script}, Risk: contract.Risk{Level: "low", Why: []string{}},
		SessionScope: contract.SessionScope{Pattern: "shell(" + script + ")", Explain: "exactly " + script},
	}
}

// asks gives an executor that asks one question and hands its answer over.
func asks(answers chan<- contract.Decision, call string) Play {
	return func(ctx context.Context, j host.Job) contract.Ending {
		d, err := j.Session.Ask(ctx, question(call, "make"))
		if err != nil {
			return stopped(ctx)
		}
		answers <- d
		return Done()
	}
}

func asked(t *testing.T, p Place, id contract.RunID) contract.Approval {
	t.Helper()
	e := until(t, p, id, contract.TypeApprovalRequested)
	a, ok := contract.As[contract.ApprovalRequested](e)
	if !ok || a.Approval.ID == "" {
		t.Fatalf("approval event: %s", e.Data)
	}
	return a.Approval
}

func decision(t *testing.T, open Open) {
	answers := make(chan contract.Decision, 1)
	p := open(t, Setup{Executor: asks(answers, "c1")})
	run := start(t, p, Task())
	a := asked(t, p, run.ID)
	if now, err := p.Runs.Run(within(t), run.ID); err != nil || now.PendingApprovals != 1 {
		t.Errorf("while it waits: %d pending, %v", now.PendingApprovals, err)
	}
	wantKind(t, "an unknown approval", p.Runs.Decide(within(t), run.ID, "apr_0000000000000000", contract.Decision{Verdict: contract.Deny}), contract.KindNotFound)
	wantKind(t, "an unknown verdict", p.Runs.Decide(within(t), run.ID, a.ID, contract.Decision{Verdict: "maybe"}), contract.KindInvalid)
	if err := p.Runs.Decide(within(t), run.ID, a.ID, contract.Decision{Verdict: contract.AllowOnce, Note: "fine"}); err != nil {
		t.Fatal(err)
	}
	if d := <-answers; d.Verdict != contract.AllowOnce || d.Note != "fine" || d.By == "" || d.NoAnswer() {
		t.Errorf("the agent got %+v", d)
	}
	ended(t, p, run.ID)
	wantKind(t, "after the end", p.Runs.Decide(within(t), run.ID, a.ID, contract.Decision{Verdict: contract.Deny}), contract.KindRunFinished)
}

func lateWatcher(t *testing.T, open Open) {
	release := make(chan struct{})
	answers := make(chan contract.Decision, 1)
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		e := asks(answers, "c1")(ctx, j)
		<-release
		return e
	})})
	run := start(t, p, Task())
	first := asked(t, p, run.ID)
	if second := asked(t, p, run.ID); second.ID != first.ID {
		t.Errorf("the second watcher saw %s, the first %s", second.ID, first.ID)
	}
	for _, same := range []string{"once", "twice"} {
		if err := p.Runs.Decide(within(t), run.ID, first.ID, contract.Decision{Verdict: contract.Deny}); err != nil {
			t.Errorf("decided %s: %v", same, err)
		}
	}
	wantKind(t, "another second decision", p.Runs.Decide(within(t), run.ID, first.ID, contract.Decision{Verdict: contract.AllowOnce}), contract.KindApprovalDecided)
	if d := <-answers; d.Verdict != contract.Deny {
		t.Errorf("the agent got %+v", d)
	}
	close(release)
	decided := 0
	for _, e := range events(t, p, run.ID, 0) {
		if d, ok := contract.As[contract.ApprovalDecided](e); ok && d.ID == first.ID {
			decided++
		}
	}
	if decided != 1 {
		t.Errorf("%d decisions in the log", decided)
	}
}

func approvalTimeout(t *testing.T, open Open) {
	answers := make(chan contract.Decision, 1)
	p := open(t, Setup{Executor: asks(answers, "c1")})
	task := Task()
	task.Approval.TimeoutSeconds = 1
	run := start(t, p, task)
	if d := <-answers; d.Verdict != contract.Deny || d.By != contract.ByTimeout || !d.NoAnswer() {
		t.Errorf("the agent got %+v", d)
	}
	ended(t, p, run.ID)
}

func twins(t *testing.T, open Open) {
	type answer struct {
		call string
		d    contract.Decision
		err  error
	}
	answers := make(chan answer, 3)
	finish := make(chan struct{})
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		for call, script := range map[string]string{"c1": "echo a", "c2": "echo b", "c3": "echo a"} {
			go func() {
				d, err := j.Session.Ask(ctx, question(call, script))
				answers <- answer{call, d, err}
			}()
		}
		<-finish
		return Done()
	})})
	run := start(t, p, Task())
	pending := map[string]contract.Approval{}
	for e, err := range p.Runs.Events(within(t), run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if a, ok := contract.As[contract.ApprovalRequested](e); ok {
			if pending[a.Approval.CallID] = a.Approval; len(pending) == 3 {
				break
			}
		}
	}
	if err := p.Runs.Decide(within(t), run.ID, pending["c1"].ID, contract.Decision{Verdict: contract.AllowSession}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a := <-answers
		if a.call == "c2" || a.err != nil || !a.d.Verdict.Allows() {
			t.Errorf("answered: %+v", a)
		}
	}
	if now, err := p.Runs.Run(within(t), run.ID); err != nil || now.PendingApprovals != 1 {
		t.Errorf("%d pending, %v; want only the other command", now.PendingApprovals, err)
	}
	if err := p.Runs.Decide(within(t), run.ID, pending["c2"].ID, contract.Decision{Verdict: contract.Deny}); err != nil {
		t.Error(err)
	}
	if a := <-answers; a.call != "c2" || a.d.Verdict != contract.Deny {
		t.Errorf("answered: %+v", a)
	}
	close(finish)
	ended(t, p, run.ID)
}

func takenBack(t *testing.T, open Open) {
	back, finish := make(chan struct{}), make(chan struct{})
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		asking, cancel := context.WithCancel(ctx)
		go func() { <-back; cancel() }()
		if d, err := j.Session.Ask(asking, question("c1", "make")); err == nil {
			t.Errorf("answered: %+v", d)
		}
		<-finish
		return Done()
	})})
	run := start(t, p, Task())
	a := asked(t, p, run.ID)
	close(back)
	e := until(t, p, run.ID, contract.TypeApprovalClosed)
	if d, ok := contract.As[contract.ApprovalClosed](e); !ok || d.ID != a.ID {
		t.Errorf("closed: %s", e.Data)
	}
	if now, err := p.Runs.Run(within(t), run.ID); err != nil || now.PendingApprovals != 0 {
		t.Errorf("%d pending, %v", now.PendingApprovals, err)
	}
	wantKind(t, "an answer that comes after", p.Runs.Decide(within(t), run.ID, a.ID, contract.Decision{Verdict: contract.AllowOnce}), contract.KindNotFound)
	close(finish)
	ended(t, p, run.ID)
	closed := 0
	for _, e := range events(t, p, run.ID, 0) {
		if e.Type == contract.TypeApprovalClosed || e.Type == contract.TypeApprovalDecided {
			closed++
		}
	}
	if closed != 1 {
		t.Errorf("the question has %d ends in the log", closed)
	}
}

func verdictCancel(t *testing.T, open Open) {
	answers := make(chan contract.Decision, 1)
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		d, err := j.Session.Ask(ctx, question("c1", "make"))
		if err != nil {
			t.Errorf("the decision was lost: %v", err)
		}
		answers <- d
		<-ctx.Done()
		return stopped(ctx)
	})})
	run := start(t, p, Task())
	a := asked(t, p, run.ID)
	if err := p.Runs.Decide(within(t), run.ID, a.ID, contract.Decision{Verdict: contract.CancelRun}); err != nil {
		t.Fatal(err)
	}
	select {
	case d := <-answers:
		if d.Verdict != contract.CancelRun {
			t.Errorf("the agent got %+v", d)
		}
	case <-within(t).Done():
		t.Fatal("the agent got no answer")
	}
	if last := ended(t, p, run.ID); last.Status != contract.Cancelled {
		t.Errorf("ended as %s: %+v", last.Status, last.Error)
	}
}

func cancelQueued(t *testing.T, open Open) {
	var ran []contract.RunID
	release := make(chan struct{})
	p := open(t, Setup{MaxRuns: 1, Executor: Play(func(_ context.Context, j host.Job) contract.Ending {
		ran = append(ran, j.Run.ID) // one at a time
		<-release
		return Done()
	})})
	first := start(t, p, Task())
	until(t, p, first.ID, contract.TypeRunStarted)
	second, third := start(t, p, Task()), start(t, p, Task())
	if err := p.Runs.Cancel(within(t), second.ID, "changed my mind"); err != nil {
		t.Fatal(err)
	}
	if last := ended(t, p, second.ID); last.Status != contract.Cancelled || last.ExitCode() != contract.ExitInterrupt || last.StartedAt != nil {
		t.Errorf("ended as %+v", last)
	}
	if read(t, p, second.ID, contract.ArtifactEvents) == "" {
		t.Error("no events.ndjson")
	}
	close(release)
	ended(t, p, first.ID)
	ended(t, p, third.ID)
	if len(ran) != 2 || ran[0] != first.ID || ran[1] != third.ID {
		t.Errorf("ran %v", ran)
	}
}

func cancelRunning(t *testing.T, open Open) {
	causes := make(chan error, 1)
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		if err := j.Session.Append(context.WithoutCancel(ctx), say("put away my things")); err != nil {
			t.Error(err)
		}
		return stopped(ctx)
	})})
	run := start(t, p, Task())
	until(t, p, run.ID, contract.TypeRunStarted)
	for range 2 {
		if err := p.Runs.Cancel(within(t), run.ID, contract.ReasonTerminated); err != nil {
			t.Fatal(err)
		}
	}
	if cause := <-causes; !errors.Is(cause, host.ErrCancelRequested) {
		t.Errorf("the executor was stopped for %v", cause)
	}
	last := ended(t, p, run.ID)
	if last.Status != contract.Cancelled || !last.CancelRequested || last.ExitCode() != contract.ExitTerminate {
		t.Errorf("ended as %+v, exit code %d", last, last.ExitCode())
	}
	if err := p.Runs.Cancel(within(t), run.ID, "again"); err != nil {
		t.Errorf("cancel of a finished run: %v", err)
	}
	requests := 0
	for _, e := range events(t, p, run.ID, 0) {
		if e.Type == contract.TypeRunCancelRequested {
			requests++
		}
	}
	if requests != 1 {
		t.Errorf("%d cancel requests in the log", requests)
	}
}

func lateCompletion(t *testing.T, open Open) {
	p := open(t, Setup{Executor: Play(func(ctx context.Context, _ host.Job) contract.Ending {
		<-ctx.Done()
		return Done() // as if nobody had asked
	})})
	run := start(t, p, Task())
	until(t, p, run.ID, contract.TypeRunStarted)
	if err := p.Runs.Cancel(within(t), run.ID, ""); err != nil {
		t.Fatal(err)
	}
	if last := ended(t, p, run.ID); last.Status != contract.Cancelled {
		t.Errorf("ended as %s", last.Status)
	}
	if e := until(t, p, run.ID, contract.TypeRunLateResult); e.Seq == 0 {
		t.Error("the late result is not in the log")
	}
}

func wallTime(t *testing.T, open Open) {
	p := open(t, Setup{Executor: Play(func(ctx context.Context, _ host.Job) contract.Ending {
		<-ctx.Done()
		return stopped(ctx)
	})})
	task := Task()
	task.Limits.WallTimeSeconds = 1
	run := start(t, p, task)
	last := ended(t, p, run.ID)
	if last.Status != contract.Failed || last.Error == nil || last.Error.Code != contract.FailWallTime || last.ExitCode() != contract.ExitLimit {
		t.Errorf("ended as %s: %+v", last.Status, last.Error)
	}
}

func messages(t *testing.T, open Open) {
	took := make(chan []contract.Message, 1)
	ready, sent := make(chan struct{}), make(chan struct{})
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		none, err := j.Session.Take(ctx)
		if err != nil || len(none) != 0 {
			t.Errorf("before a message: %v, %v", none, err)
		}
		close(ready)
		<-sent
		got, err := j.Session.Take(ctx)
		if err != nil {
			t.Error(err)
		}
		again, err := j.Session.Take(ctx)
		if err != nil || len(again) != 0 {
			t.Errorf("taken twice: %v, %v", again, err)
		}
		took <- got
		return Done()
	})})
	run := start(t, p, Task())
	<-ready
	for _, text := range []string{"first", "second"} {
		if err := p.Runs.Send(within(t), run.ID, text); err != nil {
			t.Fatal(err)
		}
	}
	wantKind(t, "an empty message", p.Runs.Send(within(t), run.ID, " \n"), contract.KindInvalid)
	close(sent)
	if got := <-took; len(got) != 2 || got[0].Text != "first" || got[1].Text != "second" {
		t.Errorf("the agent got %+v", got)
	}
	ended(t, p, run.ID)
	until(t, p, run.ID, contract.TypeMessageUser)
	wantKind(t, "after the end", p.Runs.Send(within(t), run.ID, "hello?"), contract.KindRunFinished)
}
