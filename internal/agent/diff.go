package agent

import (
	"bytes"
	"fmt"
	"strings"
)

// maxDiffCells bounds the work of a diff: lines before times lines after, without what both have in
// common at the ends. Above it the whole middle is shown as replaced.
const maxDiffCells = 1 << 20

const diffContext = 3

// op is one line of an edit script: ' ', '-' or '+'.
type op struct {
	kind byte
	text string
}

// unifiedDiff shows a change for people. A CR at a line's end is kept, so that a changed line end shows.
func unifiedDiff(path string, before, after []byte, created bool) string {
	if bytes.IndexByte(before, 0) >= 0 || bytes.IndexByte(after, 0) >= 0 {
		return fmt.Sprintf("binary file %s changes from %d to %d bytes\n", path, len(before), len(after))
	}
	ops := script(splitLines(before), splitLines(after))
	var b strings.Builder
	from := "a/" + path
	if created {
		from = "/dev/null"
	}
	fmt.Fprintf(&b, "--- %s\n+++ b/%s\n", from, path)
	writeHunks(&b, ops)
	return b.String()
}

func splitLines(data []byte) []string {
	if len(data) == 0 {
		return nil
	}
	lines := strings.SplitAfter(string(data), "\n")
	if last := len(lines) - 1; lines[last] == "" {
		return lines[:last]
	}
	return lines
}

// script turns a into b with few changed lines.
func script(a, b []string) []op {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	ops := make([]op, 0, len(a)+len(b))
	for _, l := range a[:head] {
		ops = append(ops, op{' ', l})
	}
	ops = middle(ops, a[head:len(a)-tail], b[head:len(b)-tail])
	for _, l := range a[len(a)-tail:] {
		ops = append(ops, op{' ', l})
	}
	return ops
}

// middle appends the script of two lists by their longest common subsequence.
func middle(ops []op, a, b []string) []op {
	if len(a) > 0 && len(b) > maxDiffCells/len(a) {
		for _, l := range a {
			ops = append(ops, op{'-', l})
		}
		for _, l := range b {
			ops = append(ops, op{'+', l})
		}
		return ops
	}
	w := len(b) + 1
	common := make([]int32, (len(a)+1)*w)
	for i := len(a) - 1; i >= 0; i-- {
		for k := len(b) - 1; k >= 0; k-- {
			if a[i] == b[k] {
				common[i*w+k] = common[(i+1)*w+k+1] + 1
			} else {
				common[i*w+k] = max(common[(i+1)*w+k], common[i*w+k+1])
			}
		}
	}
	i, k := 0, 0
	for i < len(a) || k < len(b) {
		switch {
		case i < len(a) && k < len(b) && a[i] == b[k]:
			ops = append(ops, op{' ', a[i]})
			i, k = i+1, k+1
		case k == len(b) || i < len(a) && common[(i+1)*w+k] >= common[i*w+k+1]:
			ops = append(ops, op{'-', a[i]})
			i++
		default:
			ops = append(ops, op{'+', b[k]})
			k++
		}
	}
	return ops
}

// writeHunks groups changed lines that are near each other.
func writeHunks(b *strings.Builder, ops []op) {
	oldLine, newLine := 1, 1
	for i := 0; i < len(ops); {
		if ops[i].kind == ' ' {
			oldLine, newLine, i = oldLine+1, newLine+1, i+1
			continue
		}
		from := max(0, i-diffContext)
		end, quiet := i, 0
		for k := i; k < len(ops) && quiet <= 2*diffContext; k++ {
			if ops[k].kind == ' ' {
				quiet++
				continue
			}
			end, quiet = k+1, 0
		}
		to := min(len(ops), end+diffContext)
		lead := i - from
		olds, news := writeHunk(b, ops[from:to], oldLine-lead, newLine-lead)
		oldLine, newLine = oldLine-lead+olds, newLine-lead+news
		i = to
	}
}

func writeHunk(b *strings.Builder, ops []op, oldLine, newLine int) (olds, news int) {
	for _, o := range ops {
		if o.kind != '+' {
			olds++
		}
		if o.kind != '-' {
			news++
		}
	}
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", startLine(oldLine, olds), olds, startLine(newLine, news), news)
	for _, o := range ops {
		b.WriteByte(o.kind)
		b.WriteString(o.text)
		if !strings.HasSuffix(o.text, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
	return olds, news
}

// startLine is the line a hunk begins at: the one before it where the hunk has no line of that side.
func startLine(line, count int) int {
	if count == 0 {
		return line - 1
	}
	return line
}
