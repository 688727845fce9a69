package runner_test

import (
	"context"
	"iter"
	"sync"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/model"
)

// watched keeps the requests a model gets.
type watched struct {
	model agent.Model

	mu       sync.Mutex
	requests []model.Request
}

func (w *watched) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	w.mu.Lock()
	w.requests = append(w.requests, r)
	w.mu.Unlock()
	return w.model.Stream(ctx, r)
}

func (w *watched) all() []model.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]model.Request(nil), w.requests...)
}

func noKey() error { return &model.Error{Kind: model.ErrConfig, Code: "no_key", Message: "no key"} }
