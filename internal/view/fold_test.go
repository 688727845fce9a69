package view_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// log numbers and folds payloads the way a stored log would.
type log struct {
	pic view.Picture
	seq int64
}

func (l *log) add(step int, payloads ...contract.Payload) *log {
	for _, p := range payloads {
		l.seq++
		e := contract.NewEvent(step, p)
		e.Seq, e.RunID, e.Attempt = l.seq, "run_x", 1
		e.Time = contract.At(time.Unix(1_700_000_000+l.seq, 0))
		l.pic = view.Fold(l.pic, e)
	}
	return l
}

func begun() *log {
	task := contract.Task{
		Instruction: "fix it", Model: "openai/gpt-5", Limits: contract.Limits{MaxSteps: 40, WallTimeSeconds: 60},
		Repository: &contract.Repository{Path: "/r/toy"},
	}
	ready := contract.WorkspaceReady{BaseSHA: "3f2c1ab0", Root: "/r/toy", Sandbox: "L3", Network: "none", Dirty: contract.DirtySummary{Tracked: 2, Included: 2}}
	return (&log{}).add(0, contract.RunQueued{Task: task}, contract.RunStarted{Attempt: 1}, ready)
}

func call(id, name, args string) contract.ToolCall {
	return contract.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}
}

func TestHeaderComesFromTaskAndWorkspace(t *testing.T) {
	p := begun().pic
	if p.State != contract.Running || !p.Header.Ready || p.Header.Model != "openai/gpt-5" || p.Header.BaseSHA != "3f2c1ab0" || p.Header.Dirty.Tracked != 2 {
		t.Errorf("header is %+v in state %s", p.Header, p.State)
	}
	if p.Waiting != view.WaitModel {
		t.Errorf("waits for %q", p.Waiting)
	}
}

func TestWaitingFollowsTheLife(t *testing.T) {
	l := &log{}
	want := func(w view.Waiting) {
		t.Helper()
		if l.pic.Waiting != w {
			t.Errorf("after event %d it waits for %q, want %q", l.seq, l.pic.Waiting, w)
		}
	}
	l.add(0, contract.RunQueued{})
	want(view.WaitOwner)
	l.add(0, contract.RunStarted{Attempt: 1})
	want(view.WaitWorkspace)
	l.add(0, contract.WorkspaceReady{})
	l.add(1, contract.StepStarted{Step: 1, Max: 3})
	want(view.WaitModel)
	l.add(1, contract.ModelRetry{Attempt: 1, InSeconds: 2, Reason: "reset"})
	want(view.WaitRetry)
	l.add(1, contract.ModelDelta{Text: "I look."})
	want(view.WaitModel)
	l.add(1, contract.ModelMessage{Text: "I look.", ToolCalls: []contract.ToolCall{call("c1", "bash", `{"command":"ls"}`)}})
	l.add(1, contract.ApprovalRequested{Approval: contract.Approval{ID: "apr_1", CallID: "c1"}})
	want(view.WaitApproval)
	l.add(1, contract.ApprovalDecided{ID: "apr_1", Decision: contract.Decision{Verdict: contract.AllowOnce}})
	l.add(1, contract.ToolStarted{CallID: "c1", Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)})
	want(view.WaitCommand)
	l.add(0, contract.MessageUser{Message: contract.Message{Text: "faster"}})
	want(view.WaitCommand)
	l.add(1, contract.ToolResult{CallID: "c1"})
	want(view.WaitModel)
	l.add(0, contract.CheckStarted{Argv: contract.Check{"true"}, Phase: "final"})
	want(view.WaitCheck)
	l.add(0, contract.RunCancelRequested{Reason: "enough"})
	want(view.WaitCancel)
	l.add(0, contract.RunEnded{State: contract.Cancelled})
	want(view.WaitNothing)
}

func TestStreamedTextBecomesTheMessage(t *testing.T) {
	l := begun().add(1, contract.StepStarted{Step: 1, Max: 40}, contract.ModelDelta{Reasoning: "hm"},
		contract.ModelDelta{Text: "I'll "}, contract.ModelDelta{Text: "look"})
	items := l.pic.Items
	if got := items[len(items)-1]; got.Text != "I'll look" || !got.Live {
		t.Fatalf("while streaming: %+v", got)
	}
	l.add(1, contract.ModelMessage{Text: "I'll look."})
	var kinds []string
	for _, it := range l.pic.Items {
		kinds = append(kinds, string(it.Kind)+":"+it.Text)
	}
	if d := cmp.Diff([]string{"user:fix it", "reasoning:hm", "text:I'll look."}, kinds); d != "" {
		t.Error(d)
	}
	if l.pic.Items[2].Live {
		t.Error("the message is still live")
	}
}

func TestDiscardedTextIsVoid(t *testing.T) {
	l := begun().add(1, contract.StepStarted{Step: 1, Max: 40}, contract.ModelDelta{Text: "wrong"}, contract.ModelDiscarded{Reason: "stream broke"},
		contract.ModelMessage{Text: "right"})
	void, texts := 0, 0
	for _, it := range l.pic.Items {
		if it.Kind == view.ItemText {
			texts++
			if it.Void {
				void++
			}
		}
	}
	if void != 1 || texts != 2 {
		t.Errorf("%d of %d texts are void", void, texts)
	}
}

func TestToolCallStates(t *testing.T) {
	for name, c := range map[string]struct {
		result contract.ToolResult
		want   view.ToolState
	}{
		"done":        {contract.ToolResult{Stdout: "ok"}, view.ToolDone},
		"exit code":   {contract.ToolResult{ExitCode: 1}, view.ToolFailed},
		"denied":      {contract.ToolResult{Denied: true, IsError: true}, view.ToolDenied},
		"timed out":   {contract.ToolResult{TimedOut: true, ExitCode: 137}, view.ToolTimedOut},
		"interrupted": {contract.ToolResult{Interrupted: true}, view.ToolInterrupted},
	} {
		l := begun().add(1, contract.StepStarted{Step: 1, Max: 40},
			contract.ModelMessage{ToolCalls: []contract.ToolCall{call("c1", "bash", `{"command":"make\n  test"}`)}},
			contract.ToolStarted{CallID: "c1", Name: "bash"}, contract.ToolOutput{CallID: "c1", Text: "part"})
		tool := l.pic.Items[len(l.pic.Items)-1].Tool
		if tool.State != view.ToolRunning || tool.Output != "part" || tool.Title != "make test" {
			t.Errorf("%s: while running %+v", name, tool)
		}
		c.result.CallID = "c1"
		l.add(1, c.result)
		if tool.State != c.want || !tool.Ended() {
			t.Errorf("%s: state %q, want %q", name, tool.State, c.want)
		}
	}
}

func TestEndClosesWhatIsOpen(t *testing.T) {
	l := begun().add(1, contract.StepStarted{Step: 1, Max: 40},
		contract.ModelMessage{ToolCalls: []contract.ToolCall{call("c1", "bash", `{"command":"sleep 9"}`)}},
		contract.ToolStarted{CallID: "c1", Name: "bash"},
		contract.ApprovalRequested{Approval: contract.Approval{ID: "apr_1", CallID: "c2"}},
		contract.RunEnded{State: contract.Failed, ExitCode: 6, Error: &contract.Failure{Code: contract.FailSteps}})
	if len(l.pic.Approvals) != 0 || l.pic.Ended == nil || l.pic.Ended.ExitCode != 6 || l.pic.State != contract.Failed {
		t.Errorf("picture at the end: %+v", l.pic)
	}
	for _, it := range l.pic.Items {
		if it.Live {
			t.Errorf("%s is still live", it.Kind)
		}
	}
}

func TestNewRoundOfChecksReplacesTheOld(t *testing.T) {
	check := func(argv string, passed bool) []contract.Payload {
		r := contract.CheckResult{Argv: contract.Check{argv}, Phase: "final", Passed: passed}
		return []contract.Payload{contract.CheckStarted{Argv: r.Argv, Phase: "final"}, contract.CheckFinished{CheckResult: r}}
	}
	l := begun().add(0, check("a", false)...).add(0, check("b", true)...)
	if len(l.pic.Checks) != 2 {
		t.Fatalf("%d checks in the first round", len(l.pic.Checks))
	}
	l.add(0, check("a", true)...)
	if len(l.pic.Checks) != 1 || !l.pic.Checks[0].Passed {
		t.Errorf("second round: %+v", l.pic.Checks)
	}
}

func TestResumedRunGoesOn(t *testing.T) {
	l := begun().add(1, contract.StepStarted{Step: 1, Max: 40}, contract.ModelMessage{ToolCalls: []contract.ToolCall{call("c1", "bash", `{}`)}},
		contract.ToolStarted{CallID: "c1", Name: "bash"}, contract.RunResumed{Attempt: 2, Reason: "interrupted"})
	tool := l.pic.Items[1].Tool
	if tool.State != view.ToolInterrupted || l.pic.State != contract.Running || l.pic.Attempt != 2 {
		t.Errorf("tool %q, state %s, attempt %d", tool.State, l.pic.State, l.pic.Attempt)
	}
}

func TestLiveOutputIsBounded(t *testing.T) {
	l := begun().add(1, contract.StepStarted{Step: 1, Max: 40}, contract.ModelMessage{ToolCalls: []contract.ToolCall{call("c1", "bash", `{}`)}})
	for range 100 {
		l.add(1, contract.ToolOutput{CallID: "c1", Text: strings.Repeat("é", 4000)})
	}
	it := l.pic.Items[1]
	if len(it.Tool.Output) > view.MaxLive || !it.Cut || !strings.HasPrefix(it.Tool.Output, "é") {
		t.Errorf("%d bytes kept, cut %v", len(it.Tool.Output), it.Cut)
	}
}

func TestAnEventFoldedTwiceChangesNothing(t *testing.T) {
	l := begun()
	e := contract.NewEvent(0, contract.Notice{Level: "info", Text: "x"})
	e.Seq = l.seq + 1
	p := view.Fold(view.Fold(l.pic, e), e)
	if n := len(p.Items); n != 2 {
		t.Errorf("%d items, want the task and one notice", n)
	}
}

// Whatever order events come in, folding them never panics and never leaves a live item or a
// pending approval behind the end.
func TestAnyOrderOfEventsFolds(t *testing.T) {
	kinds := []contract.Payload{
		contract.RunQueued{},
		contract.RunStarted{Attempt: 1},
		contract.WorkspaceReady{},
		contract.StepStarted{Step: 1, Max: 2},
		contract.ModelDelta{Text: "a"},
		contract.ModelMessage{ToolCalls: []contract.ToolCall{call("c1", "bash", `{"command":"x"}`)}},
		contract.ToolStarted{CallID: "c1", Name: "bash"},
		contract.ToolOutput{CallID: "c2", Text: "b"},
		contract.ToolResult{CallID: "c1"},
		contract.ApprovalRequested{Approval: contract.Approval{ID: "apr_1", CallID: "c1"}},
		contract.ApprovalDecided{ID: "apr_1"},
		contract.CheckStarted{Argv: contract.Check{"x"}},
		contract.CheckFinished{CheckResult: contract.CheckResult{Argv: contract.Check{"x"}}},
		contract.RunResumed{Attempt: 2},
		contract.MessageUser{},
		contract.Compacted{},
		contract.RunLateResult{},
		contract.ApprovalClosed{ID: "apr_1"},
	}
	rapid.Check(t, func(t *rapid.T) {
		l := &log{}
		for _, i := range rapid.SliceOf(rapid.IntRange(0, len(kinds)-1)).Draw(t, "order") {
			l.add(i%3, kinds[i])
		}
		l.add(0, contract.RunEnded{State: contract.Failed})
		if len(l.pic.Approvals) > 0 || l.pic.Waiting != view.WaitNothing {
			t.Fatalf("approvals %v, waits for %q", l.pic.Approvals, l.pic.Waiting)
		}
		for _, it := range l.pic.Items {
			if it.Live {
				t.Fatalf("%s is live after the end", it.Kind)
			}
		}
	})
}

func TestBriefIsOneSafeLine(t *testing.T) {
	for _, p := range []contract.Payload{
		contract.RunQueued{Task: contract.Task{Instruction: "a\nb\x1b[31m"}},
		contract.ToolStarted{Name: "bash", Arguments: json.RawMessage(`{"command":"x\n\u001b]0;t\u0007"}`)},
		contract.Notice{Level: "info", Code: "c", Text: "a\u202eb"},
		contract.RunEnded{State: contract.Completed, Result: &contract.Result{Outcome: contract.OutcomeVerified}},
		contract.ModelMessage{Text: "x", ToolCalls: []contract.ToolCall{call("1", "read", `{"path":"a"}`)}},
		contract.DiffUpdated{},
		contract.UsageUpdated{},
	} {
		got := view.Brief(contract.NewEvent(0, p))
		if got == "" || strings.ContainsAny(got, "\n\x1b\x07\u202e") {
			t.Errorf("%T: %q", p, got)
		}
	}
}

func TestWordsForPeople(t *testing.T) {
	got := []string{
		view.Length(340 * time.Millisecond), view.Length(1200 * time.Millisecond), view.Length(245 * time.Second), view.Length(3*time.Hour + 65*time.Second),
		view.Tokens(950), view.Tokens(18_200), view.Tokens(1_400_000), view.Cost(0.0012), view.Cost(1.5),
		view.Changes(nil), view.Changes([]contract.FileChange{{Additions: 9, Deletions: 1}, {Additions: -1, Deletions: -1}}),
	}
	want := []string{"340 ms", "1.2 s", "4:05", "3:01:05", "950", "18.2k", "1.4M", "$0.0012", "$1.50", "no files changed", "2 files changed, +9 -1"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
