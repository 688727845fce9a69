package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

// Run drives the model until the task ends, and says how. It keeps to the limits of the task, leaves
// exactly one result for each call in the log, and starts no goroutine that outlives it. The error
// is for what is not the task's own end: a log that cannot be written, a hook that failed. When ctx
// ends, Run comes back within a second (and the grace of a running command) with EndCancelled, or
// with EndLimit and wall_time_exceeded when its cause is context.DeadlineExceeded.
//
// Steps and model requests are limited per attempt, so that a run that hit its limit can be resumed;
// tokens and cost are limited over all attempts.
//
// Appends are few, as each is a disk flush. A step without approvals and with n calls makes n + 1:
// the message with its usage and the start of the first call; each result with the start of the next
// call; the last result with what changed and the start of the next step. Streamed text comes on top.
func Run(ctx context.Context, c Config) (Result, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	tools := pick(c.Tools)
	l := &loop{
		c: c, tools: tools, system: systemPrompt(tools, c.Instructions), wire: wireTools(tools),
		h: newHistory(firstMessage(c.Task, c.TreeNote)), guard: newGuard(),
	}
	end, err := l.drive(ctx)
	if flushed := l.flush(ctx); err == nil {
		err = flushed
	}
	if err != nil {
		return l.result(Result{}), err
	}
	return l.result(*end), nil
}

// loop is one attempt. Everything but append runs in the goroutine of Run.
type loop struct {
	c      Config
	tools  []tool
	system string
	wire   []model.Tool
	h      *history
	guard  *guard

	mu    sync.Mutex       // one append at a time: streamed text comes from timers and commanders
	queue []contract.Event // folded, to be written with the next flush

	base         int // steps of earlier attempts
	baseRequests int
	usage        contract.Usage
	unpriced     bool
	lastInput    int64 // tokens of the last request as the provider counted them, 0 for unknown
	lastSize     int64 // bytes of the history then
	summaryFail  int

	round      int // of checks
	checks     []contract.CheckFinished
	checkFails bool // the last round failed and nothing was tried since
	idle       int  // answers without a call in a row
	summary    string
	denied     int // by the policy or a person
	refused    int // by a person
	unanswered int
	acted      bool // a call that may change the tree ran and succeeded
}

// drive runs steps until one says how it ends.
func (l *loop) drive(ctx context.Context) (*Result, error) {
	end, err := l.resume(ctx)
	for end == nil && err == nil {
		end, err = l.oneStep(ctx)
	}
	return end, err
}

func (l *loop) oneStep(ctx context.Context) (*Result, error) {
	if end := l.limit(ctx); end != nil {
		return end, nil
	}
	if err := l.openStep(ctx); err != nil {
		return l.orCancelled(ctx, err)
	}
	if end, err := l.compact(ctx); end != nil || err != nil {
		return end, err
	}
	turn, end, err := l.ask(ctx)
	if end != nil || err != nil {
		return end, err
	}
	msg := l.messageOf(turn)
	l.put(contract.NewEvent(l.h.step, msg), l.count(turn.Usage))
	if len(msg.ToolCalls) > 0 {
		l.idle = 0
		return l.callAll(ctx, msg.ToolCalls)
	}
	l.summary = msg.Text
	return l.settle(ctx, msg)
}

// openStep takes the user's messages and starts a step, in one append with what is queued.
func (l *loop) openStep(ctx context.Context) error {
	if _, err := l.takeMail(ctx); err != nil {
		return err
	}
	started := contract.StepStarted{Step: l.h.step + 1, Max: l.base + l.c.Task.Limits.MaxSteps}
	for _, m := range l.h.mail {
		started.Messages = append(started.Messages, m.ID)
	}
	l.usage.Steps++
	l.put(contract.NewEvent(started.Step, started))
	return l.flush(ctx)
}

// takeMail reports whether there is anything the model was not told yet.
func (l *loop) takeMail(ctx context.Context) (bool, error) {
	if l.c.Mailbox != nil {
		mail, err := l.c.Mailbox.Take(ctx)
		if err != nil {
			return false, fmt.Errorf("take messages: %w", err)
		}
		for _, m := range mail {
			l.h.offer(m)
		}
	}
	return len(l.h.mail) > 0, nil
}

// put folds events into the history and queues them for the next flush.
func (l *loop) put(events ...contract.Event) {
	for _, e := range events {
		l.h.apply(e)
	}
	l.queue = append(l.queue, events...)
}

// flush makes what is queued durable.
func (l *loop) flush(ctx context.Context) error {
	if len(l.queue) == 0 {
		return nil
	}
	events := l.queue
	l.queue = nil
	return l.append(ctx, events...)
}

// Deadlines of an append. It does not end with ctx: what happened must stand in the log, and an
// append that was cut off would leave it open whether it does.
const (
	appendWait      = 30 * time.Second
	appendWaitAtEnd = 5 * time.Second
)

func (l *loop) append(ctx context.Context, events ...contract.Event) error {
	wait := appendWait
	if ctx.Err() != nil {
		wait = appendWaitAtEnd
	}
	actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.c.Sink.Append(actx, events...); err != nil {
		return fmt.Errorf("append %s: %w", events[0].Type, err)
	}
	return nil
}

// orCancelled turns an error that came of the end of ctx into that end.
func (l *loop) orCancelled(ctx context.Context, err error) (*Result, error) {
	if ctx.Err() != nil {
		return l.cancelled(ctx), nil
	}
	return nil, err
}

// cancelled is the end that ctx asks for.
func (l *loop) cancelled(ctx context.Context) *Result {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return &Result{End: EndLimit, Failure: &contract.Failure{
			Code:    contract.FailWallTime,
			Message: fmt.Sprintf("the run took longer than %d seconds", l.c.Task.Limits.WallTimeSeconds),
			Hint:    "raise the wall time, or resume the run",
		}}
	}
	return &Result{End: EndCancelled}
}

// result adds what is known at any end.
func (l *loop) result(r Result) Result {
	r.Usage, r.Checks, r.Denied, r.Unanswered = l.usage, l.checks, l.denied, l.unanswered
	r.Summary = contract.CleanText(l.summary)
	return r
}

func failed(end End, code contract.FailureCode, format string, args ...any) *Result {
	return &Result{End: end, Failure: &contract.Failure{Code: code, Message: fmt.Sprintf(format, args...)}}
}
