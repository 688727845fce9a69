package host

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/store"
)

const (
	defaultGrace = contract.GraceSeconds * time.Second
	// pulseEvery is how often the store is asked what other processes decided about an active run.
	pulseEvery  = time.Second
	finishTries = 50
)

// attempt is one claimed run in this process. It is the run's [contract.Session] and the keeper of
// its clocks.
type attempt struct {
	s      *Service
	id     contract.RunID
	dir    string
	runNow contract.Run // as claimed
	task   contract.Task

	ctx    context.Context // the executor's; its cause says why the run must stop
	cancel context.CancelCauseFunc
	lock   chan struct{} // one Append at a time; a channel, so that a cancelled caller need not wait
	held   held          // streamed text that waits for the next commit; guarded by lock
	flush  chan struct{} // says that held text is waiting
	seen   int64         // last event of the last pulse; the keeper's alone
	full   bool          // an append met a full disk; guarded by lock
	feed   *feed         // held while the run is carried here
	mailAt time.Time     // when the store was last asked for mail; the mailbox's alone

	adopted bool // an earlier service started it
}

// open gives the attempt its context and ports. The attempt is not shared before.
func (a *attempt) open() {
	a.ctx, a.cancel = context.WithCancelCause(a.s.life)
	a.lock, a.flush = make(chan struct{}, 1), make(chan struct{}, 1)
	a.seen = a.runNow.LastSeq
}

// run has the executor carry out the attempt and keeps its clocks meanwhile: lease, wall time, grace.
// It returns with what the executor said, or without it when the grace is over.
func (a *attempt) run() contract.Ending {
	defer a.cancel(context.Canceled)
	done := make(chan contract.Ending, 1)
	a.s.wg.Go(func() { done <- a.execute() })
	pulse := time.NewTicker(pulseEvery)
	defer pulse.Stop()
	wall := time.NewTimer(a.wallLeft())
	defer wall.Stop()
	if a.runNow.CancelRequested {
		a.cancel(ErrCancelRequested)
	}
	var flushAt, killAt <-chan time.Time
	stopping := a.ctx.Done()
	renewed := time.Now()
	for {
		select {
		case ending := <-done:
			return ending
		case <-wall.C:
			a.cancel(ErrWallTime)
		case <-stopping:
			stopping, killAt = nil, time.After(a.s.opt.grace)
		case <-killAt:
			return a.killed()
		case <-a.flush:
			flushAt = time.After(holdFor)
		case <-flushAt:
			flushAt = nil
			a.flushHeld()
		case <-pulse.C:
			if a.pulse(time.Since(renewed) >= a.s.opt.Lease/3) {
				renewed = time.Now()
			}
		}
	}
}

// wallLeft is what is left of the wall time: all of it, unless an earlier service started the attempt.
func (a *attempt) wallLeft() time.Duration {
	left := time.Duration(a.task.Limits.WallTimeSeconds) * time.Second
	if a.adopted && a.runNow.StartedAt != nil {
		left -= a.s.opt.Now().Sub(a.runNow.StartedAt.Time)
	}
	return max(left, time.Millisecond)
}

// execute calls the executor and turns a panic of it into an ending.
func (a *attempt) execute() (ending contract.Ending) {
	defer func() {
		if p := recover(); p != nil {
			a.s.log.Error("executor panicked", "run", a.id, "panic", p, "stack", string(debug.Stack()))
			ending = failed(contract.FailInternal, "the run's executor broke down")
		}
	}()
	return a.s.opt.Executor.Execute(a.ctx, Job{Run: a.runNow, Task: a.task, Session: a, Dir: a.dir, Adopted: a.adopted})
}

// killed is how a run ends whose executor did not stop in time.
func (a *attempt) killed() contract.Ending {
	switch cause := context.Cause(a.ctx); {
	case errors.Is(cause, ErrCancelRequested):
		return contract.Ending{State: contract.Cancelled, Error: &contract.Failure{
			Code: contract.FailCancelled, Message: "cancelled; the agent did not stop in time and was given up",
		}}
	case errors.Is(cause, ErrWallTime):
		return failed(contract.FailWallTime, "the run reached its wall time and did not stop in time")
	default:
		return failed(contract.FailInterrupted, "the service shut down")
	}
}

func failed(code contract.FailureCode, message string) contract.Ending {
	return contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: code, Message: message}}
}

// pulse looks for what other processes decided, and renews the lease when it is time. It reports
// whether the lease was renewed.
func (a *attempt) pulse(renew bool) (renewed bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), pulseEvery)
	defer cancel()
	var run contract.Run
	err := a.s.store.View(ctx, a.id, func(tx control.Tx) (err error) {
		run, err = a.s.core.Read(tx)
		return err
	})
	if err != nil {
		a.s.log.Warn("look at run", "run", a.id, "error", err)
		return false
	}
	if run.LastSeq != a.seen {
		a.seen = run.LastSeq
		a.s.ring(a.id)
	}
	switch {
	case run.Status.Terminal():
		a.cancel(ErrShutdown) // ended behind our back: another process found our lease over
	case run.CancelRequested:
		a.cancel(ErrCancelRequested)
	}
	if run.PendingApprovals > 0 && !run.Status.Terminal() {
		if err := a.expire(ctx); err != nil { // for a box that polls; a session expires its own by itself
			a.s.log.Warn("expire approvals", "run", a.id, "error", err)
		}
	}
	if !renew || run.Status.Terminal() {
		return false
	}
	err = a.s.update(ctx, a.id, func(tx control.Tx, env control.Env) error {
		_, err := a.s.core.Renew(tx, env, a.runNow.Attempt, a.s.opt.Lease)
		return err
	})
	if err != nil {
		a.s.log.Warn("renew lease", "run", a.id, "error", err)
	}
	return err == nil
}

// finish writes the end of the run, whatever it takes, and what every ended run leaves.
func (a *attempt) finish(e contract.Ending) error {
	a.lock <- struct{}{} // an append that was under way comes first; later ones find the run ended
	held, full := a.held.take(), a.full
	<-a.lock
	if full && e.State == contract.Failed && (e.Error == nil || e.Error.Code == contract.FailInternal) {
		e = contract.Ending{State: contract.Failed, Result: e.Result, Error: &contract.Failure{
			Code: contract.FailDisk, Message: "the disk is full", Hint: "free some space, then resume the run",
		}}
	}
	err := a.s.persist(finishTries, func(ctx context.Context) error { return a.end(ctx, held, e) })
	if err != nil && contract.KindOf(err) != contract.KindRunFinished {
		a.s.log.Error("ending of the executor refused", "run", a.id, "state", e.State, "error", err)
		bad := failed(contract.FailResult, "the executor reported an ending that cannot be")
		err = a.s.persist(finishTries, func(ctx context.Context) error { return a.end(ctx, nil, bad) })
	}
	if contract.KindOf(err) == contract.KindRunFinished {
		err = nil // whoever ended it has written the end
	}
	if err != nil {
		return err
	}
	return a.s.persist(claimTries, func(ctx context.Context) error { return a.s.keepEvents(ctx, a.id) })
}

// end is the transaction of the end.
func (a *attempt) end(ctx context.Context, held []contract.Event, e contract.Ending) error {
	return a.s.update(ctx, a.id, func(tx control.Tx, env control.Env) error {
		if len(held) > 0 {
			if _, err := a.s.core.Append(tx, env, a.runNow.Attempt, held...); err != nil {
				return err
			}
		}
		if _, err := a.s.core.Finish(tx, env, a.runNow.Attempt, e); err != nil {
			return err
		}
		return tx.Delete(ownerKey)
	})
}

// noteFull remembers that an append met a full disk. The caller holds the lock.
func (a *attempt) noteFull(err error) error {
	if errors.Is(err, store.ErrDiskFull) {
		a.full = true
		return fmt.Errorf("append to run %s: %w", a.id, err)
	}
	return err
}
