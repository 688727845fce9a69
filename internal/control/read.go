package control

import (
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// Read gives the run as it stands.
func (c *Core) Read(tx Tx) (contract.Run, error) {
	en, err := c.open(tx, Env{})
	if err != nil {
		return contract.Run{}, err
	}
	return en.run()
}

// Task gives the task as it was asked, its inline files with it.
func (c *Core) Task(tx Tx) (contract.Task, error) {
	var t contract.Task
	found, err := get(tx, keyTask, &t)
	if err == nil && !found {
		err = notFound()
	}
	return t, err
}

// Status is what a host needs to know of a run besides the Run.
type Status struct {
	Principal  string
	From       contract.RunID // the run that this one goes on from, "" for none
	Owner      string
	LeaseUntil time.Time            // zero while not running
	MustStop   contract.FailureCode // the run can end with this or as cancelled only, "" for nothing
}

// StatusOf gives owner, lease, principal and origin.
func (c *Core) StatusOf(tx Tx) (Status, error) {
	en, err := c.open(tx, Env{})
	if err != nil {
		return Status{}, err
	}
	b, err := en.base()
	if err != nil {
		return Status{}, err
	}
	s := Status{Principal: b.Principal, From: b.From, Owner: en.h.Owner, MustStop: en.h.Stop}
	if en.h.Lease != nil {
		s.LeaseUntil = en.h.Lease.Time
	}
	return s, nil
}

// Delete removes every record of an ended run; one that has not ended is KindRunNotFinished. The
// host removes the artifacts' bytes after it has committed.
func (c *Core) Delete(tx Tx) error {
	en, err := c.open(tx, Env{})
	if err != nil {
		return err
	}
	if !en.h.Status.Terminal() {
		return contract.Errorf(contract.KindRunNotFinished, "run is %s", en.h.Status)
	}
	return drop(tx, "")
}
