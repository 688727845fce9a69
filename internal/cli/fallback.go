package cli

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/model"
)

// fallbackAfter is how many requests in a row must fail before the other model is asked: what is
// tried again by itself gets its chance first.
const fallbackAfter = 3

// fallback asks a second model for the rest of the run once the first one cannot be reached. It
// changes over only where nothing of an answer was shown.
type fallback struct {
	first, second agent.Model
	name          string // of the second, as its provider knows it
	failed        atomic.Int32
}

var _ agent.Model = (*fallback)(nil)

// Stream implements [agent.Model].
func (f *fallback) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	if f.failed.Load() >= fallbackAfter {
		return f.second.Stream(ctx, f.translate(r))
	}
	return func(yield func(model.Chunk, error) bool) {
		for c, err := range f.first.Stream(ctx, r) {
			if e, ok := model.AsError(err); ok && !e.Emitted && model.Retryable(e) {
				f.failed.Add(1)
			} else if err == nil && c.Kind == model.ChunkEnd {
				f.failed.Store(0)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// translate gives the request as the second model takes it: without the first one's opaque blocks.
func (f *fallback) translate(r model.Request) model.Request {
	r.Model = f.name
	messages := make([]model.Message, len(r.Messages))
	for i, m := range r.Messages {
		m.Reasoning = nil
		calls := make([]model.Call, len(m.Calls))
		for j, c := range m.Calls {
			c.Extra = nil
			calls[j] = c
		}
		m.Calls = calls
		messages[i] = m
	}
	r.Messages = messages
	return r
}
