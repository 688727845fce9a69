package model_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rivumi/rivumi/internal/model"
)

// attempts is a model that plays one prepared outcome a call; the last one repeats.
type attempts struct {
	outcomes []outcome
	asked    int
	times    []time.Time
}

type outcome struct {
	chunks []model.Chunk
	err    *model.Error
}

func (a *attempts) Stream(context.Context, model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		o := a.outcomes[min(a.asked, len(a.outcomes)-1)]
		a.asked++
		a.times = append(a.times, time.Now())
		for _, c := range o.chunks {
			if !yield(c, nil) {
				return
			}
		}
		if o.err != nil {
			yield(model.Chunk{}, o.err)
		}
	}
}

var fine = outcome{chunks: []model.Chunk{{Kind: model.ChunkText, Text: "hi"}, {Kind: model.ChunkEnd, Turn: &model.Turn{Text: "hi"}}}}

func fails(e model.Error) outcome { return outcome{err: &e} }

func noJitter() float64 { return 0 }

// drain gives the visible waits and the end of one call.
func drain(ctx context.Context, m model.Model) (waits []time.Duration, turn *model.Turn, err error) {
	for c, e := range m.Stream(ctx, model.Request{}) {
		if c.Kind == model.ChunkRetry {
			waits = append(waits, c.Retry.After)
		}
		turn, err = c.Turn, e
	}
	return waits, turn, err
}

func TestMD08RetryWaitsWhatIsAskedAndShowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{outcomes: []outcome{fails(model.Error{Kind: model.ErrStatus, Status: 429, RetryAfter: 2 * time.Second}), fails(model.Error{Kind: model.ErrStatus, Status: 503}), fine}}
		waits, turn, err := drain(t.Context(), model.WithRetry(a, model.RetryOptions{Randomness: noJitter}))
		if err != nil || turn == nil || len(waits) != 2 || waits[0] != 2*time.Second || waits[1] != 2*time.Second {
			t.Fatalf("waits %v, turn %v, err %v", waits, turn, err)
		}
		if gap := a.times[1].Sub(a.times[0]); gap < 2*time.Second {
			t.Errorf("asked again after %s", gap)
		}
	})
}

func TestRetryBacksOffWithJitterAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{outcomes: []outcome{fails(model.Error{Kind: model.ErrTransport, Message: "refused"})}}
		waits, _, err := drain(t.Context(), model.WithRetry(a, model.RetryOptions{Randomness: func() float64 { return 0.999 }}))
		if e, ok := model.AsError(err); !ok || e.Kind != model.ErrTransport || a.asked != 3 {
			t.Fatalf("%d attempts, %v", a.asked, err)
		}
		if waits[0] < 750*time.Millisecond || waits[0] > time.Second || waits[1] < 1500*time.Millisecond || waits[1] > 2*time.Second {
			t.Errorf("waits %v", waits)
		}
	})
}

func TestMD08LongWaitsStopAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{outcomes: []outcome{fails(model.Error{Kind: model.ErrStatus, Status: 429, RetryAfter: time.Hour})}}
		begin := time.Now()
		waits, _, err := drain(t.Context(), model.WithRetry(a, model.RetryOptions{}))
		if err == nil || a.asked != 1 || len(waits) != 0 || time.Since(begin) != 0 {
			t.Fatalf("%d attempts, waits %v, %v", a.asked, waits, err)
		}
	})
}

func TestMD08CancelEndsTheWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the user had enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(300*time.Millisecond, func() { cancel(why) })
		a := &attempts{outcomes: []outcome{fails(model.Error{Kind: model.ErrStatus, Status: 429, RetryAfter: 20 * time.Second})}}
		begin := time.Now()
		_, _, err := drain(ctx, model.WithRetry(a, model.RetryOptions{}))
		if e, ok := model.AsError(err); !ok || e.Kind != model.ErrCanceled || !errors.Is(err, why) {
			t.Fatalf("%v", err)
		}
		if d := time.Since(begin); d != 300*time.Millisecond {
			t.Errorf("ended after %s", d)
		}
	})
}

func TestNeverRetriedAfterAnythingWasEmitted(t *testing.T) {
	a := &attempts{outcomes: []outcome{{chunks: fine.chunks[:1], err: &model.Error{Kind: model.ErrTransport}}}}
	_, _, err := drain(t.Context(), model.WithRetry(a, model.RetryOptions{}))
	if e, ok := model.AsError(err); !ok || !e.Emitted || a.asked != 1 {
		t.Fatalf("%d attempts, %v", a.asked, err)
	}
}

func TestWhichErrorsAreRetried(t *testing.T) {
	for _, c := range []struct {
		e    model.Error
		want int
	}{
		{model.Error{Kind: model.ErrTransport}, 3},
		{model.Error{Kind: model.ErrTruncated}, 3},
		{model.Error{Kind: model.ErrIdle}, 3},
		{model.Error{Kind: model.ErrEmpty}, 3},
		{model.Error{Kind: model.ErrEmpty, Code: "length"}, 1},
		{model.Error{Kind: model.ErrStream, Status: 529}, 3},
		{model.Error{Kind: model.ErrStream}, 1},
		{model.Error{Kind: model.ErrStatus, Status: 408}, 3},
		{model.Error{Kind: model.ErrStatus, Status: 409}, 3},
		{model.Error{Kind: model.ErrStatus, Status: 500}, 3},
		{model.Error{Kind: model.ErrStatus, Status: 400}, 1},
		{model.Error{Kind: model.ErrStatus, Status: 401}, 1},
		{model.Error{Kind: model.ErrStatus, Status: 402}, 1},
		{model.Error{Kind: model.ErrStatus, Status: 403}, 1},
		{model.Error{Kind: model.ErrStatus, Status: 404}, 1},
		{model.Error{Kind: model.ErrStatus, Status: 413}, 1},
		{model.Error{Kind: model.ErrStatus, Status: 422}, 1},
		{model.Error{Kind: model.ErrStatus, Status: 429, Code: "insufficient_quota"}, 1},
		{model.Error{Kind: model.ErrStatus, Status: 400, Code: "tool_use_failed"}, 2},
		{model.Error{Kind: model.ErrProtocol}, 1},
		{model.Error{Kind: model.ErrTooBig}, 1},
		{model.Error{Kind: model.ErrContext}, 1},
		{model.Error{Kind: model.ErrConfig}, 1},
		{model.Error{Kind: model.ErrBudget}, 1},
	} {
		a := &attempts{outcomes: []outcome{fails(c.e)}}
		_, _, err := drain(t.Context(), model.WithRetry(a, model.RetryOptions{Base: time.Microsecond, Max: time.Microsecond}))
		if a.asked != c.want || err == nil {
			t.Errorf("%v: %d attempts, want %d", &c.e, a.asked, c.want)
		}
	}
}

func TestBudgetCountsEveryAttempt(t *testing.T) {
	a := &attempts{outcomes: []outcome{fails(model.Error{Kind: model.ErrTransport}), fine}}
	b := &model.Budget{MaxRequests: 2}
	m := model.WithRetry(model.WithBudget(a, b), model.RetryOptions{Base: time.Microsecond})
	if _, _, err := drain(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	_, _, err := drain(t.Context(), m)
	if e, ok := model.AsError(err); !ok || e.Kind != model.ErrBudget || e.Code != "model_request_budget_exhausted" || a.asked != 2 {
		t.Fatalf("%d attempts, %v", a.asked, err)
	}
}

func TestBudgetOfOutputTokens(t *testing.T) {
	known := fine
	known.chunks = []model.Chunk{{Kind: model.ChunkEnd, Turn: &model.Turn{Usage: model.Usage{Output: 10, Known: true}}}}
	unknown := outcome{chunks: []model.Chunk{{Kind: model.ChunkText, Text: "twelve bytes"}, {Kind: model.ChunkEnd, Turn: &model.Turn{}}}}
	a := &attempts{outcomes: []outcome{known, unknown}}
	b := &model.Budget{MaxOutput: 13}
	m := model.WithBudget(a, b)
	for range 2 {
		if _, _, err := drain(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if requests, output := b.Spent(); requests != 2 || output != 13 {
		t.Fatalf("%d requests, %d tokens", requests, output)
	}
	_, _, err := drain(t.Context(), m)
	if e, ok := model.AsError(err); !ok || e.Code != "token_budget_exhausted" {
		t.Fatalf("%v", err)
	}
}
