package agent

import (
	"context"
	"errors"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

// Kinds of compaction, as the log names them.
const (
	kindElide   = "elide"
	kindSummary = "summary"
)

const (
	bytesPerToken   = 4
	reserveTokens   = 8 << 10
	elideAt         = 0.70 // of the budget
	summaryAt       = 0.85
	keepWhole       = 6 // newest steps whose results are never elided before their time
	keepSteps       = 2 // newest steps that no summary covers
	maxSummaryFails = 2
	maxSummary      = 16 << 10
)

const summaryRequest = `The conversation is getting too long for you. Without calling a tool, write a summary that you can go on from, at most 800 words: what the task is, what is done, which files are changed and how, which commands work, what was learnt about the code, and the next step.`

// compact makes room before a request, where the size of the model's context is known: first old
// results are shortened, in one cut; when that is not enough, old steps become a summary.
func (l *loop) compact(ctx context.Context) (*Result, error) {
	if l.c.ContextTokens <= 0 {
		return nil, nil
	}
	budget := float64(l.budget())
	if float64(l.estimate()) > elideAt*budget {
		l.elideTo(l.h.step-keepWhole-1, int64(budget)/10)
	}
	if float64(l.estimate()) <= summaryAt*budget {
		return nil, l.flush(ctx)
	}
	return l.summarise(ctx)
}

// budget is how many tokens the messages may have.
func (l *loop) budget() int64 {
	answer := int64(l.c.MaxTokens)
	if answer <= 0 {
		answer = min(32<<10, l.c.ContextTokens/4)
	}
	if b := l.c.ContextTokens - answer - reserveTokens; b > 0 {
		return b
	}
	return l.c.ContextTokens / 2
}

// estimate is about how many tokens the next request has: what the provider counted last, and the
// bytes that came since.
func (l *loop) estimate() int64 {
	size := l.h.size()
	if l.lastInput > 0 {
		return max(0, l.lastInput+(size-l.lastSize)/bytesPerToken)
	}
	for _, t := range l.wire {
		size += int64(len(t.Description) + len(t.Parameters))
	}
	return (size + int64(len(l.system))) / bytesPerToken
}

// elideTo shortens the results of steps up to step when that frees at least so many tokens, and
// reports whether it did.
func (l *loop) elideTo(step int, atLeast int64) bool {
	if step <= l.h.elided {
		return false
	}
	before, size, old := l.estimate(), l.h.size(), l.h.elided
	l.h.elided = step
	freed := size - l.h.size()
	l.h.elided = old
	if freed <= 0 || freed/bytesPerToken < atLeast {
		return false
	}
	l.put(contract.NewEvent(l.h.step, contract.Compacted{
		Kind: kindElide, Step: step, Before: before, After: before - freed/bytesPerToken,
	}))
	return true
}

// shorten makes the history smaller after the model refused it as too long, and reports whether it
// is: the same body is never sent twice.
func (l *loop) shorten(ctx context.Context) (bool, error) {
	if !l.elideTo(l.h.step, 0) {
		return false, nil
	}
	l.lastInput = 0
	return true, l.flush(ctx)
}

// summarise lets the model replace old steps by a summary of its own.
func (l *loop) summarise(ctx context.Context) (*Result, error) {
	upTo := l.h.step - keepSteps - 1
	if upTo <= l.h.summed || l.requestsSpent() {
		return nil, l.flush(ctx)
	}
	before := l.estimate()
	text, err := l.askSummary(ctx)
	switch {
	case ctx.Err() != nil:
		return l.cancelled(ctx), nil
	case err != nil:
		return nil, err
	case text == "":
		l.summaryFail++
		l.put(contract.NewEvent(l.h.step, contract.Notice{Level: "warning", Code: "summary_failed", Text: "the model gave no summary of the older steps"}))
		if l.summaryFail >= maxSummaryFails {
			r := failed(EndModel, contract.FailModel, "the history does not fit the model and could not be summarised")
			r.Failure.Reason, r.Failure.Hint = "context", "choose a model with a larger context, or make the task smaller"
			return r, nil
		}
		return nil, l.flush(ctx)
	}
	l.summaryFail = 0
	size := l.h.size()
	c := contract.Compacted{Kind: kindSummary, Step: upTo, Summary: text, Before: before}
	probe := *l.h
	probe.compacted(c)
	c.After = max(0, before-(size-probe.size())/bytesPerToken)
	l.put(contract.NewEvent(l.h.step, c))
	return nil, l.flush(ctx)
}

// askSummary gives "" when the model gave none. Its error is for the log only.
func (l *loop) askSummary(ctx context.Context) (string, error) {
	r := l.request()
	ask := model.Message{Role: model.RoleUser, Text: summaryRequest}
	if last := &r.Messages[len(r.Messages)-1]; last.Role == model.RoleUser {
		last.Text += "\n\n" + ask.Text
	} else {
		r.Messages = append(r.Messages, ask)
	}
	for chunk, err := range l.c.Model.Stream(ctx, r) {
		switch {
		case err != nil:
			var failure *model.Error
			if !errors.As(err, &failure) {
				return "", err
			}
			l.usage.ModelRequests++
			return "", nil
		case chunk.Kind == model.ChunkRetry && chunk.Retry != nil:
			if err := l.retried(ctx, chunk.Retry); err != nil {
				return "", err
			}
		case chunk.Kind == model.ChunkEnd && chunk.Turn != nil:
			l.put(l.count(chunk.Turn.Usage))
			if len(chunk.Turn.Calls) > 0 {
				return "", nil
			}
			return clip(strings.TrimSpace(contract.CleanText(chunk.Turn.Text)), eventBounds(maxSummary)), nil
		}
	}
	return "", nil
}
