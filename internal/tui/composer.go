package tui

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rivumi/rivumi/internal/contract"
)

// burst is the time between two keys that no person types: what comes faster was pasted by a
// terminal that does not say so, and a line break in it is one of the text.
const burst = 25 * time.Millisecond

// most names a completion offers at once.
const offers = 5

// composer is where a person writes. A draft is lost by sending it only.
type composer struct {
	buffer
	history []string
	back    int    // how far into the history, 0 for the draft
	draft   string // what was written before the history was entered
	lastKey time.Time

	files  []string // names for completion, nil until asked for
	found  []string
	choice int
	closed bool // the completion was closed for this word
}

// key takes a key; now is when it came. It gives the text to send, "" for none.
func (c *composer) key(name, text string, now time.Time) string {
	fast := !c.lastKey.IsZero() && now.Sub(c.lastKey) < burst
	c.lastKey = now
	switch {
	case len(c.found) > 0 && c.complete(name):
	case name == "enter" && fast, name == "ctrl+j", name == "shift+enter", name == "alt+enter":
		c.insert("\n")
	case name == "enter":
		return c.take()
	case name == "up":
		if !c.vertical(false) {
			c.recall(1)
		}
	case name == "down":
		if !c.vertical(true) {
			c.recall(-1)
		}
	case text != "":
		c.insert(c.written(text))
	default:
		c.edit(name)
	}
	c.offer()
	return ""
}

// paste takes pasted text as it is; line breaks in it send nothing.
func (c *composer) paste(s string, now time.Time) {
	c.lastKey = now
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	c.insert(c.written(s))
	c.offer()
}

// written makes text fit for the draft: codes for what would not be seen, but for the joiners that
// make one picture of several emoji.
func (c *composer) written(s string) string {
	const joiner = "\u200d"
	var b strings.Builder
	before, _ := utf8.DecodeLastRuneInString(c.text[:c.at])
	for i, piece := range strings.Split(s, joiner) {
		after, _ := utf8.DecodeRuneInString(piece)
		if i > 0 && pictured(before) && (piece == "" || pictured(after)) {
			b.WriteString(joiner)
		} else if i > 0 {
			b.WriteString(contract.CleanText(joiner))
		}
		b.WriteString(contract.CleanText(piece))
		before, _ = utf8.DecodeLastRuneInString(piece)
	}
	return b.String()
}

// pictured reports whether a character may be part of an emoji that is joined from several.
func pictured(r rune) bool {
	return r == 0xfe0f || r >= 0x2600 && r < 0x2800 || r >= 0x1f000 && r < 0x20000
}

// take gives the draft away to be sent and remembers it.
func (c *composer) take() string {
	s := strings.TrimSpace(c.text)
	if s == "" {
		return ""
	}
	if n := len(c.history); n == 0 || c.history[n-1] != s {
		c.history = append(c.history, s)
	}
	c.set("")
	c.back, c.draft = 0, ""
	return s
}

// recall walks through what was sent before, by steps into the past.
func (c *composer) recall(by int) {
	to := c.back + by
	if to < 0 || to > len(c.history) {
		return
	}
	if c.back == 0 {
		c.draft = c.text
	}
	c.back = to
	if to == 0 {
		c.set(c.draft)
		return
	}
	c.set(c.history[len(c.history)-to])
}

// restore puts back a text that could not be sent, before what was written since.
func (c *composer) restore(s string) {
	if c.text != "" {
		s += "\n" + c.text
	}
	c.set(s)
}

// word gives the file name that is being written after an @, and where it begins.
func (c *composer) word() (prefix string, from int, ok bool) {
	start := strings.LastIndexAny(c.text[:c.at], " \t\n") + 1
	word := c.text[start:c.at]
	if !strings.HasPrefix(word, "@") {
		return "", 0, false
	}
	return word[1:], start + 1, true
}

// offer looks for names that fit what is written after an @.
func (c *composer) offer() {
	c.found = c.found[:0]
	prefix, _, ok := c.word()
	if !ok {
		c.closed = false
		return
	}
	if c.closed {
		return
	}
	var inside []string
	low := strings.ToLower(prefix)
	for _, f := range c.files {
		switch name := strings.ToLower(f); {
		case f == prefix:
		case strings.HasPrefix(name, low), strings.HasPrefix(name[strings.LastIndexByte(name, '/')+1:], low):
			c.found = append(c.found, f)
		case len(inside) < offers && strings.Contains(name, low):
			inside = append(inside, f)
		}
		if len(c.found) == offers {
			break
		}
	}
	c.found = append(c.found, inside...)
	c.found = c.found[:min(offers, len(c.found))]
	c.choice = min(c.choice, max(0, len(c.found)-1))
}

// complete takes the keys of an open list of names; false for a key of the draft.
func (c *composer) complete(name string) bool {
	switch name {
	case "tab", "enter":
		_, from, _ := c.word()
		pick := c.found[c.choice]
		c.text = c.text[:from] + pick + " " + c.text[c.at:]
		c.at = from + len(pick) + 1
	case "up":
		c.choice = max(0, c.choice-1)
	case "down":
		c.choice = min(len(c.found)-1, c.choice+1)
	case "esc":
		c.closed = true
	default:
		return false
	}
	return true
}

// asksFiles reports whether names are needed that were not listed yet.
func (c *composer) asksFiles() bool {
	_, _, ok := c.word()
	return ok && c.files == nil
}

// setFiles takes the listed names.
func (c *composer) setFiles(names []string) {
	c.files = slices.Clone(names)
	if c.files == nil {
		c.files = []string{}
	}
	c.offer()
}

// render gives at most height rows and where the cursor is among them.
func (c *composer) render(t theme, width, height int) (lines []string, x, y int) {
	const prompt = " > "
	rows, x, y := c.rows(t, width-len(prompt))
	first := 0
	if len(rows) > height {
		first = min(max(0, y-height+1), len(rows)-height)
		rows = rows[first : first+height]
	}
	return indented(rows, t.accent(prompt), "   "), x + len(prompt), y - first
}

// list draws the names that are offered.
func (c *composer) list(t theme, width int) []string {
	var out []string
	for i, f := range c.found {
		line := t.clip("   "+safeLine(f), width)
		if i == c.choice {
			line = t.mark(line)
		}
		out = append(out, line)
	}
	return out
}
