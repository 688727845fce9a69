package host

import (
	"context"
	"os"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

// Decide implements [contract.Steerer]. A decision without By is the local user's.
func (s *Service) Decide(ctx context.Context, id contract.RunID, approval string, d contract.Decision) error {
	if err := s.genuine(id); err != nil {
		return err
	}
	if d.By == "" {
		d.By = LocalPrincipal
	}
	err := s.update(ctx, id, func(tx control.Tx, env control.Env) error {
		_, err := s.core.Decide(tx, env, approval, d)
		return err
	})
	if err == nil && d.Verdict == contract.CancelRun {
		s.interrupt(id)
	}
	return err
}

// Cancel implements [contract.Steerer].
func (s *Service) Cancel(ctx context.Context, id contract.RunID, why string) error {
	if err := s.genuine(id); err != nil {
		return err
	}
	ended := false
	err := s.update(ctx, id, func(tx control.Tx, env control.Env) error {
		before, err := s.core.Read(tx)
		if err != nil {
			return err
		}
		after, err := s.core.Cancel(tx, env, LocalPrincipal, why)
		if err != nil {
			return err
		}
		if ended = !before.Status.Terminal() && after.Status.Terminal(); ended {
			return tx.Delete(ownerKey)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if ended {
		return s.keepEvents(ctx, id)
	}
	s.interrupt(id)
	return nil
}

// interrupt tells the executor of a run that a cancel was asked for. A run of another process hears
// of it with its next pulse.
func (s *Service) interrupt(id contract.RunID) {
	if a := s.attempt(id); a != nil {
		a.cancel(ErrCancelRequested)
	}
}

// Send implements [contract.Steerer].
func (s *Service) Send(ctx context.Context, id contract.RunID, text string) error {
	if err := s.genuine(id); err != nil {
		return err
	}
	return s.update(ctx, id, func(tx control.Tx, env control.Env) error {
		_, err := s.core.Send(tx, env, text)
		return err
	})
}

// Remove implements [contract.Remover].
func (s *Service) Remove(ctx context.Context, id contract.RunID) error {
	if err := s.genuine(id); err != nil {
		return err
	}
	if err := s.update(ctx, id, func(tx control.Tx, _ control.Env) error { return s.core.Delete(tx) }); err != nil {
		return err
	}
	return os.RemoveAll(s.dir(id))
}
