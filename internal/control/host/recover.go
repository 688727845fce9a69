package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/store"
)

// recoverRuns ends the runs whose owner is gone, or takes the queued ones over where the service
// adopts. What a run left on the disk stays.
func (s *Service) recoverRuns(ctx context.Context) error {
	s.keepReserve()
	if s.opt.Adopt && s.opt.Executor != nil {
		if err := s.accepting(ctx); err != nil { // before a run is taken over: its owner names the socket
			return err
		}
	}
	here := s.self.Place
	boxes := s.adoptable(ctx)
	for h, err := range s.store.Runs(ctx, ownerKey) {
		if err != nil {
			return fmt.Errorf("look for unfinished runs: %w", err)
		}
		var o owner
		if err := json.Unmarshal(h.Value, &o); err != nil {
			return fmt.Errorf("decode owner of run %s: %w", h.ID, err)
		}
		alive, dead := o.state(here)
		if alive {
			continue
		}
		boxed := dead && slices.Contains(boxes, string(h.ID))
		if err := s.recoverRun(ctx, found{id: h.ID, owner: o, dead: dead, boxed: boxed}); err != nil {
			s.log.Error("end interrupted run", "run", h.ID, "error", err)
		}
	}
	s.sweepBoxes(ctx, boxes)
	return nil
}

// found is an unfinished run of another process.
type found struct {
	id    contract.RunID
	owner owner
	dead  bool // the process is known to be gone
	boxed bool // and the box of the run is still there
}

// recoverRun looks at one run inside a transaction, as another process may be doing the same.
func (s *Service) recoverRun(ctx context.Context, f found) error {
	id, o, dead := f.id, f.owner, f.dead
	adopted, taken, ended := false, false, false
	err := s.update(ctx, id, func(tx control.Tx, env control.Env) error {
		now, ok, err := ownerOf(tx)
		if err != nil || !ok || now.Name != o.Name {
			return err // somebody else was first
		}
		run, err := s.core.Read(tx)
		if err != nil {
			return err
		}
		switch run.Status {
		case contract.Queued:
			// Without a lease only a process that can be looked at is known to be gone.
			if !dead {
				return nil
			}
			if s.opt.Adopt && s.opt.Executor != nil {
				adopted = true
				return s.self.put(tx)
			}
			_, err = s.core.Finish(tx, env, run.Attempt, failed(contract.FailInterrupted, "the process that should have carried out the run is gone"))
		case contract.Running:
			if f.boxed {
				taken = true
				return s.takeOver(tx, env, run)
			}
			if dead && (!o.Boxes || s.self.Boxes) { // another kind of service waits for the lease: the box may be taken over
				_, err = s.core.Finish(tx, env, run.Attempt, failed(contract.FailInterrupted, gone(o)))
			} else if _, err = s.core.Interrupt(tx, env); contract.KindOf(err) == contract.KindConflict {
				return nil // its lease lives
			}
		case contract.Completed, contract.Failed, contract.Cancelled:
		}
		if err != nil {
			return err
		}
		ended = true
		return tx.Delete(ownerKey)
	})
	if err != nil {
		return err
	}
	if adopted {
		s.enqueue(id)
	}
	if taken {
		s.goOn(id)
	}
	if ended {
		return s.keepEvents(ctx, id)
	}
	return nil
}

// gone says in words what is gone.
func gone(o owner) string {
	if o.Boxes {
		return "the service that carried out the run was stopped and the run's box is gone"
	}
	return "the process that carried out the run is gone"
}

// The reserve is a file that is given back when the disk is full, so that the end of the runs can
// still be written.
const (
	reserveFile  = "reserve"
	reserveBytes = 1 << 20
)

// keepReserve makes the reserve where it is missing. Without it the service works all the same.
func (s *Service) keepReserve() {
	path := filepath.Join(s.opt.Dir, reserveFile)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return
	}
	temp, err := writeTemp(s.opt.Dir, make([]byte, reserveBytes))
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		s.log.Warn("keep a reserve of disk space", "error", err)
	}
}

// makeRoom gives the reserve back when err is a full disk, and says whether that freed anything.
func (s *Service) makeRoom(err error) bool {
	if !errors.Is(err, store.ErrDiskFull) && !errors.Is(err, unix.ENOSPC) {
		return false
	}
	return os.Remove(filepath.Join(s.opt.Dir, reserveFile)) == nil
}
