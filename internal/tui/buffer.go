package tui

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// buffer is text with a cursor. It moves and deletes by what a person sees as one character.
// The cursor is a byte offset, always between two of them.
type buffer struct {
	text string
	at   int
}

func (b *buffer) set(s string) { b.text, b.at = s, len(s) }

func (b *buffer) insert(s string) {
	b.text = b.text[:b.at] + s + b.text[b.at:]
	b.at += len(s)
	b.settle()
}

// settle moves the cursor to the end of the character it is in, as a joined one may have come about.
func (b *buffer) settle() {
	for at := b.lineStart(); at < len(b.text) && at < b.at; {
		c, _ := ansi.FirstGraphemeCluster(b.text[at:], ansi.GraphemeWidth)
		if at+len(c) > b.at {
			b.at = at + len(c)
			return
		}
		at += len(c)
	}
}

func (b *buffer) lineStart() int { return strings.LastIndexByte(b.text[:b.at], '\n') + 1 }

func (b *buffer) lineEnd() int {
	if i := strings.IndexByte(b.text[b.at:], '\n'); i >= 0 {
		return b.at + i
	}
	return len(b.text)
}

// before is where the character left of the cursor begins.
func (b *buffer) before() int {
	if b.at == 0 {
		return 0
	}
	if b.text[b.at-1] == '\n' {
		return b.at - 1
	}
	last := b.lineStart()
	for at := last; at < b.at; {
		last = at
		c, _ := ansi.FirstGraphemeCluster(b.text[at:b.at], ansi.GraphemeWidth)
		at += max(1, len(c))
	}
	return last
}

// after is where the character right of the cursor ends.
func (b *buffer) after() int {
	if b.at >= len(b.text) || b.text[b.at] == '\n' {
		return min(len(b.text), b.at+1)
	}
	c, _ := ansi.FirstGraphemeCluster(b.text[b.at:], ansi.GraphemeWidth)
	return b.at + max(1, len(c))
}

func (b *buffer) wordBefore() int {
	s := strings.TrimRightFunc(b.text[:b.at], unicode.IsSpace)
	i := strings.LastIndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return 0
	}
	_, size := utf8.DecodeRuneInString(s[i:])
	return i + size
}

func (b *buffer) wordAfter() int {
	rest := b.text[b.at:]
	word := strings.TrimLeftFunc(rest, unicode.IsSpace)
	if i := strings.IndexFunc(word, unicode.IsSpace); i >= 0 {
		return b.at + len(rest) - len(word) + i
	}
	return len(b.text)
}

func (b *buffer) cut(from, to int) {
	b.text = b.text[:from] + b.text[to:]
	b.at = from
	b.settle()
}

// edit does what a key of editing means; false for a key that means nothing here.
func (b *buffer) edit(key string) bool {
	switch key {
	case "left", "ctrl+b":
		b.at = b.before()
	case "right", "ctrl+f":
		b.at = b.after()
	case "alt+left", "ctrl+left", "alt+b":
		b.at = b.wordBefore()
	case "alt+right", "ctrl+right", "alt+f":
		b.at = b.wordAfter()
	case "home", "ctrl+a":
		b.at = b.lineStart()
	case "end":
		b.at = b.lineEnd()
	case "backspace", "ctrl+h":
		b.cut(b.before(), b.at)
	case "delete":
		b.cut(b.at, b.after())
	case "ctrl+w", "alt+backspace":
		b.cut(b.wordBefore(), b.at)
	case "ctrl+u":
		b.cut(b.lineStart(), b.at)
	case "ctrl+k":
		b.cut(b.at, b.lineEnd())
	default:
		return false
	}
	return true
}

// vertical moves the cursor a line up or down, keeping its column; false at the first or last line.
func (b *buffer) vertical(down bool) bool {
	start := b.lineStart()
	column := ansi.StringWidth(b.text[start:b.at])
	if down {
		end := b.lineEnd()
		if end == len(b.text) {
			return false
		}
		b.at = end + 1
	} else {
		if start == 0 {
			return false
		}
		b.at = start - 1
		b.at = b.lineStart()
	}
	for b.at < b.lineEnd() && ansi.StringWidth(b.text[b.lineStart():b.after()]) <= column {
		b.at = b.after()
	}
	return true
}

// rows wraps the text to a width and finds the cursor among the rows.
func (b *buffer) rows(t theme, width int) (rows []string, x, y int) {
	pos := 0
	for line := range strings.SplitSeq(b.text, "\n") {
		for i, piece := range t.chop(line, width) {
			if b.at >= pos && b.at <= pos+len(piece) {
				x, y = t.width(shown(piece[:b.at-pos])), len(rows)
			}
			rows = append(rows, shown(piece))
			pos += len(piece)
			_ = i
		}
		pos++
	}
	if x >= width {
		if y == len(rows)-1 {
			rows = append(rows, "")
		}
		x, y = 0, y+1
	}
	return rows, x, y
}

// shown is a piece of the draft as it is drawn.
func shown(s string) string { return strings.ReplaceAll(s, "\t", " ") }
