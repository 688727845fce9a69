package scripted

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rivumi/rivumi/internal/model"
)

// ModelName is what scripted turns report as their model.
const ModelName = "scripted"

// step is one answer, ready to play.
type step struct {
	text, reasoning string
	calls           []model.RawCall
	finish          model.Finish
	usage           model.Usage
	delay, gap      time.Duration
	chunks          int
	fault           *Fault
	hang            bool
}

// Player plays a script. It is safe for concurrent use.
type Player struct {
	script Script
	steps  []step

	mu     sync.Mutex
	failed []int // how often the fault of a turn has been played
}

// Stream implements [model.Model].
func (p *Player) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		st := p.pick(answered(r))
		st.play(ctx, r, yield)
	}
}

// answered counts the assistant's messages in the history.
func answered(r model.Request) int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == model.RoleAssistant {
			n++
		}
	}
	return n
}

func (p *Player) pick(n int) step {
	if n >= len(p.steps) {
		if p.script.Default == DefaultStop {
			return step{text: "The script has no more turns.", finish: model.FinishStop}
		}
		n = len(p.steps) - 1
	}
	st := p.steps[n]
	if st.fault != nil && st.fault.Times > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.failed[n] >= st.fault.Times {
			st.fault = nil
		} else {
			p.failed[n]++
		}
	}
	return st
}

// show is one chunk for the consumer.
type show struct {
	kind model.ChunkKind
	text string
}

func (st step) shows() []show {
	var out []show
	for _, piece := range split(st.reasoning, 0) {
		out = append(out, show{model.ChunkReasoning, piece})
	}
	for _, piece := range split(st.text, st.chunks) {
		out = append(out, show{model.ChunkText, piece})
	}
	if st.fault != nil || st.hang {
		return out
	}
	for _, c := range st.calls {
		out = append(out, show{model.ChunkCall, c.Name})
		for _, piece := range split(c.Arguments, 0) {
			out = append(out, show{model.ChunkArguments, piece})
		}
	}
	return out
}

func (st step) play(ctx context.Context, r model.Request, yield func(model.Chunk, error) bool) {
	if err := wait(ctx, st.delay); err != nil {
		yield(model.Chunk{}, err)
		return
	}
	emitted := false
	for i, s := range st.shows() {
		if i > 0 {
			if err := wait(ctx, st.gap); err != nil {
				err.Emitted = true
				yield(model.Chunk{}, err)
				return
			}
		}
		if !yield(model.Chunk{Kind: s.kind, Text: s.text}, nil) {
			return
		}
		emitted = true
	}
	switch {
	case st.hang:
		<-ctx.Done()
		e := model.Canceled(ctx)
		e.Emitted = emitted
		yield(model.Chunk{}, e)
	case st.fault != nil:
		f := st.fault
		yield(model.Chunk{}, &model.Error{
			Kind: f.Kind, Status: f.Status, Code: f.Code, Message: f.Message, Emitted: emitted,
			RetryAfter: time.Duration(f.RetryAfter) * time.Millisecond,
		})
	default:
		turn := st.turn(r)
		yield(model.Chunk{Kind: model.ChunkEnd, Turn: &turn}, nil)
	}
}

func (st step) turn(r model.Request) model.Turn {
	cut := st.finish == model.FinishLength
	calls, notes := model.SafeCalls(r, st.calls, cut)
	t := model.Turn{Text: st.text, Calls: calls, Finish: st.finish, Usage: st.usage, Model: ModelName, Notes: notes}
	if st.reasoning != "" {
		if block, err := json.Marshal(map[string]string{"reasoning_content": st.reasoning}); err == nil {
			t.Reasoning = []json.RawMessage{block}
		}
	}
	return t
}

// split cuts text into n pieces at rune borders; n of 0 gives pieces of about 24 bytes, at most 64.
func split(text string, n int) []string {
	if text == "" {
		return nil
	}
	if n == 0 {
		n = min(64, (len(text)+23)/24)
	}
	n = min(max(n, 1), len(text))
	out := make([]string, 0, n)
	from := 0
	for i := 1; i <= n; i++ {
		to := len(text) * i / n
		for to < len(text) && !utf8.RuneStart(text[to]) {
			to++
		}
		if to > from {
			out = append(out, text[from:to])
			from = to
		}
	}
	return out
}

// wait ends early, with an error, when ctx does; it looks at ctx even when d is 0.
func wait(ctx context.Context, d time.Duration) *model.Error {
	if ctx.Err() != nil {
		return model.Canceled(ctx)
	}
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return model.Canceled(ctx)
	}
}
