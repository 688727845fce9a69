package sandbox

import "fmt"

// CaptureEdge is how many bytes a [Capture] keeps at each end of a stream when it does not say.
const CaptureEdge = 64 << 10

// Capture is a writer that keeps the first and the last bytes of a stream and counts the rest. It
// holds at most 2×Edge bytes however much is written. The zero value keeps [CaptureEdge] bytes at
// each end. It is not safe for concurrent use; one stream writes one Capture.
type Capture struct {
	Edge int // bytes kept at each end; 0: CaptureEdge

	head  []byte
	tail  []byte // a ring once it is full
	next  int    // where the ring's oldest byte is
	total int64
}

// Write takes p whole and never fails.
func (c *Capture) Write(p []byte) (int, error) {
	n, edge := len(p), c.edge()
	c.total += int64(n)
	if room := edge - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > edge {
		p = p[len(p)-edge:]
		c.tail, c.next = append(c.tail[:0], p...), 0
		return n, nil
	}
	if room := edge - len(c.tail); room > 0 {
		k := min(room, len(p))
		c.tail = append(c.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(c.tail[c.next:], p)
		c.next = (c.next + k) % edge
		p = p[k:]
	}
	return n, nil
}

func (c *Capture) edge() int {
	if c.Edge > 0 {
		return c.Edge
	}
	return CaptureEdge
}

// Total is how many bytes were written.
func (c *Capture) Total() int64 { return c.total }

// Dropped is how many bytes in the middle are gone.
func (c *Capture) Dropped() int64 { return c.total - int64(len(c.head)) - int64(len(c.tail)) }

// Head gives the first bytes of the stream. It stays owned by the Capture.
func (c *Capture) Head() []byte { return c.head }

// Tail gives a copy of the last bytes that are not part of Head.
func (c *Capture) Tail() []byte {
	out := make([]byte, 0, len(c.tail))
	out = append(out, c.tail[c.next:]...)
	return append(out, c.tail[:c.next]...)
}

// Bytes gives head and tail, and between them, where bytes are gone, a line that says how many.
func (c *Capture) Bytes() []byte {
	out := append([]byte(nil), c.head...)
	if d := c.Dropped(); d > 0 {
		out = fmt.Appendf(out, "\n[%d bytes dropped]\n", d)
	}
	return append(out, c.Tail()...)
}

// String is Bytes as text; it may hold bytes that are not valid UTF-8.
func (c *Capture) String() string { return string(c.Bytes()) }
