package control

import (
	"github.com/rivumi/rivumi/internal/contract"
)

// Finish ends an attempt with the one terminal event of the run, the last of its log. What the
// runner reports is checked first (see the rules of judge): an ending that breaks them becomes a
// failure, never a success. Pending approvals are closed and the model capability is revoked in
// the same transaction. After a cancel was asked for, the run ends as cancelled whatever comes,
// and what came is kept as run.late_result. A run that has ended is KindRunFinished. A queued run
// can be ended as failed, with attempt 0: its start did not work.
func (c *Core) Finish(tx Tx, env Env, attempt int, e contract.Ending) (contract.Run, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return contract.Run{}, err
	}
	if !en.neverStarted(attempt, e) {
		if err := en.fence(attempt); err != nil {
			return contract.Run{}, err
		}
	}
	b, err := en.base()
	if err != nil {
		return contract.Run{}, err
	}
	e = en.c.judge(b.Task, e)
	if e, err = en.overrule(e); err != nil {
		return contract.Run{}, err
	}
	return en.finish(e)
}

func (en *entry) neverStarted(attempt int, e contract.Ending) bool {
	return en.h.Status == contract.Queued && attempt == en.h.Attempt && e.State == contract.Failed
}

// overrule lets a cancel, or a denied approval that must end the run, win over what the runner says.
func (en *entry) overrule(e contract.Ending) (contract.Ending, error) {
	switch {
	case en.h.Cancel && e.State != contract.Cancelled:
		late := contract.RunLateResult{State: e.State, Text: "the run was cancelled before its runner reported this end"}
		if e.Error != nil {
			late.Text += ": " + e.Error.Message
		}
		if err := en.tell(0, late); err != nil {
			return e, err
		}
		return contract.Ending{State: contract.Cancelled, Result: unclaimed(e.Result), Error: en.cancelled()}, nil
	case en.h.Cancel:
		if e.Error == nil || e.Error.Code != contract.FailPaths && e.Error.Code != contract.FailResult {
			e.Error = en.cancelled()
		}
		return e, nil
	case e.State == contract.Cancelled:
		return violation(e, contract.FailResult, "the runner reports a cancel that nobody asked for"), nil
	case en.h.Stop != "" && (e.Error == nil || e.Error.Code != en.h.Stop):
		return violation(e, en.h.Stop, "an approval was needed and nobody could answer"), nil
	}
	return e, nil
}

// finish writes the end: approvals closed, capability revoked, terminal event last.
func (en *entry) finish(e contract.Ending) (contract.Run, error) {
	if !en.h.Status.CanBecome(e.State) {
		return contract.Run{}, contract.Errorf(contract.KindConflict, "run is %s and cannot become %s", en.h.Status, e.State)
	}
	if err := en.closeApprovals("the run ended"); err != nil {
		return contract.Run{}, err
	}
	if err := en.revoke(); err != nil {
		return contract.Run{}, err
	}
	if err := drop(en.tx, prefixMessage); err != nil {
		return contract.Run{}, err
	}
	ended := contract.RunEnded{
		State: e.State, ExitCode: contract.ExitCode(e.State, e.Error),
		Result: e.Result, Error: e.Error, Usage: en.h.Usage,
	}
	fit(&ended)
	en.h.Status, en.h.EndedAt, en.h.Lease, en.h.Mail = e.State, &en.now, nil, 0
	if err := en.tell(0, ended); err != nil {
		return contract.Run{}, err
	}
	if err := put(en.tx, keyEnd, end{Result: ended.Result, Error: ended.Error}); err != nil {
		return contract.Run{}, err
	}
	if err := en.save(); err != nil {
		return contract.Run{}, err
	}
	return en.run()
}

// fit cuts what does not fit into one event; the whole result is an artifact of the run.
func fit(r *contract.RunEnded) {
	const room = contract.MaxEventBytes - 8<<10
	for len(contract.MarshalJSON(r)) > room {
		if r.Result == nil {
			r.Error = &contract.Failure{Code: r.Error.Code, Message: "the reason was too long to keep"}
			return
		}
		cut := *r.Result
		cut.Summary = short(cut.Summary, 8<<10)
		cut.ChangedFiles = cut.ChangedFiles[:len(cut.ChangedFiles)/2]
		cut.ChecksInputsChanged = cut.ChecksInputsChanged[:len(cut.ChecksInputsChanged)/2]
		cut.LargeAdditions = cut.LargeAdditions[:len(cut.LargeAdditions)/2]
		if len(cut.ChangedFiles) == 0 && len(r.Result.ChangedFiles) == 0 {
			cut.Checks, cut.Patch = nil, nil
		}
		if len(r.Result.Checks) == 0 && len(r.Result.ChangedFiles) == 0 {
			r.Result = nil
			continue
		}
		r.Result = &cut
	}
}

// Interrupt ends a running run whose owner's lease is over: as failed with code interrupted, or as
// cancelled where a cancel was asked for. While the lease lives it is KindConflict.
func (c *Core) Interrupt(tx Tx, env Env) (contract.Run, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return contract.Run{}, err
	}
	switch {
	case en.h.Status.Terminal():
		return contract.Run{}, finished()
	case en.h.Status != contract.Running:
		return contract.Run{}, contract.Errorf(contract.KindConflict, "run is %s", en.h.Status)
	case en.h.Lease != nil && env.Now.Before(en.h.Lease.Time):
		return contract.Run{}, contract.Errorf(contract.KindConflict, "owner %s still holds the run", en.h.Owner)
	}
	return en.interrupt()
}

func (en *entry) interrupt() (contract.Run, error) {
	if en.h.Cancel {
		return en.finish(contract.Ending{State: contract.Cancelled, Error: en.cancelled()})
	}
	return en.finish(contract.Ending{State: contract.Failed, Error: &contract.Failure{
		Code:    contract.FailInterrupted,
		Message: "what carried the run out is gone",
		Hint:    "resume the run to go on from its log",
	}})
}
