package host

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

const (
	pageLines = 256     // read from the store at a time
	tailLines = 2048    // kept for all followers of a run
	tailBytes = 2 << 20 //
	// pollOthers is how often a run of another process is looked at: no bell rings for it here.
	pollOthers = 500 * time.Millisecond
)

// feed is what all followers of one run share: the tail of its log as stored lines, and the bell
// that says there may be more. It holds nothing that is not in the store; a slow follower reads the
// store, and costs nobody else.
type feed struct {
	followers int // guarded by Service.mu

	bell struct {
		sync.Mutex
		ch chan struct{}
	}
	mu    sync.Mutex // held while the store is read, so that followers who wake together read it once
	lines [][]byte
	first int64 // number of lines[0]
	size  int
}

// feed gives the run's feed; release must be called when it is no longer followed.
func (s *Service) feed(id contract.RunID) (f *feed, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f = s.feeds[id]
	if f == nil {
		f = &feed{}
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
	f.bell.Lock()
	defer f.bell.Unlock()
	close(f.bell.ch)
	f.bell.ch = make(chan struct{})
}

// wait gives a channel that is closed at the next ring. It is taken before the log is read, so that
// nothing slips between the read and the wait.
func (f *feed) wait() <-chan struct{} {
	f.bell.Lock()
	defer f.bell.Unlock()
	return f.bell.ch
}

// follow yields the stored lines of a run above after in batches, and follows the log until its
// terminal event; without live it ends with what is stored now.
func (s *Service) follow(ctx context.Context, id contract.RunID, after int64, live bool) iter.Seq2[[][]byte, error] {
	return func(yield func([][]byte, error) bool) {
		if err := s.genuine(id); err != nil {
			yield(nil, err)
			return
		}
		f, release := s.feed(id)
		defer release()
		for {
			more := f.wait()
			lines, ended, err := f.read(ctx, s, id, after)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(lines) > 0 {
				after = markOf(lines[len(lines)-1]).Seq
				if !yield(lines, nil) {
					return
				}
				continue
			}
			if ended || !live {
				return
			}
			if err := s.pause(ctx, id, more); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// pause waits for the bell.
func (s *Service) pause(ctx context.Context, id contract.RunID, more <-chan struct{}) error {
	var poll <-chan time.Time
	if !s.owns(id) {
		t := time.NewTimer(pollOthers)
		defer t.Stop()
		poll = t.C
	}
	select {
	case <-more:
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
	defer f.mu.Unlock()
	if i := after + 1 - f.first; len(f.lines) > 0 && i >= 0 && i < int64(len(f.lines)) {
		return f.lines[i:min(i+pageLines, int64(len(f.lines)))], false, nil
	}
	err = s.store.View(ctx, id, func(tx control.Tx) error {
		run, err := s.core.Read(tx)
		if err != nil {
			return err
		}
		if after > run.LastSeq {
			return contract.Errorf(contract.KindCursorAhead, "event %d is not there yet: the last one is %d", after, run.LastSeq)
		}
		if after == run.LastSeq {
			ended = run.Status.Terminal()
			return nil
		}
		lines, err = s.core.Events(tx, after, pageLines)
		return err
	})
	if err != nil || len(lines) == 0 {
		return nil, ended, err
	}
	if first := markOf(lines[0]).Seq; first > after+1 {
		return append([][]byte{gapLine(id, first)}, lines...), false, nil
	}
	f.keep(after+1, lines)
	return lines, false, nil
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

// mark is what a follower needs of a line without decoding all of it.
type mark struct {
	Seq  int64              `json:"seq"`
	Type contract.EventType `json:"type"`
}

func markOf(line []byte) mark {
	var m mark
	_ = json.Unmarshal(line, &m) // the core stored it; a line that can't be read stands as number 0
	return m
}

// gapLine tells a reader that the events before first are no longer kept.
func gapLine(id contract.RunID, first int64) []byte {
	e := contract.NewEvent(0, contract.LogGap{FirstAvailableSeq: first})
	e.V, e.Seq, e.RunID = contract.EventVersion, first-1, id
	line, err := e.Encode()
	if err != nil {
		return nil // an event of plain numbers always encodes
	}
	return line
}
