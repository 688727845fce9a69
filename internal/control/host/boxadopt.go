package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/sandbox"
)

// boxes lists the runs whose boxes an earlier service left, nil where none can be taken over.
func (b *Boxes) boxes(ctx context.Context) ([]string, error) {
	a, ok := b.opt.Launcher.(sandbox.Adopter)
	if !ok {
		return nil, nil
	}
	runs, err := a.Boxes(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for boxes: %w", err)
	}
	return runs, nil
}

// remove ends and removes a box that belongs to no run any more.
func (b *Boxes) remove(ctx context.Context, run string) error {
	a, ok := b.opt.Launcher.(sandbox.Adopter)
	if !ok {
		return nil
	}
	box, err := a.Adopt(ctx, run)
	if err != nil {
		return fmt.Errorf("take over the box of run %s: %w", run, err)
	}
	ctx, cancel := context.WithTimeout(ctx, boxCloseTime)
	defer cancel()
	return box.Close(ctx)
}

// adoptable gives the runs that this service could go on with.
func (s *Service) adoptable(ctx context.Context) []string {
	b, ok := s.opt.Executor.(*Boxes)
	if !ok {
		return nil
	}
	runs, err := b.boxes(ctx)
	if err != nil {
		s.log.Error("look for boxes of an earlier service", "error", err)
	}
	return runs
}

// takeOver makes a running run this process's, inside the transaction that found its owner dead.
func (s *Service) takeOver(tx control.Tx, env control.Env, run contract.Run) error {
	if err := s.self.put(tx); err != nil {
		return err
	}
	_, err := s.core.Renew(tx, env, run.Attempt, s.opt.Lease)
	return err
}

// goOn carries on with a run that was taken over.
func (s *Service) goOn(id contract.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[id] = nil
	s.wg.Go(func() {
		defer s.leave(id)
		a := &attempt{s: s, id: id, dir: s.dir(id), adopted: true}
		err := s.store.View(s.life, id, func(tx control.Tx) (err error) {
			if a.runNow, err = s.core.Read(tx); err == nil {
				a.task, err = s.core.Task(tx)
			}
			return err
		})
		if err != nil {
			s.log.Error("go on with run", "run", id, "error", err)
			return // its lease runs out
		}
		a.open()
		s.mu.Lock()
		s.active[id] = a
		s.mu.Unlock()
		s.conclude(a)
	})
}

// sweepBoxes removes the boxes of runs that have ended, or that this service does not know.
func (s *Service) sweepBoxes(ctx context.Context, boxes []string) {
	b, ok := s.opt.Executor.(*Boxes)
	if !ok {
		return
	}
	for _, run := range slices.Compact(slices.Sorted(slices.Values(boxes))) {
		if s.owns(contract.RunID(run)) {
			continue
		}
		if err := b.remove(ctx, run); err != nil {
			s.log.Error("remove a box that was left", "run", run, "error", err)
		}
	}
}
