package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/token"
)

const (
	pulseEvery = 3 * time.Second        // between heartbeats
	flushEvery = 100 * time.Millisecond // how long streamed text waits for company
	holdBytes  = 16 << 10               // how much of it
	batchBytes = 1 << 20                // of one append
	batchMost  = 200                    // events of one append
	waitLong   = 25                     // seconds of one poll for a decision
	takeTime   = 2 * time.Second        // how long Take waits for the control plane
)

// Causes of the end of a session's context.
var (
	// ErrCancel says that a caller asked for the end of the run.
	ErrCancel = errors.New("the run was cancelled")
	// ErrGone says that the control plane does not know this attempt any more: it has ended, or
	// another one took its place.
	ErrGone = errors.New("the run is over at the control plane")
)

// Session is the run of a box: [contract.Session] over the internal routes. It owns two goroutines,
// which have ended when Close returns.
type Session struct {
	run    contract.RunID
	tokens map[token.Audience]string
	line   *line
	stop   context.CancelCauseFunc

	lock chan struct{} // one sender at a time; guards what follows
	held []contract.Event
	size int   // bytes of held
	next int64 // client sequence number of the next event that is sent

	mailLock sync.Mutex
	mail     []contract.Message
	pulsing  sync.Mutex // one heartbeat at a time, so that messages stay in order

	done context.CancelFunc
	wg   sync.WaitGroup
}

// Open makes the session of an order and starts its heartbeat. The context it gives is the run's: it
// ends with [ErrCancel] or [ErrGone], or with ctx. The caller closes the session.
func Open(ctx context.Context, o Order, dial Dial) (*Session, context.Context) {
	run, stop := context.WithCancelCause(ctx)
	s := &Session{
		run: o.Run.ID, tokens: o.Tokens, line: newLine(dial), stop: stop, lock: make(chan struct{}, 1), next: 1,
	}
	life, done := context.WithCancel(context.WithoutCancel(ctx))
	s.done = done
	s.wg.Go(func() { s.beat(life) })
	s.wg.Go(func() { s.flush(life) })
	return s, run
}

// Close ends the goroutines and the connections. What is held is sent before by [Session.Report].
func (s *Session) Close() {
	s.done()
	s.wg.Wait()
	s.stop(context.Canceled)
	s.line.close()
}

// path is a route of this run.
func (s *Session) path(rest string) string { return "/internal/v1/runs/" + string(s.run) + rest }

// over notes errors that mean the end of the attempt.
func (s *Session) over(err error) error {
	switch contract.KindOf(err) {
	case contract.KindRunFinished, contract.KindFenced, contract.KindInactiveToken, contract.KindRunNotFound:
		s.stop(ErrGone)
	default:
	}
	return err
}

// Append implements [contract.Appender]. Streamed text by itself is held for a moment and is durable
// with the next other event.
func (s *Session) Append(ctx context.Context, events ...contract.Event) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	s.held = append(s.held, events...)
	for _, e := range events {
		s.size += len(e.Data)
	}
	if s.size < holdBytes && !slices.ContainsFunc(events, func(e contract.Event) bool { return !streamed(e) }) {
		return nil
	}
	return s.send(ctx)
}

func streamed(e contract.Event) bool {
	return e.Type == contract.TypeModelDelta || e.Type == contract.TypeToolOutput
}

func (s *Session) acquire(ctx context.Context) error {
	select {
	case s.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Session) release() { <-s.lock }

// send stores what is held. The caller holds the lock. A batch keeps its numbers until it is
// answered, so that sending it again changes nothing.
func (s *Session) send(ctx context.Context) error {
	for len(s.held) > 0 {
		n, size := 0, 0
		for n < len(s.held) && n < batchMost && (n == 0 || size+len(s.held[n].Data) < batchBytes) {
			size += len(s.held[n].Data)
			n++
		}
		var out control.Appended
		err := s.line.patient(ctx, exchange{
			method: http.MethodPost, path: s.path("/events"), token: s.tokens[token.Events],
			in: control.Batch{FirstClientSeq: s.next, Events: s.held[:n]}, out: &out,
		})
		if err != nil {
			return s.over(err)
		}
		s.next += int64(n)
		s.held, s.size = slices.Clone(s.held[n:]), s.size-size
		if out.CancelRequested {
			s.stop(ErrCancel)
		}
	}
	s.size = 0
	return nil
}

// flush sends streamed text that nothing else took along.
func (s *Session) flush(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.acquire(ctx) != nil {
			return
		}
		_ = s.send(ctx) // the next append meets the same error
		s.release()
	}
}

// beat keeps the lease and hears of cancels and messages.
func (s *Session) beat(ctx context.Context) {
	for {
		_ = s.pulse(ctx) // a control plane that is away is asked again
		select {
		case <-ctx.Done():
			return
		case <-time.After(pulseEvery - time.Duration(rand.Int64N(int64(pulseEvery/4)))):
		}
	}
}

func (s *Session) pulse(ctx context.Context) error {
	s.pulsing.Lock()
	defer s.pulsing.Unlock()
	var p control.Pulse
	err := s.line.once(ctx, exchange{method: http.MethodPost, path: s.path("/heartbeat"), token: s.tokens[token.Events], out: &p})
	if err != nil {
		return s.over(err)
	}
	s.mailLock.Lock()
	s.mail = append(s.mail, p.Messages...)
	s.mailLock.Unlock()
	if p.CancelRequested {
		s.stop(ErrCancel)
	}
	return nil
}

// Take implements [contract.Mailbox]. While the control plane is away it gives what came before.
func (s *Session) Take(ctx context.Context) ([]contract.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	_ = s.pulse(ctx) // the beat asks again
	s.mailLock.Lock()
	defer s.mailLock.Unlock()
	mail := s.mail
	s.mail = nil
	return mail, nil
}

// Ask implements [contract.Asker]. Asking again after a lost answer finds the same approval.
func (s *Session) Ask(ctx context.Context, a contract.Approval) (contract.Decision, error) {
	if err := s.acquire(ctx); err != nil {
		return contract.Decision{}, err
	}
	err := s.send(ctx) // text before the question belongs before it in the log
	s.release()
	if err != nil {
		return contract.Decision{}, err
	}
	q := exchange{method: http.MethodPost, path: s.path("/approvals"), token: s.tokens[token.Approvals], in: a}
	for {
		var standing contract.Approval
		q.out = &standing
		if err := s.line.patient(ctx, q); err != nil {
			return contract.Decision{}, s.over(err)
		}
		if standing.Decision != "" {
			d := contract.Decision{Verdict: standing.Decision, Note: standing.Note, By: standing.DecidedBy}
			if standing.DecidedAt != nil {
				d.At = *standing.DecidedAt
			}
			return d, nil
		}
		q = exchange{
			method: http.MethodGet, path: s.path("/approvals/" + standing.ID), query: "wait=" + itoa(waitLong), token: s.tokens[token.Approvals],
		}
	}
}

// Log implements [contract.Session].
func (s *Session) Log(ctx context.Context) iter.Seq2[contract.Event, error] {
	return func(yield func(contract.Event, error) bool) {
		after := int64(0)
		for n := 0; ; n++ {
			more, err := s.readLog(ctx, &after, yield)
			if !more {
				return
			}
			if !transient(err) || pause(ctx, n) != nil {
				yield(contract.Event{}, s.over(err))
				return
			}
		}
	}
}

// readLog reads the log from a number on. more is true when it broke and can be gone on with.
func (s *Session) readLog(ctx context.Context, after *int64, yield func(contract.Event, error) bool) (more bool, err error) {
	resp, err := s.line.do(ctx, exchange{
		method: http.MethodGet, path: s.path("/events"), query: "after=" + itoa(*after), token: s.tokens[token.Events],
	})
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		b, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(b) == 0 {
			return false, nil
		}
		if err != nil {
			return true, unavailable(ctx, err)
		}
		var e contract.Event
		if err := json.Unmarshal(b, &e); err != nil {
			return true, contract.Errorf(contract.KindUpstream, "the log has a line that is no event: %w", err)
		}
		*after = e.Seq
		if !yield(e, nil) {
			return false, nil
		}
	}
}

// Report sends what is held and then the end of the run, until the control plane has it or ctx ends.
func (s *Session) Report(ctx context.Context, e contract.Ending) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.release()
	if err := s.send(ctx); err != nil {
		return err
	}
	return s.line.patient(ctx, exchange{
		method: http.MethodPost, path: s.path("/result"), token: s.tokens[token.Events],
		in: control.Report{RunID: s.run, State: e.State, ExitCode: contract.ExitCode(e.State, e.Error), Result: e.Result, Error: e.Error},
	})
}
