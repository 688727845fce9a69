package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

// cutBefore gives the log up to the last event that hit accepts, without it.
func cutBefore(events []contract.Event, hit func(contract.Event) bool) []contract.Event {
	for i := len(events) - 1; i >= 0; i-- {
		if hit(events[i]) {
			return events[:i]
		}
	}
	return events
}

func isType(want contract.EventType) func(contract.Event) bool {
	return func(e contract.Event) bool { return e.Type == want }
}

// Every call has exactly one result after a crash at any event, no unsafe call runs twice, and reads
// run again.
func TestMD04ResumeFromAnyEvent(t *testing.T) {
	first := newWorld(t,
		calls("bash", bash("echo x >> count"), "read", `{"path":"f"}`, "edit", editArgs("f", "a", "b"), "bash", bash("echo y >> count")),
		calls("write", writeArgs("g", "1\n")), says("done"))
	first.file("f", "a\n")
	first.end(agent.EndFinished)
	events := first.log.all()
	w := first
	for n := 1; n <= len(events); n++ {
		w.next(says("done"))
		w.file("f", "a\n")
		w.file("count", "")
		w.c.History = events[:n]
		started := map[string]bool{}
		for _, e := range events[:n] {
			if p, ok := contract.As[contract.ToolStarted](e); ok {
				started[string(p.Arguments)] = true
			}
		}
		w.model.again = true
		w.end(agent.EndFinished)
		for _, p := range payloads[contract.ToolStarted](w.log.all()) {
			if started[string(p.Arguments)] && p.Name == "bash" {
				t.Errorf("cut at %d: %s ran again", n, p.Arguments)
			}
		}
		for _, r := range w.results() {
			if r.Interrupted && !strings.Contains(r.Text, "effects are unknown") {
				t.Errorf("cut at %d: an interrupted call is told as %q", n, r.Text)
			}
		}
	}
}

func TestStartedEditRunsAgainOnlyOnTheUnchangedFile(t *testing.T) {
	first := newWorld(t, calls("edit", editArgs("f", "a", "b")), says("done"))
	first.file("f", "a\n")
	first.end(agent.EndFinished)
	history := cutBefore(first.log.all(), isType(contract.TypeToolResult))
	for content, want := range map[string]string{"a\n": "edited", "b\n": "interrupted"} {
		w := newWorld(t, says("done"))
		w.file("f", content)
		w.c.History = history
		w.end(agent.EndFinished)
		if got := w.results()[0]; !strings.HasPrefix(got.Text, want) || w.content("f") != "b\n" {
			t.Errorf("on %q: %q, the file is %q", content, got.Text, w.content("f"))
		}
	}
}

func TestResumeAfterTheEndTellsTheFollowUp(t *testing.T) {
	first := newWorld(t, calls("bash", bash("echo 1")), says("done"))
	first.end(agent.EndFinished)
	w := newWorld(t, says("done again"))
	w.c.History = append(first.log.all(), contract.NewEvent(0, contract.RunResumed{Attempt: 2, Reason: "follow-up"}),
		contract.NewEvent(0, contract.MessageUser{Message: contract.Message{ID: "m1", Text: "and now that"}}))
	box := &mailbox{mail: []contract.Message{{ID: "m1", Text: "and now that"}}} // the same one, handed over as well
	w.c.Mailbox = box
	r := w.end(agent.EndFinished)
	got := w.model.requests[0].Messages
	if len(got) != 5 || strings.Count(got[4].Text, "and now that") != 1 || r.Usage.Steps != 3 {
		t.Errorf("%d steps, the request is %+v", r.Usage.Steps, got)
	}
	prefixOf(t, first.model.requests[1], w.model.requests[0])
}

func TestGrantsOfTheSessionLiveThroughAResume(t *testing.T) {
	first := newWorld(t)
	first.policy(contract.PolicyAsk)
	scope := first.c.Judge.Command("touch a", "").Scope
	w := newWorld(t, calls("bash", bash("touch a")), says("done"))
	w.policy(contract.PolicyAsk)
	w.c.History = []contract.Event{
		contract.NewEvent(1, contract.StepStarted{Step: 1}),
		contract.NewEvent(1, contract.ApprovalRequested{Approval: contract.Approval{ID: "apr_1", SessionScope: scope}}),
		contract.NewEvent(1, contract.ApprovalDecided{ID: "apr_1", Decision: contract.Decision{Verdict: contract.AllowSession}}),
	}
	w.end(agent.EndFinished) // its gate fails the run when it is asked
}

func TestCompactionKeepsTaskMessagesAndChecks(t *testing.T) {
	var replies []reply
	noise := "seq 1 9000 | paste -s -d' ' | fold -w 1000"
	for i := range 9 {
		replies = append(replies, calls("bash", bash(fmt.Sprintf("echo %d; %s", i, noise))))
	}
	// With 12 Ki tokens only a summary makes enough room; it is asked for between two steps.
	w := newWorld(t)
	w.c.ContextTokens, w.c.MaxTokens = 36<<10, 1000
	box := &mailbox{}
	box.send("remember this")
	w.c.Mailbox = box
	w.model.replies = replies
	w.c.Model = &summarising{script: w.model}
	w.model.replies = append(w.model.replies, says("done"))
	for i := range w.model.replies {
		w.model.replies[i].turn.Usage = model.Usage{}
	}
	w.end(agent.EndFinished)
	kinds := map[string]int{}
	for _, c := range payloads[contract.Compacted](w.log.all()) {
		kinds[c.Kind]++
		if c.After >= c.Before {
			t.Errorf("a compaction made nothing smaller: %+v", c)
		}
	}
	last := w.model.requests[len(w.model.requests)-1]
	if kinds["summary"] == 0 {
		t.Fatalf("compactions: %v", kinds)
	}
	for _, want := range []string{"Do it.", "remember this", "SUMMARY"} {
		if !strings.Contains(last.Messages[0].Text, want) {
			t.Errorf("the first message lost %q", want)
		}
	}
}

// summarising answers requests for a summary and leaves the rest to its script.
type summarising struct{ *script }

func (s *summarising) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	if last := r.Messages[len(r.Messages)-1]; strings.Contains(last.Text, "write a summary") {
		one := script{t: s.t, replies: []reply{says("SUMMARY")}}
		return one.Stream(ctx, r)
	}
	return s.script.Stream(ctx, r)
}

// The history rebuilt from the log is the one that was, byte for byte.
func TestRebuiltHistoryIsTheLiveOne(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		box := &mailbox{}
		w.next()
		w.file("f", "a\nb\nc\n")
		w.c.Mailbox = box
		w.model.replies = randomReplies(rt)
		fails := rapid.IntRange(0, 2).Draw(rt, "failing rounds")
		w.c.Check = func(_ context.Context, round int) ([]contract.CheckFinished, error) {
			if round == 1 && rapid.Bool().Draw(rt, "mail") {
				box.send("look at f")
				if err := w.log.Append(t.Context(), contract.NewEvent(0, contract.MessageUser{Message: contract.Message{ID: "msg_look at f", Text: "look at f"}})); err != nil {
					return nil, err
				}
			}
			c := contract.CheckFinished{CheckResult: contract.CheckResult{Argv: contract.Check{"c"}, Passed: round > fails}, Tail: fmt.Sprint("round ", round)}
			return []contract.CheckFinished{c}, w.log.Append(t.Context(), contract.NewEvent(0, contract.CheckStarted{Argv: c.Argv}), contract.NewEvent(0, c))
		}
		if rapid.Bool().Draw(rt, "small context") {
			w.model.maxBytes = 30 << 10
		}
		if _, err := agent.Run(t.Context(), w.c); err != nil {
			rt.Fatal(err)
		}
		w.invariants()
		events := w.log.all()
		history := cutBefore(events, func(e contract.Event) bool {
			m, ok := contract.As[contract.ModelMessage](e)
			return ok && !m.Interrupted
		})
		if len(history) == len(events) || len(history) == 0 {
			return
		}
		live := w.model.answered()
		w.next(reply{silent: true})
		w.c.History = history
		w.model.asked = make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-w.model.asked
			cancel(errors.New("enough"))
		}()
		if _, err := agent.Run(ctx, w.c); err != nil {
			rt.Fatal(err)
		}
		if got := w.model.requests[0].Messages; !reflect.DeepEqual(got, live.Messages) {
			rt.Fatalf("rebuilt\n%+v\nlive\n%+v", got, live.Messages)
		}
	})
}

// answered is the request that the last whole answer came to.
func (s *script) answered() model.Request {
	for i := len(s.requests) - 1; i >= 0; i-- {
		if s.good[i] {
			return s.requests[i]
		}
	}
	return model.Request{}
}

func randomReplies(rt *rapid.T) []reply {
	one := rapid.Custom(func(rt *rapid.T) reply {
		switch rapid.IntRange(0, 7).Draw(rt, "kind") {
		case 0:
			return says("done")
		case 1:
			return says("")
		case 2:
			return reply{text: "half", err: &model.Error{Kind: model.ErrIdle, Emitted: true}}
		case 3:
			return calls("read", `{"path":"f"}`, "edit", editArgs("f", "b", "B"), "read", `{"path":"none"}`)
		case 4:
			return calls("bash", bash(`printf 'x\033\377\n'; exit 2`), "nothing", `{}`)
		case 5:
			return calls("bash", bash("seq 1 5000 | paste -s -d' ' | fold -w 1000"))
		case 6:
			r := calls("write", writeArgs("g", "é\u202e\n"))
			r.turn.Text = "text with \x1b and \u200b"
			return r
		default:
			cut := says("cut")
			cut.turn.Finish = model.FinishLength
			return cut
		}
	})
	return rapid.SliceOfN(one, 1, 8).Draw(rt, "replies")
}
