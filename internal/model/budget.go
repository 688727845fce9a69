package model

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/rivumi/rivumi/internal/contract"
)

// Budget counts what one run spends on a model. A limit of 0 is no limit. It is safe for
// concurrent use; requests are counted before they are sent, so no interleaving exceeds the limit.
type Budget struct {
	MaxRequests int64
	MaxOutput   int64 // output tokens; an answer without usage counts a quarter of its bytes

	mu       sync.Mutex
	requests int64
	output   int64
}

// Spent tells how many requests were sent and how many output tokens came back so far.
func (b *Budget) Spent() (requests, output int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests, b.output
}

func (b *Budget) take() *Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.MaxRequests > 0 && b.requests >= b.MaxRequests {
		return &Error{Kind: ErrBudget, Code: string(contract.KindBudgetExhausted), Message: fmt.Sprintf("the budget of %d model requests is spent", b.MaxRequests)}
	}
	if b.MaxOutput > 0 && b.output >= b.MaxOutput {
		return &Error{Kind: ErrBudget, Code: string(contract.KindTokensExhausted), Message: fmt.Sprintf("the budget of %d output tokens is spent", b.MaxOutput)}
	}
	b.requests++
	return nil
}

func (b *Budget) settle(u Usage, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u.Known {
		b.output += u.Output
		return
	}
	b.output += (bytes + 3) / 4
}

// WithBudget gives a model that refuses to be asked once the budget is spent, with an error of
// kind ErrBudget and the code of the contract: model_request_budget_exhausted or token_budget_exhausted. Put it inside [WithRetry], so that every attempt
// counts. An answer that is under way when the tokens run out is not cut.
func WithBudget(m Model, b *Budget) Model { return &budgeted{model: m, budget: b} }

type budgeted struct {
	model  Model
	budget *Budget
}

// Stream implements [Model].
func (m *budgeted) Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := m.budget.take(); err != nil {
			yield(Chunk{}, err)
			return
		}
		var bytes int64
		var usage Usage
		defer func() { m.budget.settle(usage, bytes) }()
		for c, err := range m.model.Stream(ctx, r) {
			switch c.Kind {
			case ChunkText, ChunkReasoning, ChunkArguments:
				bytes += int64(len(c.Text))
			case ChunkEnd:
				usage = c.Turn.Usage
			case ChunkCall, ChunkRetry:
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
