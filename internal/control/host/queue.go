package host

import (
	"context"
	"slices"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

// queue holds the runs that wait for room. Principals take turns, so that one who queues a hundred
// runs delays another's first by one run, not by a hundred; within a principal the oldest is first.
// The service's lock guards it.
type queue struct {
	turns   []string // principals with waiting runs, the next one first
	waiting map[string][]contract.RunID
	n       int
}

// add puts a run behind those of its principal; a run that waits already is left where it is.
func (q *queue) add(principal string, id contract.RunID) {
	if q.waiting == nil {
		q.waiting = map[string][]contract.RunID{}
	}
	mine := q.waiting[principal]
	if slices.Contains(mine, id) {
		return
	}
	if len(mine) == 0 {
		q.turns = append(q.turns, principal)
	}
	q.waiting[principal] = append(mine, id)
	q.n++
}

// next takes the run whose turn it is, false when none waits.
func (q *queue) next() (contract.RunID, bool) {
	if q.n == 0 {
		return "", false
	}
	who := q.turns[0]
	q.turns = q.turns[1:]
	mine := q.waiting[who]
	id := mine[0]
	if mine = mine[1:]; len(mine) > 0 {
		q.waiting[who] = mine
		q.turns = append(q.turns, who)
	} else {
		delete(q.waiting, who)
	}
	q.n--
	return id, true
}

// of is how many runs of a principal wait.
func (q *queue) of(principal string) int { return len(q.waiting[principal]) }

// principalOf is whose turn a run takes.
func (s *Service) principalOf(ctx context.Context, id contract.RunID) string {
	who := LocalPrincipal
	err := s.store.View(ctx, id, func(tx control.Tx) error {
		st, err := s.core.StatusOf(tx)
		if err == nil {
			who = st.Principal
		}
		return err
	})
	if err != nil {
		s.log.Warn("look whose run it is", "run", id, "error", err)
	}
	return who
}

// roomFor refuses a new run while too many of all, or of its principal, wait already.
func (s *Service) roomFor(principal string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return contract.Errorf(contract.KindUnavailable, "%w", ErrShutdown)
	case s.opt.MaxQueued > 0 && s.queue.n >= s.opt.MaxQueued:
		return contract.Errorf(contract.KindTooManyRequests, "%d runs wait already; try again later", s.queue.n)
	case s.opt.MaxQueued > 0 && s.queue.of(principal) >= max(1, s.opt.MaxQueued/2):
		return contract.Errorf(contract.KindTooManyRequests, "%d of your runs wait already; try again later", s.queue.of(principal))
	}
	return nil
}

// Load is how much a service has to do.
type Load struct{ Active, Queued int }

// Load tells how many runs are carried out and how many wait.
func (s *Service) Load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Load{Active: len(s.active), Queued: s.queue.n}
}

// Drain claims no more runs, refuses new ones, and waits until the ones under way have ended or ctx
// ends. Queued runs stay queued in the store. It gives how many are still under way; Close ends or
// leaves those.
func (s *Service) Drain(ctx context.Context) int {
	s.mu.Lock()
	s.draining = true
	if s.drained == nil {
		s.drained = make(chan struct{})
		s.endDrain()
	}
	drained := s.drained
	s.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
	return s.Load().Active
}

// endDrain says that nothing is under way any more. The caller holds the lock.
func (s *Service) endDrain() {
	if s.drained == nil || len(s.active) > 0 {
		return
	}
	select {
	case <-s.drained:
	default:
		close(s.drained)
	}
}

// Ready looks whether the service can take runs: its store answers and it is not ending.
func (s *Service) Ready(ctx context.Context) error {
	s.mu.Lock()
	ending := s.closed || s.draining
	s.mu.Unlock()
	if ending {
		return contract.Errorf(contract.KindUnavailable, "%w", ErrShutdown)
	}
	for _, err := range s.store.Runs(ctx, ownerKey) {
		return err
	}
	return nil
}
