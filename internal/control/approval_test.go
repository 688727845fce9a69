package control

import (
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

func (w *world) ask(a contract.Approval) (contract.Approval, error) {
	var out contract.Approval
	err := w.m.do(func(tx Tx) (err error) {
		out, err = w.core.Ask(tx, w.env(), 1, a)
		return err
	})
	return out, err
}

func (w *world) decide(id string, v contract.Verdict) (contract.Approval, error) {
	var out contract.Approval
	err := w.m.do(func(tx Tx) (err error) {
		out, err = w.core.Decide(tx, w.env(), id, contract.Decision{Verdict: v, By: "bob", Note: "n"})
		return err
	})
	return out, err
}

func question(call string) contract.Approval {
	return contract.Approval{CallID: call, Kind: contract.ApproveCommand, Title: "make", Command: contract.Asked{Script: "make"}}
}

func TestTheFirstDecisionWins(t *testing.T) {
	w := running(t, contract.Edge())
	a, err := w.ask(question("1"))
	w.must(err)
	if a.Decision != "" || !a.ExpiresAt.Equal(epoch.Add(time.Minute)) || w.read().PendingApprovals != 1 {
		t.Errorf("%+v", a)
	}
	got, err := w.decide(a.ID, contract.AllowOnce)
	w.must(err)
	if got.DecidedBy != "bob" || got.DecidedAt == nil {
		t.Errorf("%+v", got)
	}
	_, err = w.decide(a.ID, contract.AllowOnce)
	w.must(err)
	standing, err := w.decide(a.ID, contract.Deny)
	w.wants(err, contract.KindApprovalDecided)
	if standing.Decision != contract.AllowOnce {
		t.Errorf("standing %+v", standing)
	}
	again, err := w.ask(question("1")) // a lost answer is found again, with its decision
	w.must(err)
	if again.ID != a.ID || again.Decision != contract.AllowOnce {
		t.Errorf("%+v", again)
	}
	other := question("1")
	other.Command.Script = "make install"
	if b, err := w.ask(other); err != nil || b.ID == a.ID || b.Decision != "" {
		t.Errorf("another command is answered by the first one's decision: %+v %v", b, err)
	}
	_, err = w.decide("apr_0000000000000000", contract.Deny)
	w.wants(err, contract.KindNotFound)
	_, err = w.decide("../head", contract.Deny)
	w.wants(err, contract.KindNotFound)
	_, err = w.decide(a.ID, "maybe")
	w.wants(err, contract.KindInvalid)
}

func TestNoAnswerIsADenyByTimeout(t *testing.T) {
	w := running(t, contract.Edge())
	a, err := w.ask(question("1"))
	w.must(err)
	w.now = epoch.Add(60 * time.Second)
	late, err := w.decide(a.ID, contract.AllowOnce) // before anything has expired it
	w.wants(err, contract.KindApprovalDecided)
	if late.Decision != contract.Deny || late.DecidedBy != contract.ByTimeout {
		t.Errorf("%+v", late)
	}
	var due Due
	w.must(w.m.do(func(tx Tx) (err error) { due, err = w.core.Expire(tx, w.env()); return err }))
	got, err := w.core.ApprovalOf(w.m, a.ID)
	w.must(err)
	if due.Expired != 1 || !due.At.IsZero() || got.Decision != contract.Deny || got.DecidedBy != contract.ByTimeout {
		t.Errorf("%+v %+v", due, got)
	}
}

func TestWhereNobodyCanAnswer(t *testing.T) {
	for mode, code := range map[contract.Unattended]contract.FailureCode{contract.UnattendedDeny: "", contract.UnattendedStop: contract.FailApproval} {
		w := newWorld(t, testConfig(contract.Edge()))
		task := validTask()
		task.Approval.Unattended = mode
		w.create(task)
		w.claim()
		a, err := w.ask(question("1"))
		w.must(err)
		if a.Decision != contract.Deny || a.DecidedBy != contract.ByNobody {
			t.Errorf("%s: %+v", mode, a)
		}
		run, err := w.finish(1, provenEnding())
		w.must(err)
		if code == "" && run.Status != contract.Completed || code != "" && (run.Status != contract.Failed || run.Error.Code != code || run.ExitCode() != contract.ExitApproval) {
			t.Errorf("%s: %s %+v", mode, run.Status, run.Error)
		}
	}
}

func TestTheEndClosesWhatIsPending(t *testing.T) {
	w := running(t, contract.Edge())
	a, err := w.ask(question("1"))
	w.must(err)
	_, err = w.finish(1, provenEnding())
	w.must(err)
	log := w.log()
	if closed, ok := contract.As[contract.ApprovalClosed](log[len(log)-2]); !ok || closed.ID != a.ID {
		t.Errorf("log: %v", types(log))
	}
	_, err = w.decide(a.ID, contract.Deny)
	w.wants(err, contract.KindRunFinished)
}

func TestCancelAsADecisionDeniesAndAsksForTheEnd(t *testing.T) {
	w := running(t, contract.Edge())
	a, err := w.ask(question("1"))
	w.must(err)
	got, err := w.decide(a.ID, contract.CancelRun)
	w.must(err)
	if got.Decision.Allows() || !w.read().CancelRequested {
		t.Errorf("%+v", got)
	}
}

func TestAQuestionBringsNoAnswerAndNoSession(t *testing.T) {
	w := running(t, contract.Edge())
	q := question("1")
	q.ID, q.Decision, q.DecidedBy, q.Title = "apr_mine", contract.AllowOnce, "me", "make \x1b[2J"
	a, err := w.ask(q)
	w.must(err)
	if a.ID == "apr_mine" || a.Decision != "" || a.DecidedBy != "" || a.Title != `make \x1b[2J` {
		t.Errorf("%+v", a)
	}
	_, err = w.decide(a.ID, contract.AllowSession)
	w.wants(err, contract.KindInvalid)
	q.Kind = "anything"
	_, err = w.ask(q)
	w.wants(err, contract.KindInvalid)
	for i := range MaxPending - 1 {
		_, err := w.ask(question(string(rune('a' + i))))
		w.must(err)
	}
	_, err = w.ask(question("one more"))
	w.wants(err, contract.KindTooManyRequests)
}
