package model

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
)

// Exchange is one finished model call: the request, and the turn or the error that ended it.
// Both are nil when the consumer left before the end.
type Exchange struct {
	Request Request
	Turn    *Turn
	Err     error
}

// WithRecord gives a model that hands every finished call to note, in the caller's goroutine and
// before the last chunk is yielded.
func WithRecord(m Model, note func(Exchange)) Model { return &recorded{model: m, note: note} }

type recorded struct {
	model Model
	note  func(Exchange)
}

// Stream implements [Model].
func (m *recorded) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for c, err := range m.model.Stream(ctx, r) {
			if err != nil || c.Kind == ChunkEnd {
				m.note(Exchange{Request: r, Turn: c.Turn, Err: err})
				yield(c, err)
				return
			}
			if !yield(c, nil) {
				m.note(Exchange{Request: r})
				return
			}
		}
		m.note(Exchange{Request: r})
	}
}

// Cleaner takes secrets out of text. [redact.Set] is one.
type Cleaner interface{ String(s string) string }

// WithRedaction gives a model whose requests pass through c: system prompt, texts, tool results
// and call arguments. Opaque reasoning blocks must go back byte for byte and are not changed. The
// same request always gives the same bytes, so that prompt caches hold. Arguments stay JSON: where
// a replacement broke them they are sent as an empty object.
func WithRedaction(m Model, c Cleaner) Model { return &redacted{model: m, clean: c} }

type redacted struct {
	model Model
	clean Cleaner
}

// Stream implements [Model].
func (m *redacted) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	r.System = m.clean.String(r.System)
	messages := make([]Message, len(r.Messages))
	for i, msg := range r.Messages {
		msg.Text = m.clean.String(msg.Text)
		msg.Calls = append([]Call(nil), msg.Calls...)
		for j := range msg.Calls {
			args := json.RawMessage(m.clean.String(string(msg.Calls[j].Arguments)))
			if !json.Valid(args) {
				args = json.RawMessage("{}")
			}
			msg.Calls[j].Arguments = args
		}
		msg.Results = append([]Result(nil), msg.Results...)
		for j := range msg.Results {
			msg.Results[j].Text = m.clean.String(msg.Results[j].Text)
		}
		messages[i] = msg
	}
	r.Messages = messages
	return m.model.Stream(ctx, r)
}

// Collect runs one call to its end and gives the turn; chunks are thrown away.
func Collect(ctx context.Context, m Model, r Request) (*Turn, error) {
	for c, err := range m.Stream(ctx, r) {
		if err != nil {
			return nil, err
		}
		if c.Kind == ChunkEnd {
			return c.Turn, nil
		}
	}
	return nil, &Error{Kind: ErrTruncated, Err: errors.New("the stream ended without an end")}
}
