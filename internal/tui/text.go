package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/rivumi/rivumi/internal/contract"
)

// tabs are shown as this many cells at most, to the next stop.
const tabStop = 4

// safe makes untrusted text of several lines showable: codes for control characters, spaces for tabs.
func safe(s string) string {
	s = contract.CleanText(strings.ReplaceAll(s, "\r\n", "\n"))
	if !strings.Contains(s, "\t") {
		return s
	}
	var b strings.Builder
	col := 0
	for _, r := range s {
		switch r {
		case '\t':
			n := tabStop - col%tabStop
			b.WriteString(strings.Repeat(" ", n))
			col += n
			continue
		case '\n':
			col = -1
		}
		b.WriteRune(r)
		col++
	}
	return b.String()
}

// safeLine is safe for text that has to stay on one line.
func safeLine(s string) string {
	return contract.CleanText(strings.NewReplacer("\r", " ", "\n", " ", "\t", " ").Replace(s))
}

// exact shows text that a person decides about: nothing of it is turned into something else that
// could be there. Tabs stand as codes too; lines stay lines.
func exact(s string) string {
	return strings.ReplaceAll(contract.CleanText(s), "\t", `\t`)
}

// chop cuts a plain line into pieces of at most width cells, keeping every character.
func (t theme) chop(line string, width int) []string {
	width = max(1, width)
	if t.width(line) <= width {
		return []string{line}
	}
	var out []string
	start, used := 0, 0
	for at := 0; at < len(line); {
		cluster, w := ansi.FirstGraphemeCluster(line[at:], t.method)
		if used+w > width && used > 0 {
			out = append(out, line[start:at])
			start, used = at, 0
		}
		at += len(cluster)
		used += w
	}
	return append(out, line[start:])
}

// words wraps a plain line at spaces; a word longer than a line is cut.
func (t theme) words(line string, width int) []string {
	width = max(1, width)
	if t.width(line) <= width {
		return []string{line}
	}
	var out []string
	for len(line) > 0 {
		piece := t.chop(line, width)[0]
		if len(piece) == len(line) {
			return append(out, line)
		}
		if line[len(piece)] != ' ' {
			if at := strings.LastIndexByte(piece, ' '); at > 0 && strings.TrimSpace(piece[:at]) != "" {
				piece = piece[:at]
			}
		}
		out = append(out, strings.TrimRight(piece, " "))
		line = strings.TrimLeft(line[len(piece):], " ")
	}
	return out
}

// paragraphs wraps every line of a text.
func (t theme) paragraphs(text string, width int) []string {
	var out []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		out = append(out, t.words(line, width)...)
	}
	return out
}

// indented puts the first prefix before the first line and the second before all others.
func indented(lines []string, first, rest string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		if i == 0 {
			out[i] = first + l
		} else {
			out[i] = rest + l
		}
	}
	return out
}
