package runner

import (
	"context"
	"encoding/json"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model/redact"
)

// sink is the run's log as the loop sees it. It takes known secrets out of every event before it is
// stored, also where one is cut by the border of two pieces of a stream, and tells the watcher of the
// tree what ran. It is used by one goroutine at a time, as [contract.Appender] demands order.
type sink struct {
	log     contract.Appender
	secrets *redact.Set
	streams map[string]*redact.Stream // by call and stream, or "model" and kind
	seen    func(e contract.Event)    // called for each event before it is stored; nil: not called
}

func newSink(log contract.Appender, secrets *redact.Set) *sink {
	return &sink{log: log, secrets: secrets, streams: map[string]*redact.Stream{}}
}

// Append implements the agent's Sink.
func (s *sink) Append(ctx context.Context, events ...contract.Event) error {
	out := make([]contract.Event, 0, len(events))
	for _, e := range events {
		if s.seen != nil {
			s.seen(e)
		}
		out = append(out, s.flush(e)...)
		if clean, keep := s.clean(e); keep {
			out = append(out, clean)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return s.log.Append(ctx, out...)
}

// clean redacts one event. A piece of a stream that is held back as a whole is not kept.
func (s *sink) clean(e contract.Event) (contract.Event, bool) {
	switch e.Type {
	case contract.TypeToolOutput:
		if p, ok := contract.As[contract.ToolOutput](e); ok {
			p.Text = s.stream(p.CallID + "\x00" + p.Stream).Next(p.Text)
			e.Data = contract.MarshalJSON(p)
			return e, p.Text != ""
		}
	case contract.TypeModelDelta:
		if p, ok := contract.As[contract.ModelDelta](e); ok {
			p.Text = s.next("model\x00text", p.Text)
			p.Reasoning = s.next("model\x00reasoning", p.Reasoning)
			e.Data = contract.MarshalJSON(p)
			return e, p.Text != "" || p.Reasoning != ""
		}
	case contract.TypeModelMessage:
		return s.message(e), true
	default:
	}
	e.Data = redactJSON(e.Data, s.secrets.String)
	return e, true
}

// message redacts a turn but for its opaque reasoning, which must go back to the provider as it came.
func (s *sink) message(e contract.Event) contract.Event {
	p, ok := contract.As[contract.ModelMessage](e)
	if !ok || len(p.Reasoning) == 0 {
		e.Data = redactJSON(e.Data, s.secrets.String)
		return e
	}
	opaque := p.Reasoning
	p.Reasoning = nil
	data := redactJSON(contract.MarshalJSON(p), s.secrets.String)
	if json.Unmarshal(data, &p) == nil {
		p.Reasoning = opaque
		e.Data = contract.MarshalJSON(p)
	}
	return e
}

func (s *sink) next(key, text string) string {
	if text == "" {
		return ""
	}
	return s.stream(key).Next(text)
}

func (s *sink) stream(key string) *redact.Stream {
	st, ok := s.streams[key]
	if !ok {
		st = s.secrets.Stream()
		s.streams[key] = st
	}
	return st
}

// flush gives what streams held back once their source has ended: a call with its result, the model's
// text with its message.
func (s *sink) flush(e contract.Event) []contract.Event {
	switch e.Type {
	case contract.TypeToolResult:
		p, _ := contract.As[contract.ToolResult](e)
		var out []contract.Event
		for _, name := range []string{"stdout", "stderr"} {
			if text := s.end(p.CallID + "\x00" + name); text != "" {
				out = append(out, contract.NewEvent(e.Step, contract.ToolOutput{CallID: p.CallID, Stream: name, Text: text}))
			}
		}
		return out
	case contract.TypeModelMessage, contract.TypeModelDiscarded:
		rest := contract.ModelDelta{Text: s.end("model\x00text"), Reasoning: s.end("model\x00reasoning")}
		if rest.Text+rest.Reasoning == "" || e.Type == contract.TypeModelDiscarded {
			return nil
		}
		return []contract.Event{contract.NewEvent(e.Step, rest)}
	default:
		return nil
	}
}

func (s *sink) end(key string) string {
	st, ok := s.streams[key]
	if !ok {
		return ""
	}
	delete(s.streams, key)
	return st.Close()
}
