package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

// runKey marks every run of the host, for listings.
const runKey = "host/run"

// Start implements [contract.Starter]. The run is carried out in this process.
func (s *Service) Start(ctx context.Context, t contract.Task) (contract.Run, error) {
	var id contract.RunID
	return s.create(ctx, func(env control.Env) contract.RunID {
		id = s.core.RunIDFor(env, LocalPrincipal, t.IdempotencyKey)
		return id
	}, func(tx control.Tx, env control.Env) (contract.Run, error) {
		return s.core.Create(tx, env, LocalPrincipal, t)
	})
}

// Resume starts a new run that goes on from an ended one, with a further message for the agent where
// prompt is not empty.
func (s *Service) Resume(ctx context.Context, from contract.RunID, prompt string) (contract.Run, error) {
	return s.ResumeAs(ctx, from, prompt, nil)
}

// ResumeAs is Resume with a changed task: other limits or approvals, another model. The source must
// stay what it was; nil changes nothing.
func (s *Service) ResumeAs(ctx context.Context, from contract.RunID, prompt string, task *contract.Task) (contract.Run, error) {
	if err := s.genuine(from); err != nil {
		return contract.Run{}, err
	}
	var origin control.Origin
	err := s.store.View(ctx, from, func(tx control.Tx) (err error) {
		origin, err = s.core.Resumable(tx)
		return err
	})
	if err != nil {
		return contract.Run{}, err
	}
	if task != nil {
		origin.Task = *task
	}
	return s.create(ctx, func(env control.Env) contract.RunID {
		return s.core.RunIDFor(env, "", "")
	}, func(tx control.Tx, env control.Env) (contract.Run, error) {
		return s.core.Resume(tx, env, origin, prompt)
	})
}

// create stores a new run together with its owner, and queues it. The decision gets the same env
// that named the run.
func (s *Service) create(
	ctx context.Context,
	name func(control.Env) contract.RunID,
	decide func(control.Tx, control.Env) (contract.Run, error),
) (run contract.Run, err error) {
	if err := s.accepting(ctx); err != nil {
		return contract.Run{}, err
	}
	env, err := s.env()
	if err != nil {
		return contract.Run{}, err
	}
	id := name(env)
	fresh := false
	err = s.store.Update(ctx, id, func(tx control.Tx) error {
		if run, err = decide(tx, env); err != nil {
			return err
		}
		fresh, err = s.own(tx)
		return err
	})
	if err != nil {
		return contract.Run{}, err
	}
	if fresh {
		s.enqueue(id)
	}
	return run, nil
}

// own marks a run that was just created as this process's; false for one that was there before.
func (s *Service) own(tx control.Tx) (fresh bool, err error) {
	if _, there, err := tx.Get(runKey); there || err != nil {
		return false, err
	}
	return true, errors.Join(tx.Put(runKey, []byte("{}")), s.self.put(tx))
}

// accepting refuses new runs where none can be carried out, and opens the socket before the first.
func (s *Service) accepting(ctx context.Context) error {
	if s.opt.Executor == nil {
		return contract.Errorf(contract.KindUnavailable, "this process carries out no runs")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return contract.Errorf(contract.KindUnavailable, "%w", ErrShutdown)
	}
	if s.socket != nil || s.opt.NoSocket {
		return nil
	}
	sock, err := s.listen(ctx)
	if err != nil {
		return fmt.Errorf("open socket of the state directory: %w", err)
	}
	s.socket, s.self.Socket = sock, sock.name
	return nil
}

// enqueue puts a stored run behind the waiting ones. A run that is known here already is left alone.
func (s *Service) enqueue(id contract.RunID) {
	who := s.principalOf(s.life, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.queue.add(who, id)
	s.dispatch()
}

// dispatch starts what waits while there is room. The caller holds the lock.
func (s *Service) dispatch() {
	for len(s.active) < s.opt.MaxRuns && !s.draining {
		id, ok := s.queue.next()
		if !ok {
			return
		}
		if _, busy := s.active[id]; busy {
			continue
		}
		s.active[id] = nil
		s.wg.Go(func() {
			defer s.leave(id)
			s.carry(id)
		})
	}
}

func (s *Service) leave(id contract.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, id)
	s.endDrain()
	if !s.closed {
		s.dispatch()
	}
}

// owns reports whether this process carries the run now.
func (s *Service) owns(id contract.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.active[id]
	return ok
}

func (s *Service) attempt(id contract.RunID) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active[id]
}

// carry claims a run, has it executed and writes its end.
func (s *Service) carry(id contract.RunID) {
	a, err := s.claim(id)
	switch contract.KindOf(err) {
	case "":
	case contract.KindRunFinished, contract.KindConflict, contract.KindRunNotFound:
		return // cancelled while it waited, or another process has it
	default:
		s.giveUp(id, fmt.Errorf("claim run: %w", err))
		return // stays queued; the next service on this directory finds it
	}
	s.conclude(a)
}

// conclude has an attempt executed and writes its end, unless it lives on without this process.
func (s *Service) conclude(a *attempt) {
	var release func()
	a.feed, release = s.feed(a.id)
	defer release()
	ending := a.run()
	if ending.State == contract.Running {
		err := s.persist(claimTries, func(ctx context.Context) error {
			return s.update(ctx, a.id, func(tx control.Tx, _ control.Env) error { return s.self.left().put(tx) })
		})
		if err != nil {
			s.log.Error("leave run to a later service", "run", a.id, "error", err)
		}
		return
	}
	if err := a.finish(ending); err != nil {
		s.giveUp(a.id, fmt.Errorf("write the end of the run: %w", err))
	}
}

// giveUp notes that this process can do no more for a run that has not ended, and tells its followers,
// who would wait for an end that nobody writes. The next process finds the run as interrupted.
func (s *Service) giveUp(id contract.RunID, err error) {
	s.log.Error("give up a run", "run", id, "error", err)
	s.mu.Lock()
	s.lost[id] = err
	s.mu.Unlock()
	s.ring(id)
}

// lostRun gives the reason why this process gave a run up, nil where it did not.
func (s *Service) lostRun(id contract.RunID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[id]
}

// claimTries is how often a claim is tried while the store is busy or full.
const claimTries = 20

func (s *Service) claim(id contract.RunID) (*attempt, error) {
	if err := os.MkdirAll(s.dir(id), 0o700); err != nil {
		return nil, err
	}
	a := &attempt{s: s, id: id, dir: s.dir(id)}
	err := s.persist(claimTries, func(ctx context.Context) error {
		return s.update(ctx, id, func(tx control.Tx, env control.Env) (err error) {
			if a.runNow, err = s.core.Claim(tx, env, s.self.Name, s.opt.Lease); err != nil {
				return err
			}
			if a.task, err = s.core.Task(tx); err != nil {
				return err
			}
			return s.self.put(tx)
		})
	})
	if err != nil {
		return nil, err
	}
	a.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[id] = a
	return a, nil
}

// persist does what must happen although the service may be closing: on a context of its own, and
// again while the store is busy or its disk is full, a few seconds in all.
func (s *Service) persist(tries int, do func(ctx context.Context) error) error {
	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), 15*time.Second)
		err := do(ctx)
		cancel()
		kind := contract.KindOf(err)
		if err == nil || n >= tries || kind != contract.KindUnavailable && kind != contract.KindTooManyRequests {
			return err
		}
		if s.makeRoom(err) {
			continue
		}
		<-time.After(time.Duration(min(n, 10)) * 20 * time.Millisecond)
	}
}
