package control

import "github.com/rivumi/rivumi/internal/contract"

// MaxReason bounds the reason of a cancel, in bytes.
const MaxReason = 1000

// Cancel asks for the end of the run. A queued run ends at once, a running one is told (and its
// Run.CancelRequested set), one that has ended or was asked before is given back unchanged.
func (c *Core) Cancel(tx Tx, env Env, by, reason string) (contract.Run, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return contract.Run{}, err
	}
	if en.h.Status.Terminal() || en.h.Cancel {
		return en.run()
	}
	by, reason = short(by, maxOwner), short(reason, MaxReason)
	if en.h.Status == contract.Queued {
		en.h.Cancel, en.h.CancelBy, en.h.CancelReason = true, by, reason
		return en.finish(contract.Ending{State: contract.Cancelled, Error: en.cancelled()})
	}
	if err := en.requestCancel(by, reason); err != nil {
		return contract.Run{}, err
	}
	if err := en.save(); err != nil {
		return contract.Run{}, err
	}
	return en.run()
}

// requestCancel notes and tells that somebody asked for the end. Only the first one is told.
func (en *entry) requestCancel(by, reason string) error {
	if en.h.Cancel {
		return nil
	}
	en.h.Cancel, en.h.CancelBy, en.h.CancelReason = true, by, reason
	return en.tell(0, contract.RunCancelRequested{By: by, Reason: reason})
}

// cancelled is why a cancelled run ended.
func (en *entry) cancelled() *contract.Failure {
	f := &contract.Failure{Code: contract.FailCancelled, Reason: en.h.CancelReason, Message: "cancelled"}
	if en.h.CancelBy != "" {
		f.Message = "cancelled by " + en.h.CancelBy
	}
	return f
}
