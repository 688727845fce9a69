package agent_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/contract"
)

// counter shows all questions that are open and answers each by its script or path.
type counter struct {
	mu      sync.Mutex
	open    map[string]contract.Approval
	asked   int
	want    int           // questions that must be open before any is answered
	ready   chan struct{} // closed when they are
	answers map[string]contract.Decision
	gone    []string // questions that were withdrawn
}

func newCounter(want int, answers map[string]contract.Decision) *counter {
	return &counter{open: map[string]contract.Approval{}, want: want, ready: make(chan struct{}), answers: answers}
}

func (c *counter) Ask(ctx context.Context, a contract.Approval) (contract.Decision, error) {
	c.mu.Lock()
	c.open[a.ID] = a
	if c.asked++; c.asked == c.want {
		close(c.ready)
	}
	c.mu.Unlock()
	select {
	case <-c.ready:
	case <-ctx.Done():
		return contract.Decision{}, context.Cause(ctx)
	}
	c.mu.Lock()
	d, ok := c.answers[a.Command.Script+a.Command.Path]
	if ok && d.Verdict == contract.AllowSession {
		delete(c.answers, a.Command.Script+a.Command.Path) // the twin must not get it too
	}
	c.mu.Unlock()
	if ok {
		return d, nil
	}
	<-ctx.Done()
	c.mu.Lock()
	c.gone = append(c.gone, a.Command.Script)
	c.mu.Unlock()
	return contract.Decision{}, context.Cause(ctx)
}

func TestAP02PendingTogetherAndAGrantCoversTheTwin(t *testing.T) {
	w := newWorld(t, calls("bash", bash("touch a"), "bash", bash("touch b"), "bash", bash("touch a")), says("done"))
	w.policy(contract.PolicyAsk)
	gate := newCounter(3, map[string]contract.Decision{
		"touch a": {Verdict: contract.AllowSession, By: "user"},
		"touch b": {Verdict: contract.Deny, By: contract.ByTimeout},
	})
	w.c.Gate = gate
	w.log.before = func(e contract.Event) {
		if e.Type == contract.TypeToolStarted && gate.asked < 3 {
			t.Error("a call started before all questions were visible")
		}
	}
	r := w.end(agent.EndFinished)
	res := w.results()
	if res[0].ExitCode != 0 || res[2].ExitCode != 0 || len(gate.gone) != 1 {
		t.Errorf("the twins: %q, %q, withdrawn %v", res[0].Text, res[2].Text, gate.gone)
	}
	if !strings.HasPrefix(res[1].Text, "no answer") || strings.Contains(res[1].Text, "denied by the user") || r.Unanswered != 1 || r.Denied != 0 {
		t.Errorf("an unanswered call was told as %q (%+v)", res[1].Text, r)
	}
}

func TestAP03EachLaterCommandAsksAgain(t *testing.T) {
	w := newWorld(t, calls("write", writeArgs("a.txt", "1\n")), calls("write", writeArgs("a.txt", "2\n")), calls("write", writeArgs("b.txt", "1\n")), says("done"))
	w.policy(contract.PolicyAsk)
	gate := newCounter(1, map[string]contract.Decision{
		"a.txt": {Verdict: contract.AllowSession, By: "user"}, "b.txt": {Verdict: contract.Deny, By: "user", Note: "not that one"},
	})
	w.c.Gate = gate
	w.end(agent.EndFinished)
	if gate.asked != 2 || w.content("a.txt") != "2\n" {
		t.Errorf("%d questions, a.txt is %q", gate.asked, w.content("a.txt"))
	}
	if res := w.results()[2]; !res.Denied || !strings.Contains(res.Text, "denied by the user") || !strings.Contains(res.Text, "not that one") {
		t.Errorf("the denied call: %+v", res)
	}
	for _, a := range gate.open {
		if a.Kind != contract.ApproveWrite || !strings.Contains(a.Command.Diff, "+1") || a.CallID == "" || !a.ExpiresAt.After(a.RequestedAt.Time) {
			t.Errorf("the question shows %+v", a)
		}
	}
}

func TestAP04NobodyThereDeniesAtOnceAndFailsTheRun(t *testing.T) {
	nobody := gateFunc(func(context.Context, contract.Approval) (contract.Decision, error) {
		return contract.Decision{Verdict: contract.Deny, By: contract.ByNobody}, nil
	})
	w := newWorld(t, calls("bash", bash("touch p")), says("I could not."))
	w.policy(contract.PolicyAsk)
	w.c.Gate = nobody
	r := w.end(agent.EndDenied)
	if r.Failure.Code != contract.FailApproval || !strings.Contains(r.Failure.Hint, "--approve") {
		t.Errorf("%+v", r.Failure)
	}
	if msg := w.results()[0].Text; !strings.HasPrefix(msg, "no answer") {
		t.Errorf("the model was told %q", msg)
	}
	w = newWorld(t, calls("bash", bash("touch p"), "bash", bash("touch q")), says("never"))
	w.policy(contract.PolicyAsk)
	w.c.Gate, w.c.Task.Approval.Unattended = nobody, contract.UnattendedStop
	w.end(agent.EndDenied)
	if len(w.model.requests) != 1 || len(w.results()) != 2 {
		t.Errorf("%d requests, %d results", len(w.model.requests), len(w.results()))
	}
}

func TestCancelAsADecisionEndsTheRun(t *testing.T) {
	w := newWorld(t, calls("bash", bash("touch p"), "bash", bash("touch q")))
	w.policy(contract.PolicyAsk)
	w.c.Gate = newCounter(2, map[string]contract.Decision{"touch p": {Verdict: contract.CancelRun, By: "user"}})
	if r := w.end(agent.EndCancelled); r.CancelledBy != "user" || len(w.results()) != 2 {
		t.Errorf("%+v, %d results", r, len(w.results()))
	}
}

// What runs is what was shown: a file that changed under the question is shown again.
func TestChangedFileIsShownAgain(t *testing.T) {
	w := newWorld(t, calls("edit", editArgs("a", "x", "y")), says("done"))
	w.policy(contract.PolicyAsk)
	w.file("a", "x\n")
	asked := 0
	w.c.Gate = gateFunc(func(_ context.Context, a contract.Approval) (contract.Decision, error) {
		if asked++; asked == 1 {
			w.file("a", "x\nmore\n")
		} else if !strings.Contains(a.Command.Diff, "more") {
			t.Errorf("the second question shows %q", a.Command.Diff)
		}
		return contract.Decision{Verdict: contract.AllowOnce, By: "user"}, nil
	})
	w.end(agent.EndFinished)
	if asked != 2 || w.content("a") != "y\nmore\n" {
		t.Errorf("asked %d times, the file is %q", asked, w.content("a"))
	}
}

func TestPolicyDenialIsToldAsSuch(t *testing.T) {
	w := newWorld(t, calls("bash", bash("touch p"), "bash", bash("ls")), says("done"))
	w.policy(contract.PolicyReadOnly)
	r := w.end(agent.EndFinished)
	if res := w.results()[0]; !res.Denied || !strings.Contains(res.Text, "policy") || r.Denied != 1 {
		t.Errorf("%+v, %+v", res, r)
	}
	if _, err := os.Stat(w.dir + "/p"); err == nil {
		t.Error("a denied command ran")
	}
}
