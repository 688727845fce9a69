package control

import (
	"slices"

	"github.com/rivumi/rivumi/internal/contract"
)

// MaxBatch is how many events one append takes.
const MaxBatch = 4096

// runnersTypes are what a runner may write. The other types are the core's own: a runner cannot
// forge a decision, a message of the user or an end.
var runnersTypes = []contract.EventType{
	contract.TypeWorkspaceReady, contract.TypeStepStarted, contract.TypeModelDelta, contract.TypeModelMessage,
	contract.TypeModelRetry, contract.TypeModelDiscarded, contract.TypeToolStarted, contract.TypeToolOutput,
	contract.TypeToolResult, contract.TypeDiffUpdated, contract.TypeCheckStarted, contract.TypeCheckResult,
	contract.TypeUsageUpdated, contract.TypeCompacted, contract.TypeNotice,
}

// Append stores events of the runner, all or none, and gives their stored lines. Type, step and
// data of an event count, the rest is the log's. Text is cleaned as api.md says. Deltas beyond the
// bounds of the log are left out, which a notice tells. A type that only the core writes is
// KindInvalid, an event above 256 KiB KindTooLarge, another attempt KindFenced.
func (c *Core) Append(tx Tx, env Env, attempt int, events ...contract.Event) ([][]byte, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return nil, err
	}
	if err := en.fence(attempt); err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, nil
	}
	if err := en.append(events); err != nil {
		return nil, err
	}
	return en.lines, en.save()
}

func (en *entry) append(events []contract.Event) error {
	if len(events) > MaxBatch {
		return contract.Errorf(contract.KindTooLarge, "%d events in one batch, more than %d", len(events), MaxBatch)
	}
	for _, e := range events {
		if err := en.take(e); err != nil {
			return err
		}
	}
	return en.trim()
}

// take checks, cleans, folds and stores one event of the runner.
func (en *entry) take(e contract.Event) error {
	if !slices.Contains(runnersTypes, e.Type) {
		return contract.Errorf(contract.KindInvalid, "events of type %q are not a runner's to write", contract.CleanText(string(e.Type[:min(len(e.Type), 64)])))
	}
	if e.Step < 0 {
		return contract.Errorf(contract.KindInvalid, "event %s has a negative step", e.Type)
	}
	if out, err := en.thin(e.Type); out || err != nil {
		return err
	}
	data, err := cleanData(e.Type, e.Data)
	if err != nil {
		return err
	}
	e.Data = data
	en.fold(e)
	return en.add(e)
}

// AppendClient is Append for a remote runner, which may repeat a batch whose answer it lost: what
// was stored before is skipped, and a batch that starts too late is KindClientSeqGap with the
// number expected next.
func (c *Core) AppendClient(tx Tx, env Env, attempt int, b Batch) (Appended, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return Appended{}, err
	}
	if err := en.fence(attempt); err != nil {
		return Appended{}, err
	}
	next := en.h.ClientSeq + 1
	switch {
	case b.FirstClientSeq < 1 || b.FirstClientSeq > contract.Unbounded:
		return Appended{}, contract.Errorf(contract.KindInvalid, "firstClientSeq must be 1 to 2^53")
	case b.FirstClientSeq > next:
		gap := contract.Errorf(contract.KindClientSeqGap, "batch starts at %d, %d is expected next", b.FirstClientSeq, next)
		gap.Next = next
		return Appended{}, gap
	}
	known := next - b.FirstClientSeq
	if known >= int64(len(b.Events)) {
		return Appended{NextClientSeq: next, LastSeq: en.h.LastSeq, CancelRequested: en.h.Cancel}, nil
	}
	fresh := b.Events[known:]
	if err := en.append(fresh); err != nil {
		return Appended{}, err
	}
	en.h.ClientSeq += int64(len(fresh))
	return Appended{NextClientSeq: en.h.ClientSeq + 1, LastSeq: en.h.LastSeq, CancelRequested: en.h.Cancel}, en.save()
}

// fold keeps the totals of the run. Numbers only grow, whatever a runner claims.
func (en *entry) fold(e contract.Event) {
	u := &en.h.Usage
	switch e.Type {
	case contract.TypeStepStarted:
		if s, ok := contract.As[contract.StepStarted](e); ok {
			u.Steps = count(u.Steps, s.Step)
		}
	case contract.TypeModelMessage:
		m, ok := contract.As[contract.ModelMessage](e)
		if !ok {
			return
		}
		if !en.h.Metered {
			u.ModelRequests = count(u.ModelRequests, u.ModelRequests+1)
		}
		u.Unknown = u.Unknown || !m.Usage.Known
		u.InputTokens = plus(u.InputTokens, m.Usage.Input)
		u.OutputTokens = plus(u.OutputTokens, m.Usage.Output)
		u.CachedTokens = plus(u.CachedTokens, m.Usage.CacheRead)
	case contract.TypeUsageUpdated:
		if t, ok := contract.As[contract.UsageUpdated](e); ok {
			raise(u, t.Usage)
		}
	case contract.TypeWorkspaceReady:
		if w, ok := contract.As[contract.WorkspaceReady](e); ok {
			en.h.BaseSHA, en.h.Sandbox = short(w.BaseSHA, 64), short(w.Sandbox, 64)
		}
	}
}

// raise lifts totals to those of a usage.updated event, which are the run's, not an addition.
func raise(u *contract.Usage, to contract.Usage) {
	u.Steps = count(u.Steps, to.Steps)
	u.ModelRequests = count(u.ModelRequests, to.ModelRequests)
	u.InputTokens = min(max(u.InputTokens, to.InputTokens), contract.Unbounded)
	u.OutputTokens = min(max(u.OutputTokens, to.OutputTokens), contract.Unbounded)
	u.CachedTokens = min(max(u.CachedTokens, to.CachedTokens), contract.Unbounded)
	u.Unknown = u.Unknown || to.Unknown
	if to.CostUSD != nil && *to.CostUSD >= 0 && (u.CostUSD == nil || *to.CostUSD > *u.CostUSD) {
		u.CostUSD = to.CostUSD
	}
}

// plus adds a count of a model's answer without going down or over the bound of a JSON number.
func plus(a, b int64) int64 { return min(a+min(max(b, 0), contract.Unbounded), contract.Unbounded) }

// maxCount bounds steps and requests, so that a hostile total cannot overflow them.
const maxCount = 1 << 30

func count(a, b int) int { return min(max(a, b), maxCount) }
