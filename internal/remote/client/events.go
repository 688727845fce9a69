package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/r3labs/sse/v2"

	"github.com/rivumi/rivumi/internal/contract"
)

const (
	frameBytes = 4 << 20 // of one event on the wire
	firstWait  = 100 * time.Millisecond
	longWait   = 10 * time.Second
)

// Events implements [contract.Watcher]. It comes back by itself after every cut with the number it
// had, verifies that no event is missing, repeated or changed, and gives up only when the server
// refuses, or can't be reached for longer than its patience.
func (c *Client) Events(ctx context.Context, id contract.RunID, after int64) iter.Seq2[contract.Event, error] {
	return func(yield func(contract.Event, error) bool) {
		log := &tail{last: after}
		fails, heard := 0, time.Now()
		for {
			before := log.last
			err := c.connection(ctx, id, log, yield)
			switch {
			case errors.Is(err, errDone):
				return
			case ctx.Err() != nil:
				yield(contract.Event{}, context.Cause(ctx))
				return
			case err != nil && !passing(err):
				yield(contract.Event{}, err)
				return
			}
			if log.last > before || err == nil {
				fails, heard = 0, time.Now()
			}
			if err != nil && time.Since(heard) > c.opt.Patience {
				yield(contract.Event{}, err)
				return
			}
			wait := backoff(fails)
			fails++
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
	}
}

// errDone ends a follower: the log has ended, or nobody wants more of it.
var errDone = errors.New("done")

// passing reports whether a refusal may be gone in a moment.
func passing(err error) bool {
	switch contract.KindOf(err) {
	case contract.KindUnavailable, contract.KindTooManyRequests, contract.KindUpstream:
		return true
	default:
		return false
	}
}

// backoff doubles from firstWait to longWait, with half of it left to chance so that clients of a
// restarted server do not come back together.
func backoff(fails int) time.Duration {
	d := min(longWait, firstWait<<min(fails, 10))
	return d/2 + rand.N(d/2+1)
}

// connection follows the log over one connection. It returns nil when the connection ended cleanly
// without the end of the log, errDone at the end, else why it ended.
func (c *Client) connection(ctx context.Context, id contract.RunID, log *tail, yield func(contract.Event, error) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	frames := make(chan []byte)
	var result error
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer close(frames)
		result = c.readFrames(ctx, cancel, id, log.last, frames)
	}()
	// Also when the loop's body panics: the reader is waited for.
	defer func() {
		cancel(errDone)
		<-finished
	}()
	for frame := range frames {
		e, err := log.next(frame)
		if err != nil {
			return err
		}
		if !yield(e, nil) || e.Ends() {
			return errDone
		}
	}
	<-finished
	return result
}

// readFrames hands over the data of every frame of one connection. The library reads and parses; it
// is not left to reconnect (a fresh client for each connection, a strategy that stops at once).
func (c *Client) readFrames(ctx context.Context, cancel context.CancelCauseFunc, id contract.RunID, after int64, frames chan<- []byte) error {
	silent := time.AfterFunc(c.opt.Silence, func() {
		cancel(contract.Errorf(contract.KindUnavailable, "the server sent nothing for %s", c.opt.Silence))
	})
	defer silent.Stop()
	reader := sse.NewClient(c.base+runPath(id, "events")+"?stream=1", sse.ClientMaxBufferSize(frameBytes))
	reader.Connection = c.http
	reader.Headers = c.headers()
	reader.LastEventID.Store([]byte(strconv.FormatInt(after, 10)))
	reader.ReconnectStrategy = once{}
	var refused error
	reader.ResponseValidator = func(_ *sse.Client, resp *http.Response) error {
		if resp.StatusCode == http.StatusOK {
			resp.Body = &noted{ReadCloser: resp.Body, note: func() { silent.Reset(c.opt.Silence) }}
			return nil
		}
		defer resp.Body.Close()
		if refused = errDone; resp.StatusCode != http.StatusNoContent {
			refused = problemOf(resp)
		}
		return refused
	}
	err := reader.SubscribeRawWithContext(ctx, func(m *sse.Event) {
		if len(m.Data) == 0 {
			return
		}
		select {
		case frames <- m.Data:
		case <-ctx.Done():
		}
	})
	switch {
	case refused != nil:
		return refused
	case errors.Is(err, bufio.ErrTooLong):
		return contract.Errorf(contract.KindTooLarge, "an event of the log is longer than %d bytes", frameBytes)
	case err != nil || ctx.Err() != nil:
		return c.unreachable(ctx, err)
	}
	return nil
}

// once is a reconnect strategy that stops at once.
type once struct{}

// NextBackOff tells the library not to try again.
func (once) NextBackOff() time.Duration { return -1 }

// Reset does nothing.
func (once) Reset() {}

// noted tells of every byte that comes, comments included.
type noted struct {
	io.ReadCloser
	note func()
}

// Read implements [io.Reader].
func (n *noted) Read(b []byte) (int, error) {
	k, err := n.ReadCloser.Read(b)
	if k > 0 {
		n.note()
	}
	return k, err
}

// tail is what a follower knows of the log so far.
type tail struct {
	last int64
	hash string // chain hash of the last line, "" while it is not known
}

// next decodes the line of a frame and checks that it is the one that comes next.
func (t *tail) next(line []byte) (contract.Event, error) {
	e, err := contract.DecodeEvent(line)
	if err != nil {
		// A cut connection hands over half a frame; the whole one comes with the next connection.
		return contract.Event{}, contract.Errorf(contract.KindUnavailable, "an event arrived torn: %w", err)
	}
	if e.Type == contract.TypeLogGap {
		if e.Seq < t.last {
			return e, contract.Errorf(contract.KindConflict, "the log goes back from event %d to %d", t.last, e.Seq)
		}
		t.last, t.hash = e.Seq, ""
		return e, nil
	}
	if e.Seq != t.last+1 {
		return e, contract.Errorf(contract.KindConflict, "event %d of the log came where %d is next", e.Seq, t.last+1)
	}
	if t.hash != "" && e.Prev != t.hash || e.Seq == 1 && e.Prev != "" {
		return e, contract.Errorf(contract.KindConflict, "the chain of the log is broken at event %d: events before it were changed", e.Seq)
	}
	t.last, t.hash = e.Seq, contract.ChainHash(line)
	return e, nil
}
