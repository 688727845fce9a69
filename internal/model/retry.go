package model

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"
)

// RetryOptions sets the waits of [WithRetry]; zero values give the defaults.
type RetryOptions struct {
	Attempts   int            // 3
	Base       time.Duration  // wait before the second attempt, doubled for each later one: 1 s
	Max        time.Duration  // longest such wait: 2 s
	MaxAsked   time.Duration  // longest wait a provider may ask for: 30 s
	Randomness func() float64 // in [0, 1); takes up to a quarter off a wait
}

// WithRetry gives a model that tries again when an attempt failed before anything was emitted. Each
// wait is announced by a chunk of kind Retry and ends at once when ctx does. A provider that asks
// for a longer wait than MaxAsked fails the call at once, with a message that says so. A tool call
// the provider itself refused as malformed (tool_use_failed) is tried once more only.
func WithRetry(m Model, o RetryOptions) Model {
	if o.Attempts <= 0 {
		o.Attempts = 3
	}
	if o.Base <= 0 {
		o.Base = time.Second
	}
	if o.Max <= 0 {
		o.Max = 2 * time.Second
	}
	if o.MaxAsked <= 0 {
		o.MaxAsked = 30 * time.Second
	}
	if o.Randomness == nil {
		o.Randomness = rand.Float64
	}
	return &retrying{model: m, o: o}
}

type retrying struct {
	model Model
	o     RetryOptions
}

// Stream implements [Model].
func (r *retrying) Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for attempt := 1; ; attempt++ {
			failed, done := r.attempt(ctx, req, yield)
			if done {
				return
			}
			wait, again := r.next(failed, attempt)
			if !again {
				yield(Chunk{}, failed)
				return
			}
			if !yield(Chunk{Kind: ChunkRetry, Retry: &Retry{Attempt: attempt, After: wait, Cause: failed}}, nil) {
				return
			}
			if err := pause(ctx, wait); err != nil {
				yield(Chunk{}, err)
				return
			}
		}
	}
}

// attempt passes one attempt's chunks on. It is done when the turn ended or the consumer left.
func (r *retrying) attempt(ctx context.Context, req Request, yield func(Chunk, error) bool) (failed *Error, done bool) {
	emitted := false
	for c, err := range r.model.Stream(ctx, req) {
		if err != nil {
			e, ok := AsError(err)
			if !ok {
				e = &Error{Kind: ErrProtocol, Message: "the model gave an unclassified error", Err: err}
			}
			seen := *e
			seen.Emitted = seen.Emitted || emitted
			return &seen, false
		}
		emitted = emitted || c.Kind != ChunkRetry
		if !yield(c, nil) || c.Kind == ChunkEnd {
			return nil, true
		}
	}
	return &Error{Kind: ErrTruncated, Message: "the model's stream ended without an end", Emitted: emitted}, false
}

// next decides on another attempt and its wait. It writes into failed why a long wait was refused.
func (r *retrying) next(failed *Error, attempt int) (wait time.Duration, again bool) {
	malformed := failed.Code == "tool_use_failed" && attempt == 1
	if failed.Emitted || attempt >= r.o.Attempts || !malformed && !Retryable(failed) {
		return 0, false
	}
	if failed.RetryAfter > r.o.MaxAsked {
		failed.Message = fmt.Sprintf("the provider asks to wait %s, longer than the %s this run waits: %s",
			failed.RetryAfter.Round(time.Second), r.o.MaxAsked, failed.Message)
		return 0, false
	}
	wait = r.o.Max
	if shift := attempt - 1; shift < 16 && r.o.Base<<shift < r.o.Max {
		wait = r.o.Base << shift
	}
	wait -= time.Duration(r.o.Randomness() * 0.25 * float64(wait))
	return max(wait, failed.RetryAfter), true
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return Canceled(ctx)
	}
}
