package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

// attemptsPerStep is how often a step may ask the model: a second time after an answer that broke
// off half-way, or after old output was shortened for it.
const attemptsPerStep = 2

// ask gets the next answer of the model.
func (l *loop) ask(ctx context.Context) (*model.Turn, *Result, error) {
	for attempt := 1; ; attempt++ {
		turn, text, err := l.stream(ctx, l.request())
		if err == nil && turn != nil {
			return turn, nil, nil
		}
		if ctx.Err() != nil {
			end, err := l.discard(ctx, text, "cancelled"), error(nil)
			return nil, end, err
		}
		var failure *model.Error
		if !errors.As(err, &failure) {
			if err == nil {
				err = errors.New("the stream ended without an end")
			}
			return nil, nil, fmt.Errorf("stream the model: %w", err)
		}
		if turn := mistake(failure); turn != nil {
			return turn, nil, nil
		}
		l.usage.ModelRequests++
		again, err := l.mend(ctx, failure, text)
		if err != nil {
			return nil, nil, err
		}
		if !again || attempt >= attemptsPerStep || l.requestsSpent() {
			return nil, modelEnd(failure), nil
		}
	}
}

// finishMalformed is the end of an answer whose call the provider itself could not read.
const finishMalformed model.Finish = "malformed_call"

// mistake gives the answer that stands for a failure of the model's own making, nil for another failure:
// the model is told of it like of any answer that is no end, instead of the run ending.
func mistake(e *model.Error) *model.Turn {
	switch {
	case e.Code == "tool_use_failed":
		return &model.Turn{Text: cutLine(contract.CleanText(e.Message), 500), Finish: finishMalformed}
	case e.Kind == model.ErrEmpty && e.Code == "length":
		return &model.Turn{Finish: model.FinishLength}
	}
	return nil
}

func (l *loop) request() model.Request {
	return model.Request{
		Model: l.c.ModelName, System: l.system, Messages: l.h.messages(), Tools: l.wire,
		MaxTokens: l.c.MaxTokens, Effort: l.c.Task.Effort, CacheKey: string(l.c.Run),
	}
}

// stream asks once. The text is what was shown of an answer that did not end.
func (l *loop) stream(ctx context.Context, r model.Request) (*model.Turn, string, error) {
	var whole strings.Builder
	text := l.deltas(ctx, func(s string) contract.ModelDelta { return contract.ModelDelta{Text: s} })
	thought := l.deltas(ctx, func(s string) contract.ModelDelta { return contract.ModelDelta{Reasoning: s} })
	var turn *model.Turn
	var failure error
	for chunk, err := range l.c.Model.Stream(ctx, r) {
		if err != nil {
			failure = err
			break
		}
		switch chunk.Kind {
		case model.ChunkText:
			whole.WriteString(chunk.Text)
			_, _ = text.Write([]byte(chunk.Text))
		case model.ChunkReasoning:
			_, _ = thought.Write([]byte(chunk.Text))
		case model.ChunkRetry:
			if err := l.retried(ctx, chunk.Retry); err != nil {
				return nil, "", errors.Join(err, text.stop(true), thought.stop(true))
			}
		case model.ChunkEnd:
			turn = chunk.Turn
		case model.ChunkCall, model.ChunkArguments:
		}
	}
	// The message stands in the log next, so what is not sent yet need not be.
	err := errors.Join(text.stop(turn != nil), thought.stop(turn != nil))
	if err != nil {
		return nil, "", err
	}
	return turn, whole.String(), failure
}

func (l *loop) deltas(ctx context.Context, as func(string) contract.ModelDelta) *coalescer {
	step := l.h.step
	return &coalescer{send: func(s string) error { return l.append(ctx, contract.NewEvent(step, as(s))) }}
}

func (l *loop) retried(ctx context.Context, r *model.Retry) error {
	l.usage.ModelRequests++
	p := contract.ModelRetry{Attempt: r.Attempt, InSeconds: r.After.Seconds(), Reason: "the request failed"}
	if r.Cause != nil {
		p.Reason = contract.CleanText(r.Cause.Error())
	}
	l.put(contract.NewEvent(l.h.step, p))
	return l.flush(ctx)
}

// mend prepares a second attempt where one makes sense.
func (l *loop) mend(ctx context.Context, e *model.Error, text string) (bool, error) {
	switch {
	case e.Kind == model.ErrContext:
		return l.shorten(ctx)
	case e.Emitted:
		l.interrupt(text, e.Error())
		return true, l.flush(ctx)
	}
	return false, nil
}

// interrupt keeps an answer that broke off: no call of it runs and it is no part of the history.
func (l *loop) interrupt(text, why string) {
	l.put(
		contract.NewEvent(l.h.step, contract.ModelMessage{
			Text: clip(contract.CleanText(text), eventBounds(maxMessageText)), Model: l.c.ModelName, Interrupted: true,
			ToolCalls: []contract.ToolCall{},
		}),
		contract.NewEvent(l.h.step, contract.ModelDiscarded{Reason: contract.CleanText(why)}),
	)
}

// discard is the end of a cancelled request.
func (l *loop) discard(ctx context.Context, text, why string) *Result {
	if text != "" {
		l.interrupt(text, why)
	}
	return l.cancelled(ctx)
}

// modelEnd says how a run ends whose model failed.
func modelEnd(e *model.Error) *Result {
	msg := contract.CleanText(e.Error())
	switch {
	case e.Credentials():
		r := failed(EndCredentials, contract.FailCredentials, "%s", msg)
		r.Failure.Hint = "set or renew the key of the provider"
		return r
	case e.Kind == model.ErrBudget:
		return failed(EndLimit, budgetCode(e.Code), "%s", msg)
	case e.Kind == model.ErrContext:
		r := failed(EndModel, contract.FailModel, "%s", msg)
		r.Failure.Reason = "context"
		r.Failure.Hint = "the prompt does not fit the model: choose one with a larger context, or make the task smaller"
		return r
	}
	r := failed(EndModel, contract.FailModel, "%s", msg)
	r.Failure.Reason = string(e.Kind)
	return r
}

func budgetCode(code string) contract.FailureCode {
	switch contract.Kind(code) {
	case contract.KindTokensExhausted:
		return contract.FailTokens
	case contract.KindCostExhausted:
		return contract.FailCost
	}
	return contract.FailModelRequests
}

// Bounds of a message in the log; an event has 256 KiB and JSON may double a text.
const (
	maxMessageText = 64 << 10
	maxArguments   = 100 << 10 // of all calls of a message
)

// messageOf turns an answer into its event: clean text, and calls that the log can hold.
func (l *loop) messageOf(t *model.Turn) contract.ModelMessage {
	m := contract.ModelMessage{
		Text: clip(contract.CleanText(t.Text), eventBounds(maxMessageText)), ToolCalls: []contract.ToolCall{},
		Reasoning: t.Reasoning, FinishReason: string(t.Finish), Model: t.Model,
		Usage: contract.ModelUsage{
			Input: t.Usage.Input, Output: t.Usage.Output, CacheRead: t.Usage.CacheRead,
			CacheWrite: t.Usage.CacheWrite, Reasoning: t.Usage.Reasoning, Known: t.Usage.Known,
		},
	}
	room := maxArguments
	for _, c := range t.Calls {
		call := contract.ToolCall{ID: c.ID, Name: contract.CleanText(c.Name), Arguments: c.Arguments, Bad: c.Bad, Extra: c.Extra}
		if len(call.Arguments) == 0 {
			call.Arguments = contract.MarshalJSON("")
			call.Bad = orElse(call.Bad, "the call has no arguments")
		}
		switch {
		case !utf8.Valid(call.Arguments):
			call.Arguments, call.Bad = contract.MarshalJSON(""), orElse(call.Bad, "the arguments are not valid UTF-8")
		case len(call.Arguments) > room:
			call.Arguments = contract.MarshalJSON("")
			call.Bad = orElse(call.Bad, fmt.Sprintf("the arguments of one turn are over %d KiB: write large files in pieces", maxArguments>>10))
		}
		room -= len(call.Arguments)
		m.ToolCalls = append(m.ToolCalls, call)
	}
	return m
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}
