package control

import (
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// maxOwner bounds the name of an owner, in bytes.
const maxOwner = 200

// Claim moves a queued run to running for one owner and starts the next attempt (Run.Attempt),
// which every later write must name. A run that is running is KindConflict, an ended one
// KindRunFinished. The owner's name is shown in the log and must not hold a secret.
func (c *Core) Claim(tx Tx, env Env, owner string, lease time.Duration) (contract.Run, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return contract.Run{}, err
	}
	switch {
	case lease <= 0:
		return contract.Run{}, contract.Errorf(contract.KindInvalid, "lease must be longer than zero")
	case en.h.Status.Terminal():
		return contract.Run{}, finished()
	case !en.h.Status.CanBecome(contract.Running):
		return contract.Run{}, contract.Errorf(contract.KindConflict, "run is already claimed")
	}
	until := later(en.now, lease)
	en.h.Status, en.h.Owner, en.h.Lease = contract.Running, short(owner, maxOwner), &until
	en.h.Attempt++
	en.h.ClientSeq, en.h.StartedAt = 0, &en.now
	if err := en.tell(0, contract.RunStarted{Attempt: en.h.Attempt, Owner: en.h.Owner}); err != nil {
		return contract.Run{}, err
	}
	if err := en.save(); err != nil {
		return contract.Run{}, err
	}
	return en.run()
}

// Renew extends the lease of an attempt and says whether a cancel was asked for; it never shortens
// a lease and takes no messages.
func (c *Core) Renew(tx Tx, env Env, attempt int, lease time.Duration) (Pulse, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return Pulse{}, err
	}
	if err := en.fence(attempt); err != nil {
		return Pulse{}, err
	}
	en.renew(lease)
	if err := en.save(); err != nil {
		return Pulse{}, err
	}
	return en.pulse(), nil
}

func (en *entry) renew(lease time.Duration) {
	until := later(en.now, lease)
	if en.h.Lease == nil || until.After(en.h.Lease.Time) {
		en.h.Lease = &until
	}
}

func (en *entry) pulse() Pulse {
	p := Pulse{CancelRequested: en.h.Cancel || en.h.Stop != "", Reason: en.h.CancelReason, Messages: []contract.Message{}}
	if en.h.Stop != "" && p.Reason == "" {
		p.Reason = string(en.h.Stop)
	}
	if en.h.Lease != nil {
		p.LeaseUntil = *en.h.Lease
	}
	return p
}
