package agent

import (
	"context"
	"encoding/json"

	"github.com/rivumi/rivumi/internal/contract"
)

// interruptedText answers a call that an earlier attempt began and never finished.
const interruptedText = "interrupted: the runner stopped while this ran; its effects are unknown; check before repeating"

// resume goes on from the log of earlier attempts: it answers what was left open, and where the last
// answer was an end that was not checked, checks it.
func (l *loop) resume(ctx context.Context) (*Result, error) {
	if len(l.c.History) == 0 {
		return nil, nil
	}
	grants := map[string]contract.SessionScope{}
	for _, e := range l.c.History {
		l.h.apply(e)
		l.recall(e, grants)
	}
	l.base, l.baseRequests = l.h.steps, l.usage.ModelRequests
	l.unpriced = l.usage.ModelRequests > 0 && l.usage.CostUSD == nil
	l.lastSize = l.h.size()
	l.h.anew = true
	if len(l.h.open) > 0 {
		return l.finishCalls(ctx)
	}
	if mail, err := l.takeMail(ctx); err != nil || mail || !l.h.ended() {
		return l.mailed(ctx, err)
	}
	l.idle = 1
	l.summary = l.h.items[len(l.h.items)-1].msg.Text
	return l.verify(ctx)
}

// recall takes from an event what the history does not hold: totals, and grants for the session,
// which last as long as the run.
func (l *loop) recall(e contract.Event, grants map[string]contract.SessionScope) {
	switch e.Type {
	case contract.TypeUsageUpdated:
		if p, ok := contract.As[contract.UsageUpdated](e); ok {
			l.usage = p.Usage
		}
	case contract.TypeStepStarted:
		l.usage.Steps = max(l.usage.Steps, l.h.steps)
	case contract.TypeApprovalRequested:
		if p, ok := contract.As[contract.ApprovalRequested](e); ok {
			grants[p.Approval.ID] = p.Approval.SessionScope
		}
	case contract.TypeApprovalDecided:
		p, ok := contract.As[contract.ApprovalDecided](e)
		if ok && p.Decision.Verdict == contract.AllowSession && grants[p.ID].Pattern != "" {
			l.c.Judge.Grant(grants[p.ID])
		}
	}
}

// finishCalls answers the calls of the last message: what was never started and what only reads runs
// now; what was started and may have changed something is reported interrupted, never run again.
func (l *loop) finishCalls(ctx context.Context) (*Result, error) {
	calls := l.h.unanswered()
	interrupted := map[string]bool{}
	for _, c := range calls {
		if s, ok := l.h.started[c.ID]; ok && !l.replaySafe(s) {
			interrupted[c.ID] = true
		}
	}
	return l.runCalls(ctx, calls, interrupted)
}

// replaySafe reports whether a started call may run again: a read, or a change of a file that is
// still what it was before.
func (l *loop) replaySafe(s contract.ToolStarted) bool {
	switch s.Name {
	case toolRead:
		return true
	case toolEdit, toolWrite:
		var a struct {
			Path string `json:"path"`
		}
		if json.Unmarshal(s.Arguments, &a) != nil || s.PreHash == "" {
			return false
		}
		hash, err := l.hashOf(a.Path)
		return err == nil && hash == s.PreHash
	}
	return false
}
