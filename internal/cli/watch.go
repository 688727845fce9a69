package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rivumi/rivumi/internal/contract"
)

// watcher follows one run to its end, shows it and answers its approvals where a person can.
type watcher struct {
	f      *Factory
	runs   contract.Runs
	id     contract.RunID
	show   func(contract.Event) error // prints an event
	asks   bool                       // a person is at the terminal
	policy contract.ApprovalPolicy    // to explain an approval, where known

	card sync.WaitGroup
	stop map[string]context.CancelFunc // open cards by approval
	term sync.Mutex                    // one card at a time
}

// follow shows the events after the number until the terminal one. It returns when the run has
// ended, with the cause of ctx when that ends first, and leaves no goroutine.
func (w *watcher) follow(ctx context.Context, after int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	w.stop = map[string]context.CancelFunc{}
	defer w.card.Wait()
	defer cancel(nil)
	for e, err := range w.runs.Events(ctx, w.id, after) {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		w.closeCards(e)
		if err := w.show(e); err != nil {
			return err
		}
		if d, ok := contract.As[contract.ApprovalRequested](e); ok && w.asks {
			w.openCard(ctx, cancel, d.Approval)
		}
		if e.Ends() {
			return nil
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return nil
}

// closeCards takes back the cards that somebody else has answered, before the event is shown.
func (w *watcher) closeCards(e contract.Event) {
	var ids []string
	if d, ok := contract.As[contract.ApprovalDecided](e); ok {
		ids = []string{d.ID}
	} else if d, ok := contract.As[contract.ApprovalClosed](e); ok {
		ids = []string{d.ID}
	} else if e.Ends() {
		for id := range w.stop {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if stop := w.stop[id]; stop != nil {
			stop()
			delete(w.stop, id)
		}
	}
	if len(ids) > 0 {
		w.card.Wait()
	}
}

// openCard asks for one approval beside the log. A decision that fails for another reason than
// that somebody was faster ends the watch.
func (w *watcher) openCard(ctx context.Context, fail context.CancelCauseFunc, a contract.Approval) {
	ctx, stop := context.WithCancel(ctx)
	w.stop[a.ID] = stop
	w.card.Go(func() {
		w.term.Lock()
		defer w.term.Unlock()
		d, err := askKey(ctx, w.f, a, w.policy)
		if err != nil {
			return // taken back, or the terminal is gone: the time-out of the approval decides
		}
		err = w.runs.Decide(ctx, w.id, a.ID, d)
		if err != nil && contract.KindOf(err) != contract.KindApprovalDecided && !errors.Is(err, context.Canceled) {
			fail(fmt.Errorf("answer approval %s: %w", a.ID, err))
		}
	})
}
