package agent

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/sandbox"
)

// Bounds of tool output: to the model, in the event of a result, and in the artifact of a stream.
const (
	modelBytes    = 16 << 10
	modelLines    = 400
	modelHead     = 6 << 10
	modelTail     = 10 << 10
	eventBytes    = 24 << 10
	diffBytes     = 32 << 10
	artifactBytes = 50 << 10
	artifactLines = 2000
	lineBytes     = 2000
)

// bounds say how much of a text is kept.
type bounds struct {
	whole, lines int // kept whole up to this many bytes and lines
	head, tail   int // bytes of the ends otherwise
	width        int // bytes of a single line; 0: any
	note         string
}

func modelBounds(note string) bounds {
	return bounds{whole: modelBytes, lines: modelLines, head: modelHead, tail: modelTail, width: lineBytes, note: note}
}

func artifactBounds() bounds {
	return bounds{whole: artifactBytes, lines: artifactLines, head: artifactBytes / 2, tail: artifactBytes / 2}
}

func eventBounds(n int) bounds { return bounds{whole: n, head: n / 3, tail: n - n/3} }

func tailOnly(n int) bounds { return bounds{whole: n, tail: n, width: lineBytes} }

// clip cuts clean text to its bounds at line ends, with a line between that says what is gone.
func clip(s string, b bounds) string {
	if b.width > 0 {
		s = narrow(s, b.width)
	}
	if len(s) <= b.whole && (b.lines == 0 || strings.Count(s, "\n") < b.lines) {
		return s
	}
	headLines, tailLines := 0, 0
	if b.lines > 0 {
		headLines, tailLines = b.lines*3/8, b.lines-b.lines*3/8
	}
	head := headOf(s, b.head, headLines)
	tail := tailOf(s[len(head):], b.tail, tailLines)
	gone := s[len(head) : len(s)-len(tail)]
	if gone == "" {
		return s
	}
	mark := fmt.Sprintf("[%d lines, %d bytes left out%s]\n", strings.Count(gone, "\n"), len(gone), b.note)
	if head != "" && !strings.HasSuffix(head, "\n") {
		mark = "\n" + mark
	}
	return head + mark + tail
}

func narrow(s string, width int) string {
	if len(s) <= width {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = cutLine(l, width)
	}
	return strings.Join(lines, "\n")
}

// headOf gives at most n bytes and lines lines (0: any) of the beginning, ending with a line where one fits.
func headOf(s string, n, lines int) string {
	cut := min(n, len(s))
	if i := nthLine(s[:cut], lines); i >= 0 {
		return s[:i]
	}
	if cut == len(s) {
		return s
	}
	if i := strings.LastIndexByte(s[:cut], '\n'); i >= 0 {
		return s[:i+1]
	}
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// nthLine is where line n (counting from 1) of s ends, -1 when s has fewer or n is 0.
func nthLine(s string, n int) int {
	if n <= 0 {
		return -1
	}
	at := 0
	for range n {
		i := strings.IndexByte(s[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
	}
	return at
}

// tailOf gives at most n bytes and lines lines (0: any) of the end, beginning with a line where one fits.
func tailOf(s string, n, lines int) string {
	from := max(0, len(s)-n)
	if from > 0 {
		if i := strings.IndexByte(s[from:], '\n'); i >= 0 && from+i+1 < len(s) {
			from += i + 1
		}
		for from < len(s) && !utf8.RuneStart(s[from]) {
			from++
		}
	}
	if over := strings.Count(s[from:], "\n") - lines; lines > 0 && over > 0 {
		if i := nthLine(s[from:], over); i >= 0 {
			from += i
		}
	}
	return s[from:]
}

// cleanStream is what a capture kept, as clean text with LF line ends.
func cleanStream(c *sandbox.Capture) string {
	return contract.CleanText(string(bytes.ReplaceAll(c.Bytes(), []byte("\r\n"), []byte("\n"))))
}

// join puts the two streams one after the other as the model sees them.
func joinStreams(stdout, stderr string) string {
	switch {
	case stderr == "":
		return stdout
	case stdout == "":
		return "[stderr]\n" + stderr
	}
	return strings.TrimSuffix(stdout, "\n") + "\n[stderr]\n" + stderr
}
