package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

// Answers without a call in a row after which the loop stops asking.
const (
	maxIdle       = 3 // empty or cut off
	maxIdleChecks = 2 // while a check fails
)

// settle follows an answer without calls. nil means that the loop goes on: with a message of the
// user, after a failed check, or because the answer was no end.
func (l *loop) settle(ctx context.Context, m contract.ModelMessage) (*Result, error) {
	l.idle++
	finish := model.Finish(m.FinishReason)
	switch {
	case finish == model.FinishRefusal || finish == model.FinishFilter:
		r := failed(EndModel, contract.FailModel, "the model refused to go on: %s", cutLine(firstLine(m.Text), 300))
		r.Failure.Reason = string(finish)
		return r, nil
	case finish == model.FinishLength || finish == model.FinishPause || finish == finishMalformed || strings.TrimSpace(m.Text) == "":
		if l.idle < maxIdle {
			return nil, nil
		}
		r := failed(EndModel, contract.FailModel, "the model gave %d empty or cut answers in a row", l.idle)
		r.Failure.Reason = "empty"
		r.Failure.Hint = "the context or the output limit of the model may be too small"
		return r, nil
	}
	return l.verify(ctx)
}

// verify runs the checks of a finished answer.
func (l *loop) verify(ctx context.Context) (*Result, error) {
	if err := l.flush(ctx); err != nil {
		return nil, err
	}
	if mail, err := l.takeMail(ctx); err != nil || mail {
		return l.mailed(ctx, err)
	}
	if err := l.runChecks(ctx); err != nil {
		return l.orCancelled(ctx, err)
	}
	if ctx.Err() != nil {
		return l.cancelled(ctx), nil
	}
	if mail, err := l.takeMail(ctx); err != nil || mail {
		return l.mailed(ctx, err)
	}
	if !l.checkFails {
		return l.finished(), nil
	}
	if l.idle >= maxIdleChecks {
		return l.checksFailed("the agent made no further attempt"), nil
	}
	return nil, nil
}

// mailed lets the loop go on with the user's message.
func (l *loop) mailed(ctx context.Context, err error) (*Result, error) {
	if err != nil {
		return l.orCancelled(ctx, err)
	}
	l.idle = 0
	return nil, nil
}

func (l *loop) runChecks(ctx context.Context) error {
	if l.c.Check == nil {
		return nil
	}
	l.round++
	l.h.checkStarted()
	checks, err := l.c.Check(ctx, l.round)
	if err != nil {
		return fmt.Errorf("run the checks: %w", err)
	}
	l.checks, l.checkFails = checks, false
	l.h.checks = append(l.h.checks, checks...)
	for _, c := range checks {
		l.checkFails = l.checkFails || !c.Passed
	}
	return nil
}

// finished is the end of a run whose checks pass, or that has none. Where nothing was checked and
// nothing was done because nobody allowed it, that is no success.
func (l *loop) finished() *Result {
	if len(l.checks) == 0 && !l.acted && l.unanswered+l.refused > 0 {
		return l.deniedEnd("no call that could change anything was allowed")
	}
	return &Result{End: EndFinished}
}

// checksFailed is the end of a run whose checks fail; a denied approval that stood in the way is
// named instead.
func (l *loop) checksFailed(why string) *Result {
	if l.unanswered+l.refused > 0 {
		return l.deniedEnd("the checks fail, and " + why)
	}
	return failed(EndChecks, contract.FailChecks, "the checks fail, and %s", why)
}

func (l *loop) deniedEnd(why string) *Result {
	r := failed(EndDenied, contract.FailApproval, "%d approvals were denied and %d got no answer; %s", l.refused, l.unanswered, why)
	r.Failure.Hint = "allow what is needed with --allow RULE or a wider --approve, or attach to answer"
	if l.unanswered > 0 {
		r.Failure.Reason = "no_answer"
	}
	return r
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
