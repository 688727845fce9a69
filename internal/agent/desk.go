package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// desk holds the open questions of one turn. All that can be asked is asked at once, so that
// everything pending is visible together, while the calls run in order. Each question waits in a
// goroutine of its own; close waits for them all.
type desk struct {
	l       *loop
	jobs    []*job
	ctx     context.Context // of the questions
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	answers chan reply
}

// asking is an open or answered question of a call.
type asking struct {
	id     string
	scope  contract.SessionScope
	hash   string // file tools: the state of the file the shown change starts from
	want   string // and what it would become
	cancel context.CancelFunc
}

type reply struct {
	j   *job
	id  string
	d   contract.Decision
	err error
}

func newDesk(ctx context.Context, l *loop, jobs []*job) *desk {
	d := &desk{l: l, jobs: jobs, answers: make(chan reply, len(jobs))}
	d.ctx, d.cancel = context.WithCancel(ctx)
	return d
}

func (d *desk) close() {
	d.cancel()
	d.wg.Wait()
}

// openEarly asks for every call whose question does not depend on a call before it.
func (d *desk) openEarly(ctx context.Context) error {
	for i, j := range d.jobs {
		if j.refusal != nil || j.cleared || d.depends(i) {
			continue
		}
		if err := d.open(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// depends reports whether a call before may change the file that a file call would show as a diff.
func (d *desk) depends(i int) bool {
	j := d.jobs[i]
	return j.path != "" && slices.ContainsFunc(d.jobs[:i], func(b *job) bool {
		return b.refusal == nil && b.tool.name != toolRead && (b.tool.name == toolBash || b.path == j.path)
	})
}

// open asks for one call. A change that could not be made is not asked for, and neither is anything
// before the message that wants it is durable.
func (d *desk) open(ctx context.Context, j *job) error {
	now := d.l.c.Now()
	a := contract.Approval{
		ID: newApprovalID(), CallID: j.call.ID, Kind: j.judgement.Kind, Title: contract.CleanText(j.judgement.Title),
		Reason: contract.CleanText(j.judgement.Reason), Risk: j.judgement.Risk, SessionScope: j.judgement.Scope,
		RequestedAt: contract.At(now),
		ExpiresAt:   contract.At(now.Add(time.Duration(d.l.c.Task.Approval.Timeout()) * time.Second)),
	}
	j.asked = &asking{id: a.ID, scope: a.SessionScope}
	switch j.tool.name {
	case toolBash:
		a.Command = contract.Asked{Script: contract.CleanText(j.script), Cwd: "."}
	case toolRead:
		a.Command = contract.Asked{Path: contract.CleanText(j.path)}
	default:
		plan := d.l.plan(j)
		if plan.err != nil {
			j.asked, j.refusal = nil, plan.result()
			return nil
		}
		j.asked.hash, j.asked.want = plan.hash, hashBytes(plan.after)
		a.Command = contract.Asked{Path: contract.CleanText(j.path), Diff: plan.diff}
	}
	if err := d.l.flush(ctx); err != nil {
		return err
	}
	actx, cancel := context.WithCancel(d.ctx)
	j.asked.cancel = cancel
	d.wg.Go(func() {
		defer cancel()
		decision, err := d.l.c.Gate.Ask(actx, a)
		select {
		case d.answers <- reply{j: j, id: a.ID, d: decision, err: err}:
		case <-d.ctx.Done():
		}
	})
	return nil
}

func newApprovalID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return contract.RandomID("apr_", b[:])
}

// wait stays until the call is cleared or refused.
func (d *desk) wait(ctx context.Context, j *job) (*Result, error) {
	if j.asked == nil {
		if err := d.open(ctx, j); err != nil {
			return nil, err
		}
	}
	for j.refusal == nil && !j.cleared {
		select {
		case r := <-d.answers:
			if end, err := d.take(ctx, r); end != nil || err != nil {
				return end, err
			}
		case <-ctx.Done():
			return d.l.cancelled(ctx), nil
		}
	}
	return nil, nil
}

// take notes one answer. The answer to a question that was withdrawn is none.
func (d *desk) take(ctx context.Context, r reply) (*Result, error) {
	j := r.j
	if j.cleared || j.refusal != nil || j.asked == nil || j.asked.id != r.id {
		return nil, nil
	}
	if r.err != nil {
		if ctx.Err() != nil {
			return d.l.cancelled(ctx), nil
		}
		return nil, fmt.Errorf("ask for an approval: %w", r.err)
	}
	switch {
	case r.d.Verdict == contract.CancelRun:
		return &Result{End: EndCancelled, CancelledBy: orElse(r.d.By, "a watcher")}, nil
	case r.d.Verdict.Allows():
		j.cleared = true
		if r.d.Verdict == contract.AllowSession && j.asked.scope.Pattern != "" {
			d.l.c.Judge.Grant(j.asked.scope)
			d.clearTwins()
		}
	case r.d.NoAnswer():
		d.l.unanswered++
		j.refusal = noAnswer(r.d)
		if d.l.c.Task.Approval.Unattended == contract.UnattendedStop {
			return d.l.deniedEnd("the run stops when nobody answers"), nil
		}
	default:
		d.l.denied++
		if r.d.By != contract.ByPolicy {
			d.l.refused++
		}
		j.refusal = deniedBy(r.d)
	}
	return nil, nil
}

// clearTwins lets calls run that a grant just given covers, and withdraws their questions.
func (d *desk) clearTwins() {
	for _, o := range d.jobs {
		if o.refusal != nil || o.cleared {
			continue
		}
		d.l.judge(o)
		if (o.cleared || o.refusal != nil) && o.asked != nil {
			o.asked.cancel()
		}
	}
}

func noAnswer(d contract.Decision) *contract.ToolResult {
	why := "nobody answered the approval request in time"
	if d.By == contract.ByNobody {
		why = "nobody is there to answer the approval request"
	}
	return &contract.ToolResult{
		ExitCode: 1, IsError: true, Denied: true,
		Text: "no answer: not run, as it needs an approval and " + why + ". The user did not refuse it. Go on without it where you can.",
	}
}

func deniedBy(d contract.Decision) *contract.ToolResult {
	text := "denied by the user: not run."
	if d.By == contract.ByPolicy {
		text = "denied by the policy of this run: not run."
	}
	if note := contract.CleanText(d.Note); note != "" {
		text += " Their note: " + note
	}
	return &contract.ToolResult{ExitCode: 1, IsError: true, Denied: true, Text: text}
}

// stale reports whether a change is not the one that was shown. What was never asked for is not stale.
func (a *asking) stale(p plan) bool {
	return a != nil && a.cancel != nil && (a.hash != p.hash || a.want != hashBytes(p.after))
}
