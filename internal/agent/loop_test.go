package agent_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

var update = flag.Bool("update", false, "write the golden files")

// The first request's bytes are held: a change of them voids every prompt cache.
func TestFirstRequestIsGolden(t *testing.T) {
	w := newWorld(t, says("done"))
	w.c.Task = contract.Task{
		Instruction: "Fix the bug.", AllowedPaths: []string{"src/**"}, Checks: []contract.Check{{"go", "test", "./..."}},
		Limits: contract.DefaultLimits(), Approval: contract.ApprovalPolicy{Policy: contract.PolicyAllowAll},
	}
	w.c.TreeNote = "README.md\nsrc/\nclean"
	w.end(agent.EndFinished)
	got := bytesOf(w.model.requests[0])
	if len(got) > 8<<10 {
		t.Errorf("the first request has %d bytes, want at most 8 KiB", len(got))
	}
	const golden = "testdata/first_request.json"
	if *update {
		if err := os.WriteFile(golden, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got+"\n" != string(want) {
		t.Errorf("the first request changed (go test -update writes it):\n%s", got)
	}
}

func TestStepsRunInOrderWithFewAppends(t *testing.T) {
	w := newWorld(t, calls("bash", bash("echo one > a; echo out; echo err >&2; exit 3"), "read", `{"path":"a"}`), says("done"))
	r := w.end(agent.EndFinished)
	if r.Summary != "done" || r.Usage.Steps != 2 || r.Usage.ModelRequests != 2 || r.Usage.OutputTokens != 10 {
		t.Errorf("the result is %+v", r)
	}
	res := w.results()
	if res[0].ExitCode != 3 || res[0].Stdout != "out\n" || res[0].Stderr != "err\n" || !strings.HasPrefix(res[0].Text, "[exit code 3, ") {
		t.Errorf("the result of bash is %+v", res[0])
	}
	if res[1].Text != "     1\tone\n" {
		t.Errorf("read shows %q", res[1].Text)
	}
	durable := 0
	var last string
	for f := range strings.FieldsSeq(w.log.types()) {
		if f != "tool.output" && f != "model.delta" {
			durable++
		}
		last = f
	}
	want := "step.started model.message usage.updated tool.started tool.result tool.started tool.result step.started model.message usage.updated"
	var kept []string
	for f := range strings.FieldsSeq(w.log.types()) {
		if f != "tool.output" && f != "model.delta" {
			kept = append(kept, f)
		}
	}
	if strings.Join(kept, " ") != want || last != "usage.updated" {
		t.Errorf("the log is %s", strings.Join(kept, " "))
	}
	// step · message and first start · result and second start · result and step · message: 5, and the output.
	outputs := len(payloads[contract.ToolOutput](w.log.all())) + len(payloads[contract.ModelDelta](w.log.all()))
	if w.log.appends-outputs != 5 {
		t.Errorf("%d appends for %d events", w.log.appends-outputs, durable)
	}
}

func TestMD03BadCallsNeverRun(t *testing.T) {
	bad := calls("write", `"{\"path\":\"p\",\"content\":\"cut of"`, "bash", `{"command":"touch p","surprise":1}`,
		"bash", `{"command":7}`, "shell", `{"command":"touch p"}`, "bash", `{"command":"touch p","command":"ls"}`,
		"read", `{"path":"a","limit":0}`, "bash", `[1]`, "write", `{"path":"../p","content":""}`, "write", `{"path":".git/config","content":""}`, "read", `{"path":"/etc/passwd"}`)
	bad.turn.Calls[0].Bad = "the output limit cut the call"
	bad.turn.Finish = model.FinishLength
	w := newWorld(t, bad, says("done"))
	w.end(agent.EndFinished)
	for i, r := range w.results() {
		if !r.IsError || !strings.HasPrefix(r.Text, "not run: ") {
			t.Errorf("call %d was answered with %q", i, r.Text)
		}
	}
	if len(payloads[contract.ToolStarted](w.log.all())) != 0 {
		t.Error("a bad call was started")
	}
	if _, err := os.Stat(w.dir + "/p"); err == nil {
		t.Error("a bad call ran")
	}
}

func TestMD07BrokenStreamIsRetriedOnceAndNothingOfItRuns(t *testing.T) {
	cut := reply{text: "I will now run:", err: &model.Error{Kind: model.ErrTruncated, Emitted: true, Message: "ended early"}}
	w := newWorld(t, cut, says("done"))
	w.end(agent.EndFinished)
	msgs := payloads[contract.ModelMessage](w.log.all())
	if len(msgs) != 2 || !msgs[0].Interrupted || msgs[0].Text != "I will now run:" || len(payloads[contract.ModelDiscarded](w.log.all())) != 1 {
		t.Errorf("the messages are %+v", msgs)
	}
	if got := len(w.model.requests[1].Messages); got != 1 {
		t.Errorf("the second attempt has %d messages, want 1", got)
	}
	w = newWorld(t, cut, cut, says("never asked"))
	if r := w.end(agent.EndModel); r.Failure.Code != contract.FailModel || r.Failure.Reason != "truncated" || len(w.model.requests) != 2 {
		t.Errorf("it ended %+v after %d requests", r.Failure, len(w.model.requests))
	}
}

func TestMistakesOfTheModelAreToldToIt(t *testing.T) {
	for name, c := range map[string]struct {
		err  model.Error
		told string
	}{
		"malformed call": {model.Error{Kind: model.ErrStatus, Status: 400, Code: "tool_use_failed", Message: "Failed to call <function=bash>"}, "<function=bash>"},
		"only reasoning": {model.Error{Kind: model.ErrEmpty, Code: "length", Emitted: true, Message: "used up"}, "token limit"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := reply{err: &c.err}
			w := newWorld(t, wrong, calls("write", writeArgs("a", "x\n")), says("done"))
			w.end(agent.EndFinished)
			second := w.model.requests[1].Messages
			if last := second[len(second)-1]; last.Role != model.RoleUser || !strings.Contains(last.Text, c.told) {
				t.Errorf("the model was told %+v", last)
			}
			if w.content("a") != "x\n" {
				t.Error("the next call did not run")
			}
			w = newWorld(t, wrong)
			w.model.again = true
			if r := w.end(agent.EndModel); r.Failure.Code != contract.FailModel || len(w.model.requests) > 4 {
				t.Errorf("it ended %+v after %d requests", r.Failure, len(w.model.requests))
			}
		})
	}
}

func TestMD10RepeatingAgentIsToldThenStopped(t *testing.T) {
	for name, call := range map[string]reply{
		"read": calls("read", `{"path":"a"}`), "write": calls("write", writeArgs("a", "x\n")), "bash": calls("bash", bash("cat a")),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, call)
			w.file("a", "x\n")
			w.model.again = true
			r := w.end(agent.EndLimit)
			res := w.results()
			if r.Failure.Code != contract.FailSteps || r.Failure.Reason != "loop" || len(res) > 6 {
				t.Errorf("it ended %+v after %d calls", r.Failure, len(res))
			}
			told := 0
			for _, r := range res {
				if strings.Contains(r.Text, "try something else") {
					told++
				}
			}
			if told < 2 {
				t.Errorf("the model was told %d times", told)
			}
		})
	}
	// The same failing test after each new edit is progress.
	var replies []reply
	for i := range 8 {
		replies = append(replies, calls("write", writeArgs("a", strings.Repeat("x", i)), "bash", bash("exit 1")))
	}
	w := newWorld(t, append(replies, says("done"))...)
	w.end(agent.EndFinished)
}

func TestMD12OversizedRequestIsShortenedOnceAndNeverSentTwice(t *testing.T) {
	w := newWorld(t, calls("bash", bash("seq 1 60000 | paste -s -d' ' | fold -w 1000")), calls("bash", bash("seq 1 50000 | paste -s -d' ' | fold -w 1000")), says("done"))
	w.model.maxBytes = 30 << 10
	w.end(agent.EndFinished)
	seen := map[string]bool{}
	for i, r := range w.model.requests {
		if b := bytesOf(r); seen[b] {
			t.Errorf("request %d was sent before", i)
		} else {
			seen[b] = true
		}
	}
	if c := payloads[contract.Compacted](w.log.all()); len(c) != 1 || c[0].Kind != "elide" || c[0].After >= c[0].Before {
		t.Errorf("compactions: %+v", c)
	}
	w = newWorld(t, says("never"))
	w.c.Instructions = strings.Repeat("long ", 10_000)
	w.model.maxBytes = 30 << 10
	if r := w.end(agent.EndModel); r.Failure.Reason != "context" || r.Failure.Hint == "" || len(w.model.requests) != 1 {
		t.Errorf("a prompt that is too long ended %+v after %d requests", r.Failure, len(w.model.requests))
	}
}

func TestEmptyAndCutAnswersAreNoSuccess(t *testing.T) {
	empty, cut := says("  "), says("half an")
	cut.turn.Finish = model.FinishLength
	w := newWorld(t, empty, cut, says("whole"))
	if r := w.end(agent.EndFinished); r.Summary != "whole" {
		t.Errorf("summary %q", r.Summary)
	}
	w = newWorld(t, empty)
	w.model.again = true
	if r := w.end(agent.EndModel); r.Failure.Reason != "empty" || len(w.model.requests) != 3 {
		t.Errorf("%+v after %d requests", r.Failure, len(w.model.requests))
	}
	no := says("I will not")
	no.turn.Finish = model.FinishRefusal
	if r := newWorld(t, no).end(agent.EndModel); r.Failure.Reason != "refusal" {
		t.Errorf("%+v", r.Failure)
	}
}

func TestEachLimitHasItsOwnReason(t *testing.T) {
	w := newWorld(t)
	price := func(model.Usage) (float64, bool) { return 0.6, true }
	for name, c := range map[string]struct {
		limits contract.Limits
		code   contract.FailureCode
	}{
		"steps":    {contract.Limits{MaxSteps: 3}, contract.FailSteps},
		"requests": {contract.Limits{MaxSteps: 9, MaxModelRequests: 2}, contract.FailModelRequests},
		"tokens":   {contract.Limits{MaxSteps: 9, MaxOutputTokens: 10}, contract.FailTokens},
		"cost":     {contract.Limits{MaxSteps: 9, MaxCostUSD: 1}, contract.FailCost},
	} {
		var replies []reply
		for i := range 9 {
			replies = append(replies, calls("bash", bash(fmt.Sprint("echo ", i))))
		}
		w.next(replies...)
		w.c.Task.Limits, w.c.Price = c.limits, price
		if r := w.end(agent.EndLimit); r.Failure.Code != c.code || r.Usage.CostUSD == nil {
			t.Errorf("%s: ended %+v", name, r.Failure)
		}
	}
	w.next(reply{err: &model.Error{Kind: model.ErrStatus, Status: 401}})
	w.c.Task.Limits = contract.Limits{MaxSteps: 3}
	if r := w.end(agent.EndCredentials); r.Failure.Code != contract.FailCredentials {
		t.Errorf("%+v", r.Failure)
	}
}

func TestFailingChecksGoBackAndDecide(t *testing.T) {
	w := newWorld(t, says("done?"), calls("bash", bash("touch fixed")), says("fixed"))
	rounds := 0
	w.c.Check = func(_ context.Context, round int) ([]contract.CheckFinished, error) {
		rounds = round
		_, err := os.Stat(w.dir + "/fixed")
		c := contract.CheckFinished{CheckResult: contract.CheckResult{Argv: contract.Check{"test", "-f", "fixed"}, Passed: err == nil, ExitCode: 1}, Tail: "no such file"}
		return []contract.CheckFinished{c}, w.log.Append(t.Context(), contract.NewEvent(0, c))
	}
	r := w.end(agent.EndFinished)
	if rounds != 2 || len(r.Checks) != 1 || !r.Checks[0].Passed {
		t.Errorf("%d rounds, %+v", rounds, r.Checks)
	}
	last := w.model.requests[1].Messages
	if m := last[len(last)-1]; m.Role != model.RoleUser || !strings.Contains(m.Text, "test -f fixed: exit code 1") || !strings.Contains(m.Text, "no such file") {
		t.Errorf("the model was told %q", m.Text)
	}
	// A question without any change is no success where a check fails.
	w2 := newWorld(t, says("Shall I?"), says("Please answer."), says("never"))
	w2.c.Check = func(context.Context, int) ([]contract.CheckFinished, error) {
		return []contract.CheckFinished{{CheckResult: contract.CheckResult{Argv: contract.Check{"false"}, ExitCode: 1}}}, nil
	}
	if r := w2.end(agent.EndChecks); r.Failure.Code != contract.FailChecks || len(w2.model.requests) != 2 {
		t.Errorf("%+v after %d requests", r.Failure, len(w2.model.requests))
	}
}

func TestMessagesSteerTheLoop(t *testing.T) {
	box := &mailbox{}
	w := newWorld(t, says("done"), says("done with that too"))
	w.c.Mailbox = box
	w.c.Check = func(_ context.Context, round int) ([]contract.CheckFinished, error) {
		if round == 1 {
			box.send("also this") // arrives while the checks run
		}
		return nil, nil
	}
	w.end(agent.EndFinished)
	if len(w.model.requests) != 2 || !strings.Contains(w.model.requests[1].Messages[2].Text, "also this") {
		t.Errorf("%d requests: %+v", len(w.model.requests), w.model.requests[len(w.model.requests)-1].Messages)
	}
	if s := payloads[contract.StepStarted](w.log.all()); len(s) != 2 || len(s[1].Messages) != 1 {
		t.Errorf("steps %+v", s)
	}
}

func TestCX03CancelEndsASilentModelAndATool(t *testing.T) {
	for name, first := range map[string]reply{"model": {silent: true}, "tool": calls("bash", bash("echo here; sleep 300"), "bash", bash("touch p"))} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, first)
			w.model.asked = make(chan struct{})
			started := make(chan struct{})
			w.log.before = func(e contract.Event) {
				if e.Type == contract.TypeToolOutput {
					close(started)
				}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			var pressed time.Time
			go func() {
				<-w.model.asked
				if name == "tool" {
					<-started
				}
				pressed = time.Now()
				cancel(errors.New("the user pressed the stop key"))
			}()
			r := w.run(ctx)
			if took := time.Since(pressed); r.End != agent.EndCancelled || took > 10*time.Second {
				t.Errorf("ended %s after %v", r.End, took)
			}
			if name == "tool" {
				res := w.results()
				if len(res) != 2 || !res[0].Interrupted || res[0].Stdout != "here\n" || !strings.HasPrefix(res[1].Text, "not run") {
					t.Errorf("results %+v", res)
				}
			}
		})
	}
	w := newWorld(t, reply{silent: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if r := w.run(ctx); r.End != agent.EndLimit || r.Failure.Code != contract.FailWallTime {
		t.Errorf("the wall time ended it as %s %+v", r.End, r.Failure)
	}
}

func TestLogThatCannotBeWrittenEndsTheRun(t *testing.T) {
	w := newWorld(t, calls("bash", bash("touch p")))
	w.log.before = func(e contract.Event) {
		if e.Type == contract.TypeStepStarted {
			w.log.fail = errors.New("disk full")
		}
	}
	if _, err := agent.Run(t.Context(), w.c); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(w.dir + "/p"); err == nil {
		t.Error("a command ran before its message was durable")
	}
}
