package host

import (
	"context"
	"errors"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

// OpenSocketForTest opens the socket before the first run does.
func (s *Service) OpenSocketForTest(ctx context.Context) error { return s.accepting(ctx) }

// WithGrace gives the options another grace.
func (o Options) WithGrace(d time.Duration) Options {
	o.grace = d
	return o
}

// OwnerAnswers reports whether the link goes over the owner's socket.
func (l *Link) OwnerAnswers() bool { return l.remote != nil }

// PlantQueuedForTest stores a queued run that belongs to the owner of another run.
func (s *Service) PlantQueuedForTest(ctx context.Context, t contract.Task, of contract.RunID) contract.RunID {
	env, err := s.env()
	if err != nil {
		panic(err)
	}
	var o owner
	err = s.store.View(ctx, of, func(tx control.Tx) error {
		o, _, err = ownerOf(tx)
		return err
	})
	if err != nil {
		panic(err)
	}
	id := s.core.RunIDFor(env, LocalPrincipal, "")
	err = s.store.Update(ctx, id, func(tx control.Tx) error {
		_, err := s.core.Create(tx, env, LocalPrincipal, t)
		return errors.Join(err, tx.Put(runKey, []byte("{}")), o.put(tx))
	})
	if err != nil {
		panic(err)
	}
	return id
}
