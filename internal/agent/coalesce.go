package agent

import (
	"bytes"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rivumi/rivumi/internal/contract"
)

// Coalescing of streamed text: a piece is sent 40 ms after its first byte, or at 1 KiB.
const (
	coalesceWait  = 40 * time.Millisecond
	coalesceBytes = 1 << 10
)

// coalescer gathers streamed bytes into clean pieces of text. It is safe for concurrent use, sends
// one piece at a time, and sends nothing after stop. Its timers run until stop has returned.
type coalescer struct {
	send func(text string) error
	max  int // bytes sent in all; 0: any. What is above is dropped, as the whole follows in the result.

	mu      sync.Mutex
	wg      sync.WaitGroup
	timer   *time.Timer
	buf     []byte
	sent    int
	stopped bool
	err     error
}

// Write implements io.Writer for commanders; it never fails.
func (c *coalescer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.max > 0 && c.sent+len(c.buf) >= c.max {
		return len(p), nil
	}
	room := p
	if c.max > 0 {
		room = p[:min(len(p), c.max-c.sent-len(c.buf))]
	}
	c.buf = append(c.buf, room...)
	switch {
	case len(c.buf) >= coalesceBytes:
		c.flush(false)
	case c.timer == nil:
		c.wg.Add(1)
		c.timer = time.AfterFunc(coalesceWait, c.fire)
	}
	return len(p), nil
}

func (c *coalescer) fire() {
	defer c.wg.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	if !c.stopped {
		c.flush(false)
	}
}

// flush sends what is gathered, but for a character that is not complete yet.
func (c *coalescer) flush(last bool) {
	n := len(c.buf)
	if !last {
		n -= unfinished(c.buf)
	}
	for n > 0 && c.err == nil {
		k := min(n, 16<<10)
		if k < n {
			k -= unfinished(c.buf[:k])
		}
		c.err = c.send(contract.CleanText(string(bytes.ReplaceAll(c.buf[:k], []byte("\r\n"), []byte("\n")))))
		c.sent += k
		c.buf = append(c.buf[:0], c.buf[k:]...)
		n -= k
	}
}

// stop ends the coalescer, sends the rest unless it is void, and gives the first error of send.
func (c *coalescer) stop(void bool) error {
	c.mu.Lock()
	if c.timer != nil && c.timer.Stop() {
		c.wg.Done()
	}
	c.timer = nil
	if !void && !c.stopped {
		c.flush(true)
	}
	c.stopped = true
	err := c.err
	c.mu.Unlock()
	c.wg.Wait()
	return err
}

// unfinished is how many bytes at the end begin a character that is not complete, or a CR whose LF may follow.
func unfinished(b []byte) int {
	if n := len(b); n > 0 && b[n-1] == '\r' {
		return 1
	}
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return i
			}
			return 0
		}
	}
	return 0
}
