package control

import (
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// Alarm does what is due: it denies approvals whose time is over, and ends a run whose lease is
// over or whose wall time and grace have passed. It is safe to call at any time and never an error
// for a run that has ended. The effects carry the next alarm.
func (c *Core) Alarm(tx Tx, env Env) ([]Effect, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return nil, err
	}
	if en.h.Status != contract.Running {
		return nil, nil
	}
	b, err := en.base()
	if err != nil {
		return nil, err
	}
	before, limit := en.h.LastSeq, en.deadline(b.Task.Limits)
	switch {
	case en.h.Lease != nil && !env.Now.Before(en.h.Lease.Time):
		_, err = en.interrupt()
	case !env.Now.Before(limit):
		_, err = en.overdue()
	default:
		if _, err = en.expire(); err == nil && en.h.LastSeq > before {
			err = en.save()
		}
	}
	if err != nil {
		return nil, err
	}
	var out []Effect
	if en.h.LastSeq > before {
		out = append(out, Notify{Run: en.h.ID, LastSeq: en.h.LastSeq})
	}
	if en.h.Status.Terminal() {
		return append(out, StopRun{Run: en.h.ID, Kill: true, Reason: "the run has ended"}), nil
	}
	return append(out, SetAlarm{Run: en.h.ID, At: en.next(limit)}), nil
}

// deadline is when a run that its own runner has not ended is ended by the control plane.
func (en *entry) deadline(l contract.Limits) time.Time {
	return en.h.StartedAt.Add(time.Duration(l.WallTimeSeconds+2*contract.GraceSeconds) * time.Second)
}

// next is the first moment at which something is due.
func (en *entry) next(limit time.Time) time.Time {
	at := limit
	if en.h.Lease != nil && en.h.Lease.Before(at) {
		at = en.h.Lease.Time
	}
	for _, w := range en.h.Pending {
		if w.At.Before(at) {
			at = w.At.Time
		}
	}
	return at
}

func (en *entry) overdue() (contract.Run, error) {
	if en.h.Cancel {
		return en.finish(contract.Ending{State: contract.Cancelled, Error: en.cancelled()})
	}
	return en.finish(contract.Ending{State: contract.Failed, Error: &contract.Failure{
		Code: contract.FailWallTime, Message: "the run went on past its wall time and grace",
	}})
}

// RunExited tells that the box of an attempt has ended. Where no result has been reported, the run
// ends with the failure given; an ended run, or another attempt's, is left alone.
func (c *Core) RunExited(tx Tx, env Env, attempt int, f contract.Failure) ([]Effect, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return nil, err
	}
	if en.fence(attempt) != nil {
		return nil, nil
	}
	run, err := c.Finish(tx, env, attempt, contract.Ending{State: contract.Failed, Error: &f})
	if err != nil {
		return nil, err
	}
	return []Effect{Notify{Run: run.ID, LastSeq: run.LastSeq}, StopRun{Run: run.ID, Kill: true, Reason: "the box has ended"}}, nil
}
