package host

import (
	"bytes"
	"context"
	"iter"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

const (
	pageLines = 64      // read from the store at a time; what a slow follower holds
	tailLines = 2048    // kept for all followers of a run
	tailBytes = 2 << 20 //
	// pollOthers is how often a run of another process is looked at: no bell rings for it here.
	pollOthers = 500 * time.Millisecond
)

// feed is what all followers of one run share: the tail of its log as stored lines, and the bell
// that says there may be more. It holds nothing that is not in the store; a slow follower reads the
// store, and costs nobody else. The attempt that carries a run puts the lines it has committed here,
// so that those who keep up need no read at all.
type feed struct {
	followers int // guarded by Service.mu

	// What somebody else than the attempt committed: the tail may lack lines, and there may be mail.
	stale, news atomic.Bool

	bell struct {
		sync.Mutex
		ch chan struct{}
	}
	mu    sync.Mutex // held while the store is read, so that followers who wake together read it once
	lines [][]byte
	first int64 // number of lines[0]
	size  int
	ended bool
}

// feed gives the run's feed; release must be called when it is no longer followed.
func (s *Service) feed(id contract.RunID) (f *feed, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f = s.feeds[id]
	if f == nil {
		f = &feed{}
		f.stale.Store(true)
		f.news.Store(true)
		f.bell.ch = make(chan struct{})
		s.feeds[id] = f
	}
	f.followers++
	return f, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.followers--; f.followers == 0 {
			delete(s.feeds, id)
		}
	}
}

// ring wakes the followers of a run. It is called after a commit only.
func (s *Service) ring(id contract.RunID) {
	s.mu.Lock()
	f := s.feeds[id]
	s.mu.Unlock()
	if f == nil {
		return
	}
	f.stale.Store(true)
	f.news.Store(true)
	f.wake()
}

func (f *feed) wake() {
	f.bell.Lock()
	defer f.bell.Unlock()
	close(f.bell.ch)
	f.bell.ch = make(chan struct{})
}

// publish hands committed lines to the followers. Lines that do not continue the tail, because somebody
// else has written between, are left to the store.
func (f *feed) publish(lines [][]byte) {
	if len(lines) == 0 {
		return
	}
	f.mu.Lock()
	if first := seqOf(lines[0]); len(f.lines) > 0 && first == f.first+int64(len(f.lines)) {
		f.keep(first, lines)
	} else {
		f.stale.Store(true)
	}
	f.mu.Unlock()
	f.wake()
}

// wait gives a channel that is closed at the next ring. It is taken before the log is read, so that
// nothing slips between the read and the wait.
func (f *feed) wait() <-chan struct{} {
	f.bell.Lock()
	defer f.bell.Unlock()
	return f.bell.ch
}

// following is what a follower wants of a run.
type following struct {
	run   contract.RunID
	after int64
	live  bool          // follow the log to its end; otherwise what is stored now
	beat  time.Duration // an empty batch after so much silence; 0: never
}

// follow yields the stored lines of a run above a number in batches, in the caller's goroutine.
func (s *Service) follow(ctx context.Context, w following) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		if err := s.genuine(w.run); err != nil {
			yield(nil, err)
			return
		}
		f, release := s.feed(w.run)
		defer release()
		quiet := time.Now()
		for {
			more := f.wait()
			lines, ended, err := f.read(ctx, s, w.run, w.after)
			switch {
			case err != nil:
				yield(nil, err)
				return
			case len(lines) > 0:
				w.after = seqOf(lines[len(lines)-1])
			case ended || !w.live:
				return
			default:
				if err := s.lostRun(w.run); err != nil {
					yield(nil, err)
					return
				}
				if err := s.pause(ctx, w, quiet, more); err != nil {
					yield(nil, err)
					return
				}
				if w.beat == 0 || time.Since(quiet) < w.beat {
					continue
				}
			}
			if !yield(lines, nil) {
				return
			}
			quiet = time.Now()
		}
	}
}

// pause waits for the bell, or until a beat is due.
func (s *Service) pause(ctx context.Context, w following, quiet time.Time, more <-chan struct{}) error {
	var beat, poll <-chan time.Time
	if w.beat > 0 {
		t := time.NewTimer(time.Until(quiet.Add(w.beat)))
		defer t.Stop()
		beat = t.C
	}
	if !s.owns(w.run) {
		t := time.NewTimer(pollOthers)
		defer t.Stop()
		poll = t.C
	}
	select {
	case <-more:
	case <-beat:
	case <-poll:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.stopped:
		return contract.Errorf(contract.KindUnavailable, "%w", ErrShutdown)
	}
	return nil
}

// read gives the lines above after that are stored now, a page at most; ended says that the run has
// ended and there are no more.
func (f *feed) read(ctx context.Context, s *Service, id contract.RunID, after int64) (lines [][]byte, ended bool, err error) {
	f.mu.Lock()
	if len(f.lines) > 0 && after+1 < f.first { // long behind: reads by itself
		f.mu.Unlock()
		return s.stored(ctx, id, after)
	}
	defer f.mu.Unlock()
	if i := after + 1 - f.first; i >= 0 && i < int64(len(f.lines)) {
		return f.lines[i:min(i+pageLines, int64(len(f.lines)))], false, nil
	}
	atTail := len(f.lines) > 0 && after+1 == f.first+int64(len(f.lines))
	// Cleared before the read: what is committed meanwhile sets it again.
	if atTail && s.owns(id) && !f.stale.Swap(false) {
		return nil, f.ended, nil
	}
	lines, ended, err = s.stored(ctx, id, after)
	if len(lines) > 0 && seqOf(lines[0]) == after+1 { // not a log.gap
		f.keep(after+1, lines)
	}
	if atTail {
		f.ended = ended
	}
	if len(lines) > 0 || err != nil {
		f.stale.Store(true) // there may be more
	}
	return lines, ended, err
}

// stored reads a page of lines from the store.
func (s *Service) stored(ctx context.Context, id contract.RunID, after int64) (lines [][]byte, ended bool, err error) {
	err = s.store.View(ctx, id, func(tx control.Tx) error {
		if lines, err = s.core.Events(tx, after, pageLines); err != nil || len(lines) > 0 {
			return err
		}
		run, err := s.core.Read(tx)
		ended = run.Status.Terminal()
		return err
	})
	return lines, ended, err
}

// keep puts lines at the end of the shared tail; a follower that reads old events leaves it alone.
func (f *feed) keep(first int64, lines [][]byte) {
	switch next := f.first + int64(len(f.lines)); {
	case len(f.lines) == 0 || first > next:
		f.lines, f.first, f.size = nil, first, 0
	case first < next:
		return
	}
	for _, l := range lines {
		f.lines, f.size = append(f.lines, l), f.size+len(l)
	}
	drop := 0
	for n := len(f.lines); drop < n-1 && (n-drop > tailLines || f.size > tailBytes); drop++ {
		f.size -= len(f.lines[drop])
	}
	if drop > 0 {
		// Copied, so that the dropped lines can be freed and handed-out slices stay as they are.
		f.lines, f.first = append([][]byte(nil), f.lines[drop:]...), f.first+int64(drop)
	}
}

// seqOf gives the number of a stored line. It stands before everything that is not the core's own.
func seqOf(line []byte) int64 {
	_, rest, _ := bytes.Cut(line, []byte(`"seq":`))
	digits, _, _ := bytes.Cut(rest, []byte(","))
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0 // no line of the core's
	}
	return n
}
