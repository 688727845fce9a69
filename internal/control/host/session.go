package host

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

// Append implements [contract.Appender]. Streamed text (model.delta, tool.output) by itself is held
// for at most holdFor or until there is enough of it, and is durable with the next other event.
func (a *attempt) Append(ctx context.Context, events ...contract.Event) error {
	if err := a.acquire(ctx); err != nil {
		return err
	}
	defer func() { <-a.lock }()
	if a.held.add(events) {
		if a.held.size < holdBytes {
			select {
			case a.flush <- struct{}{}:
			default:
			}
			return nil
		}
		events = nil
	}
	return a.commit(ctx, append(a.held.take(), events...))
}

func (a *attempt) acquire(ctx context.Context) error {
	select {
	case a.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// commit stores events. The caller holds the lock.
func (a *attempt) commit(ctx context.Context, events []contract.Event) error {
	if len(events) == 0 {
		return nil
	}
	var lines [][]byte
	err := a.noteFull(a.patient(ctx, func() error {
		return a.s.quietly(ctx, a.id, func(tx control.Tx, env control.Env) (err error) {
			lines, err = a.s.core.Append(tx, env, a.runNow.Attempt, events...)
			return err
		})
	}))
	if err == nil {
		a.feed.publish(lines)
	}
	return err
}

// patient repeats what the store's queue had no room for, until ctx ends: a run in process is slowed
// by a busy store, never failed by it.
func (a *attempt) patient(ctx context.Context, do func() error) error {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		err := do()
		if contract.KindOf(err) != contract.KindTooManyRequests {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// flushHeld stores held text whose time has come. It is the keeper's.
func (a *attempt) flushHeld() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), pulseEvery)
	defer cancel()
	if a.acquire(ctx) != nil {
		return // an append is under way for long; it has taken the text along
	}
	defer func() { <-a.lock }()
	if err := a.commit(ctx, a.held.take()); err != nil {
		a.s.log.Warn("store streamed text", "run", a.id, "error", err)
	}
}

// Ask implements [contract.Asker].
func (a *attempt) Ask(ctx context.Context, q contract.Approval) (contract.Decision, error) {
	// Text before the question belongs before it in the log.
	if err := a.acquire(ctx); err != nil {
		return contract.Decision{}, err
	}
	held := a.held.take()
	var asked contract.Approval
	err := a.noteFull(a.patient(ctx, func() error {
		return a.s.update(ctx, a.id, func(tx control.Tx, env control.Env) (err error) {
			if len(held) > 0 {
				if _, err := a.s.core.Append(tx, env, a.runNow.Attempt, held...); err != nil {
					return err
				}
			}
			asked, err = a.s.core.Ask(tx, env, a.runNow.Attempt, q)
			return err
		})
	}))
	<-a.lock
	if err != nil {
		return contract.Decision{}, err
	}
	return a.await(ctx, asked)
}

// await waits for the decision of an approval, and lets it expire when its time is over.
func (a *attempt) await(ctx context.Context, asked contract.Approval) (contract.Decision, error) {
	f, release := a.s.feed(a.id)
	defer release()
	for {
		more := f.wait()
		standing, err := a.s.approval(ctx, a.id, asked.ID)
		if ended := firstEnded(ctx, a.ctx); err != nil && ended != nil {
			return a.lastWord(ended, asked.ID) // a decision can come with the end, and end the read as well
		}
		if err != nil {
			return contract.Decision{}, err
		}
		if d, ok := decisionOf(standing); ok {
			return d, nil
		}
		left := standing.ExpiresAt.Sub(a.s.opt.Now())
		if left <= 0 {
			if err := a.expire(ctx); err != nil {
				return contract.Decision{}, err
			}
			continue
		}
		due := time.NewTimer(left)
		select {
		case <-more:
		case <-due.C:
		case <-ctx.Done():
		case <-a.ctx.Done():
		}
		due.Stop()
		// A run that is ending has nobody to answer; a decision that was made first still counts.
		if ended := firstEnded(ctx, a.ctx); ended != nil {
			return a.lastWord(ended, asked.ID)
		}
	}
}

// firstEnded gives the first of the contexts that has ended, nil while all go on.
func firstEnded(all ...context.Context) context.Context {
	for _, c := range all {
		if c.Err() != nil {
			return c
		}
	}
	return nil
}

// lastWord gives the decision that came just before the end, or the cause of the end. Where it was only
// the question that ended, and not the run, nobody is asked for an answer any more.
func (a *attempt) lastWord(ended context.Context, id string) (contract.Decision, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), pulseEvery)
	defer cancel()
	if standing, err := a.s.approval(ctx, a.id, id); err == nil {
		if d, ok := decisionOf(standing); ok {
			return d, nil
		}
	}
	if a.ctx.Err() == nil {
		err := a.patient(ctx, func() error {
			return a.s.update(ctx, a.id, func(tx control.Tx, env control.Env) error {
				return a.s.core.Withdraw(tx, env, a.runNow.Attempt, id)
			})
		})
		if err != nil {
			a.s.log.Warn("withdraw an approval", "run", a.id, "error", err)
		}
	}
	return contract.Decision{}, context.Cause(ended)
}

func (a *attempt) expire(ctx context.Context) error {
	return a.patient(ctx, func() error {
		return a.s.update(ctx, a.id, func(tx control.Tx, env control.Env) error {
			_, err := a.s.core.Expire(tx, env)
			return err
		})
	})
}

// mailEvery is how old what is known of the mail may be where nothing in this process says that there
// is some. Another process writes past this one only when it has not answered for longer.
const mailEvery = ownerPatience / 2

// Take implements [contract.Mailbox].
func (a *attempt) Take(ctx context.Context) (messages []contract.Message, err error) {
	if !a.feed.news.Swap(false) && time.Since(a.mailAt) < mailEvery {
		return nil, nil
	}
	a.mailAt = time.Now()
	defer func() {
		if err != nil {
			a.feed.news.Store(true)
		}
	}()
	var waiting bool
	err = a.s.store.View(ctx, a.id, func(tx control.Tx) (err error) {
		waiting, err = a.s.core.Mail(tx)
		return err
	})
	if err != nil || !waiting {
		return nil, err
	}
	err = a.patient(ctx, func() error {
		return a.s.update(ctx, a.id, func(tx control.Tx, env control.Env) (err error) {
			messages, err = a.s.core.TakeMessages(tx, env, a.runNow.Attempt)
			return err
		})
	})
	return messages, err
}

// PutArtifact implements [contract.Depot].
func (a *attempt) PutArtifact(ctx context.Context, name, mediaType string, r io.Reader) (contract.Artifact, error) {
	return a.s.putArtifact(ctx, artifactIn{run: a.id, attempt: a.runNow.Attempt, name: name, mediaType: mediaType, body: r})
}

// Log implements [contract.Session].
func (a *attempt) Log(ctx context.Context) iter.Seq2[contract.Event, error] {
	return a.s.events(ctx, a.id, 0, false)
}

// approval reads one approval as it stands.
func (s *Service) approval(ctx context.Context, run contract.RunID, id string) (a contract.Approval, err error) {
	err = s.store.View(ctx, run, func(tx control.Tx) error {
		a, err = s.core.ApprovalOf(tx, id)
		return err
	})
	return a, err
}

// decisionOf gives the decision of an approval, false while there is none.
func decisionOf(a contract.Approval) (contract.Decision, bool) {
	if a.Decision == "" {
		return contract.Decision{}, false
	}
	d := contract.Decision{Verdict: a.Decision, Note: a.Note, By: a.DecidedBy}
	if a.DecidedAt != nil {
		d.At = *a.DecidedAt
	}
	return d, true
}
