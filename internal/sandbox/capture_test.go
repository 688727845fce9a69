package sandbox_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/sandbox"
)

func TestSH05CaptureKeepsBothEndsAndCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edge := rapid.IntRange(1, 20).Draw(t, "edge")
		parts := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 50)).Draw(t, "parts")
		c := sandbox.Capture{Edge: edge}
		var all []byte
		for _, p := range parts {
			if n, err := c.Write(p); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			all = append(all, p...)
		}
		head := all[:min(edge, len(all))]
		rest := all[len(head):]
		tail := rest[max(0, len(rest)-edge):]
		if !bytes.Equal(c.Head(), head) || !bytes.Equal(c.Tail(), tail) {
			t.Fatalf("edge %d of %q: head %q tail %q", edge, all, c.Head(), c.Tail())
		}
		if c.Total() != int64(len(all)) || c.Dropped() != int64(len(rest)-len(tail)) {
			t.Fatalf("total %d dropped %d", c.Total(), c.Dropped())
		}
		if c.Dropped() == 0 && !bytes.Equal(c.Bytes(), all) {
			t.Fatalf("nothing dropped, yet %q", c.Bytes())
		}
	})
}

func TestSH05CaptureMemoryIsBounded(t *testing.T) {
	var c sandbox.Capture
	chunk := bytes.Repeat([]byte("x"), 32<<10)
	_, _ = c.Write(chunk)
	for range 8 {
		_, _ = c.Write(chunk)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = c.Write(chunk) }); n > 0 {
		t.Errorf("%v allocations a write once full", n)
	}
	if !strings.Contains(c.String(), "bytes dropped") {
		t.Error("does not say what is gone")
	}
}
