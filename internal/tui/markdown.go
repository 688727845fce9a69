package tui

import (
	"strings"
)

// scribe draws what a model wrote, line by line: headings, lists, quotes, fences, emphasis and code.
// It is our own and small, because the libraries for it cost every start of the program tens of
// milliseconds and turn character references such as &#27; into the characters themselves.
// The text must be safe already; nothing in it is hidden but the marks of emphasis.
type scribe struct {
	theme
	width int
	fence string
	out   []string
}

func (s *scribe) add(line string) {
	body := strings.TrimLeft(line, " ")
	if mark := fenceOf(body); mark != "" && (s.fence == "" || mark == s.fence) {
		if s.fence == "" {
			s.fence = mark
		} else {
			s.fence = ""
		}
		return
	}
	if s.fence == "" {
		s.out = append(s.out, s.markdownLine(line, body, s.width)...)
		return
	}
	for _, piece := range s.chop(line, s.width-2) {
		s.out = append(s.out, "  "+s.accent(piece))
	}
}

// markdown draws a whole text.
func (t theme) markdown(text string, width int) []string {
	s := scribe{theme: t, width: width}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		s.add(line)
	}
	return s.out
}

// stream draws a text that grows: lines that ended are drawn once.
type stream struct {
	scribe
	done string // the text that is drawn for good, up to a line break
}

func (s *stream) lines(text string) []string {
	rest, ok := strings.CutPrefix(text, s.done)
	if !ok {
		s.done, s.fence, s.out, rest = "", "", nil, text
	}
	for {
		line, more, found := strings.Cut(rest, "\n")
		if !found {
			break
		}
		s.add(line)
		rest = more
	}
	s.done = text[:len(text)-len(rest)]
	last := scribe{theme: s.theme, width: s.width, fence: s.fence}
	if rest != "" {
		last.add(rest)
	}
	return append(s.out[:len(s.out):len(s.out)], last.out...)
}

func fenceOf(body string) string {
	for _, f := range []string{"```", "~~~"} {
		if strings.HasPrefix(body, f) {
			return f
		}
	}
	return ""
}

func (t theme) markdownLine(line, body string, width int) []string {
	indent := len(line) - len(body)
	switch {
	case body == "":
		return []string{""}
	case strings.HasPrefix(body, "#"):
		if title := strings.TrimLeft(body, "#"); strings.HasPrefix(title, " ") {
			lines := t.words(strings.TrimSpace(title), width)
			for i := range lines {
				lines[i] = t.bold(lines[i])
			}
			return lines
		}
	case strings.HasPrefix(body, ">"):
		bar := t.sign("│ ", "| ")
		return indented(t.flow(inline(strings.TrimSpace(body[1:])), width-2), t.dim(bar), t.dim(bar))
	}
	if mark, rest := listMark(body); mark != "" {
		indent = min(indent, width/3)
		shown := mark
		if strings.ContainsAny(mark[:1], "-*+") {
			shown = t.sign("• ", "- ")
		}
		pad := strings.Repeat(" ", indent)
		return indented(t.flow(inline(rest), width-indent-len(mark)), pad+shown, pad+strings.Repeat(" ", len(mark)))
	}
	pad := strings.Repeat(" ", min(indent, width/3))
	return indented(t.flow(inline(body), width-len(pad)), pad, pad)
}

// listMark splits the mark of a list entry from its text, "" when the line is none.
func listMark(body string) (mark, rest string) {
	if len(body) > 1 && strings.ContainsAny(body[:1], "-*+") && body[1] == ' ' {
		return body[:2], strings.TrimLeft(body[2:], " ")
	}
	n := 0
	for n < len(body) && n < 4 && body[n] >= '0' && body[n] <= '9' {
		n++
	}
	if n > 0 && n+1 < len(body) && body[n] == '.' && body[n+1] == ' ' {
		return body[:n+2], body[n+2:]
	}
	return "", body
}

// span is a piece of text in one style: 'b' bold, 'i' italic, 'c' code, 0 plain.
type span struct {
	text  string
	style byte
}

// inline finds emphasis and code in a line. A mark without its partner stays as it is.
func inline(s string) []span {
	var out []span
	plain := 0
	for i := 0; i < len(s); {
		mark, style := markAt(s, i)
		if mark == "" {
			i++
			continue
		}
		inner := s[i+len(mark):]
		end := strings.Index(inner, mark)
		if end <= 0 || style != 'c' && (inner[0] == ' ' || inner[end-1] == ' ') {
			i += len(mark)
			continue
		}
		if i > plain {
			out = append(out, span{s[plain:i], 0})
		}
		out = append(out, span{inner[:end], style})
		i += 2*len(mark) + end
		plain = i
	}
	if plain < len(s) {
		out = append(out, span{s[plain:], 0})
	}
	return out
}

func markAt(s string, i int) (string, byte) {
	before := i == 0 || !wordByte(s[i-1])
	switch {
	case s[i] == '`':
		return "`", 'c'
	case strings.HasPrefix(s[i:], "**"):
		return "**", 'b'
	case s[i] == '*' && before:
		return "*", 'i'
	case strings.HasPrefix(s[i:], "__") && before:
		return "__", 'b'
	}
	return "", 0
}

func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

func (t theme) paint(s span) string {
	switch s.style {
	case 'b':
		return t.bold(s.text)
	case 'i':
		return t.italic(s.text)
	case 'c':
		return t.accent(s.text)
	}
	return s.text
}

// flow wraps styled pieces at spaces; every line ends the styles it began.
func (t theme) flow(spans []span, width int) []string {
	width = max(1, width)
	var lines []string
	var line strings.Builder
	used := 0
	next := func() {
		lines = append(lines, strings.TrimRight(line.String(), " "))
		line.Reset()
		used = 0
	}
	for _, s := range spans {
		for word := range strings.SplitAfterSeq(s.text, " ") {
			w := t.width(strings.TrimRight(word, " "))
			if used > 0 && used+w > width {
				next()
				word = strings.TrimLeft(word, " ")
			}
			pieces := t.chop(word, width)
			if w <= width {
				pieces = []string{word} // spaces at the end may stand over
			}
			for i, p := range pieces {
				if i > 0 {
					next()
				}
				line.WriteString(t.paint(span{p, s.style}))
				used += t.width(p)
			}
		}
	}
	next()
	return lines
}
