package tui

import (
	"context"
	"errors"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/rivumi/rivumi/internal/contract"
)

// How events reach Update: many at once, and not more often than a screen needs to be drawn.
const (
	frame    = 40 * time.Millisecond
	batchMax = 4096
	buffered = 1024
)

// feed follows the log of one run. Two commands serve it: pump reads the log into the channel,
// next takes from it what is there. Neither outlives close.
type feed struct {
	run    contract.RunID
	ctx    context.Context
	cancel context.CancelFunc
	events chan contract.Event
	last   time.Time

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
	err    error // why the log ended early, set before events is closed
}

// eventsMsg brings events of a run.
type eventsMsg struct {
	feed   *feed
	events []contract.Event
	ended  bool
	err    error
}

func newFeed(ctx context.Context, id contract.RunID) *feed {
	f := &feed{run: id, events: make(chan contract.Event, buffered)}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// begin registers a command, false when the feed is closed.
func (f *feed) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.work.Add(1)
	return true
}

// close ends both commands and waits for them.
func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.work.Wait()
}

// pump is the command that reads the log from after a number to its end.
func (f *feed) pump(runs contract.Watcher, after int64) tea.Cmd {
	return func() tea.Msg {
		if !f.begin() {
			return nil
		}
		defer f.work.Done()
		defer close(f.events)
		for e, err := range runs.Events(f.ctx, f.run, after) {
			if err != nil {
				f.err = err
				return nil
			}
			select {
			case f.events <- e:
			case <-f.ctx.Done():
				return nil
			}
		}
		return nil
	}
}

// next is the command that takes what is there, waiting for the first event and, when the last
// batch was a moment ago, for more.
func (f *feed) next() tea.Msg {
	if !f.begin() {
		return nil
	}
	defer f.work.Done()
	msg := eventsMsg{feed: f}
	if !f.take(&msg, nil) {
		return msg
	}
	rest := time.NewTimer(max(0, frame-time.Since(f.last)))
	defer rest.Stop()
	for len(msg.events) < batchMax && f.take(&msg, rest.C) && !msg.events[len(msg.events)-1].Ends() {
	}
	f.last = time.Now()
	return msg
}

// take adds one event to the batch, false at the end of the log or of the wait.
func (f *feed) take(msg *eventsMsg, enough <-chan time.Time) bool {
	select { // what is there comes first, even when the time is up
	case e, ok := <-f.events:
		return f.got(msg, e, ok)
	default:
	}
	select {
	case e, ok := <-f.events:
		return f.got(msg, e, ok)
	case <-enough:
		return false
	case <-f.ctx.Done():
		msg.ended, msg.err = true, f.ctx.Err()
		return false
	}
}

func (f *feed) got(msg *eventsMsg, e contract.Event, ok bool) bool {
	if !ok {
		msg.ended, msg.err = true, f.err
		return false
	}
	msg.events = append(msg.events, e)
	return true
}

// stopped reports whether the error is only that the feed was closed.
func stopped(err error) bool { return errors.Is(err, context.Canceled) }
