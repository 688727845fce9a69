package agent

import (
	"context"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

// limit says whether another step may begin; nil when it may.
func (l *loop) limit(ctx context.Context) *Result {
	if ctx.Err() != nil {
		return l.cancelled(ctx)
	}
	lim := l.c.Task.Limits
	var r *Result
	switch {
	case lim.MaxSteps > 0 && l.h.steps-l.base >= lim.MaxSteps:
		r = failed(EndLimit, contract.FailSteps, "the limit of %d steps is reached", lim.MaxSteps)
	case l.requestsSpent():
		r = failed(EndLimit, contract.FailModelRequests, "the limit of %d model requests is reached", lim.ModelRequests())
	case lim.MaxOutputTokens > 0 && l.usage.OutputTokens >= lim.MaxOutputTokens:
		r = failed(EndLimit, contract.FailTokens, "the limit of %d output tokens is reached", lim.MaxOutputTokens)
	case lim.MaxCostUSD > 0 && l.usage.CostUSD != nil && *l.usage.CostUSD >= lim.MaxCostUSD:
		r = failed(EndLimit, contract.FailCost, "the cost limit of %.2f USD is reached", lim.MaxCostUSD)
	default:
		return nil
	}
	if l.checkFails {
		// The model had said that it was done: the checks are what kept the run from succeeding.
		return l.checksFailed(r.Failure.Message)
	}
	r.Failure.Hint = "raise the limit, or resume the run"
	return r
}

// requestsSpent counts per attempt like the steps, as its default follows them; the gateway of a
// server holds the budget of the whole run.
func (l *loop) requestsSpent() bool {
	return l.usage.ModelRequests-l.baseRequests >= l.c.Task.Limits.ModelRequests()
}

// count adds the usage of an answer and gives the event that tells the totals.
func (l *loop) count(u model.Usage) contract.Event {
	l.usage.ModelRequests++
	if !u.Known {
		// Bytes over four stand in for the limits; the totals say that they are not exact.
		l.usage.Unknown = true
		u.Output = l.h.size() - l.lastSize
		u.Output = max(0, u.Output/4)
	}
	l.usage.InputTokens += u.Input + u.CacheWrite
	l.usage.CachedTokens += u.CacheRead
	l.usage.OutputTokens += u.Output
	l.price(u)
	l.lastInput, l.lastSize = 0, l.h.size()
	if u.Known {
		l.lastInput = u.Input + u.CacheRead + u.CacheWrite + u.Output
	}
	return contract.NewEvent(l.h.step, contract.UsageUpdated{Usage: l.usage})
}

// price adds the cost of an answer. Once one price is unknown the total is.
func (l *loop) price(u model.Usage) {
	if l.unpriced {
		return
	}
	if l.c.Price != nil && u.Known {
		if usd, ok := l.c.Price(u); ok {
			total := usd
			if l.usage.CostUSD != nil {
				total += *l.usage.CostUSD
			}
			l.usage.CostUSD = &total
			return
		}
	}
	l.unpriced, l.usage.CostUSD = true, nil
}

// guard notices an agent that repeats itself: the same call with the same result.
type guard struct {
	recent []string
	seen   map[string]bool
}

// Bounds of repetition.
const (
	guardWindow = 12
	guardTell   = 3
	guardStop   = 5
)

func newGuard() *guard { return &guard{seen: map[string]bool{}} }

// note records a finished call and gives how often the same one came with the same result lately.
// progress says that it changed a file: a change never made before starts the count anew, so
// that a test run again after each edit is no repetition.
func (g *guard) note(key string, progress bool) int {
	if progress && !g.seen[key] {
		g.recent = g.recent[:0]
	}
	g.seen[key] = true
	g.recent = append(g.recent, key)
	if len(g.recent) > guardWindow {
		g.recent = g.recent[1:]
	}
	n := 0
	for _, k := range g.recent {
		if k == key {
			n++
		}
	}
	return n
}
