package tui

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// row is one line of a diff. Kind is '+', '-', ' ' for lines of the file, '@' for the head of a
// hunk, '!' for what git says besides. Old and New number the line, 0 where it is not there.
type row struct {
	kind     byte
	old, new int
	text     string
}

// filePatch is the part of a patch that changes one file.
type filePatch struct {
	path string
	rows []row
}

// filesOf splits a git patch by file. It never fails: what it does not know is shown as it is.
func filesOf(patch string) []filePatch {
	var out []filePatch
	for part := range strings.SplitSeq("\n"+patch, "\ndiff --git ") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		head, body, _ := strings.Cut(part, "\n")
		f := filePatch{path: pathOf(head, body)}
		f.rows = rowsOf(body)
		out = append(out, f)
	}
	return out
}

// pathOf finds the name of the changed file: the one after the change, or before a deletion.
func pathOf(head, body string) string {
	path := ""
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, "@@") || strings.HasPrefix(line, "GIT binary") {
			break
		}
		for _, p := range []string{"+++ ", "--- ", "rename to "} {
			name, ok := strings.CutPrefix(line, p)
			name = strings.TrimSuffix(name, "\t")
			if ok && name != "/dev/null" && (path == "" || p == "+++ ") {
				path = unquote(name, p != "rename to ")
			}
		}
	}
	if path == "" {
		half := strings.TrimSuffix(head[len(head)/2:], "\"")
		_, path, _ = strings.Cut(half, "b/") // a file without lines: both halves name it
	}
	return path
}

func unquote(name string, prefix bool) string {
	if strings.HasPrefix(name, `"`) {
		if s, err := strconv.Unquote(name); err == nil {
			name = s
		}
	}
	if prefix && len(name) > 2 {
		return name[2:]
	}
	return name
}

// rowsOf reads the hunks of one file.
func rowsOf(body string) []row {
	var out []row
	before, after, inside := 0, 0, false
	for line := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "@@"):
			before, after = hunkStart(line)
			inside = true
			out = append(out, row{kind: '@', text: line})
		case !inside:
			if r, ok := preamble(line); ok {
				out = append(out, r)
			}
		case strings.HasPrefix(line, "+"):
			out = append(out, row{kind: '+', new: after, text: line[1:]})
			after++
		case strings.HasPrefix(line, "-"):
			out = append(out, row{kind: '-', old: before, text: line[1:]})
			before++
		case strings.HasPrefix(line, `\`):
			out = append(out, row{kind: '!', text: line[1:]})
		default:
			out = append(out, row{kind: ' ', old: before, new: after, text: strings.TrimPrefix(line, " ")})
			before, after = before+1, after+1
		}
	}
	return out
}

// preamble keeps of the lines before the first hunk what says more than the names.
func preamble(line string) (row, bool) {
	for _, p := range []string{"new file", "deleted file", "old mode", "new mode", "rename", "GIT binary", "Binary files"} {
		if strings.HasPrefix(line, p) {
			return row{kind: '!', text: line}, true
		}
	}
	return row{}, false
}

func hunkStart(line string) (before, after int) {
	f := strings.Fields(line)
	if len(f) < 3 {
		return 0, 0
	}
	number := func(s string) int {
		s, _, _ = strings.Cut(strings.TrimLeft(s, "+-"), ",")
		n, _ := strconv.Atoi(s)
		return n
	}
	return number(f[1]), number(f[2])
}

// row draws one line of a unified diff.
func (t theme) row(r row, width int) string {
	text := safe(r.text)
	bar := t.sign("│", "|")
	switch r.kind {
	case '@':
		return t.dim(t.clip(text, width))
	case '!':
		return t.dim(t.clip("       "+text, width))
	case '+':
		return t.dim(fmt.Sprintf("%5d %s", r.new, bar)) + t.good(t.clip("+"+text, width-7))
	case '-':
		return t.dim(fmt.Sprintf("%5d %s", r.old, bar)) + t.bad(t.clip("-"+text, width-7))
	}
	return t.dim(fmt.Sprintf("%5d %s", r.new, bar)) + t.clip(" "+text, width-7)
}

// unified draws rows one below the other; long lines are wrapped, so that nothing is out of sight.
func (t theme) unified(rows []row, width int) []string {
	var out []string
	for _, r := range rows {
		if r.kind == '@' || r.kind == '!' || t.width(r.text)+8 <= width {
			out = append(out, t.row(r, width))
			continue
		}
		for i, piece := range t.chop(safe(r.text), width-8) {
			part := r
			part.text = piece
			line := t.row(part, width)
			if i > 0 {
				line = t.dim("      "+t.sign("┊", ":")) + t.styled(r.kind)(" "+piece)
			}
			out = append(out, line)
		}
	}
	return out
}

func (t theme) styled(kind byte) func(string) string {
	switch kind {
	case '+':
		return t.good
	case '-':
		return t.bad
	}
	return func(s string) string { return s }
}

// split draws rows side by side: what was, and what is.
func (t theme) split(rows []row, width int) []string {
	half := (width - 1) / 2
	var out []string
	for i := 0; i < len(rows); {
		r := rows[i]
		if r.kind == '@' || r.kind == '!' {
			out = append(out, t.row(r, width))
			i++
			continue
		}
		var minus, plus []row
		for i < len(rows) && rows[i].kind == '-' {
			minus = append(minus, rows[i])
			i++
		}
		for i < len(rows) && rows[i].kind == '+' {
			plus = append(plus, rows[i])
			i++
		}
		if len(minus)+len(plus) == 0 {
			minus, plus = rows[i:i+1], rows[i:i+1]
			i++
		}
		for n := range max(len(minus), len(plus)) {
			out = append(out, t.side(minus, n, half, true)+t.dim(t.sign("│", "|"))+t.side(plus, n, width-half-1, false))
		}
	}
	return out
}

// side draws one half of a row, empty where there is none.
func (t theme) side(rows []row, n, width int, before bool) string {
	if n >= len(rows) {
		return strings.Repeat(" ", width)
	}
	r := rows[n]
	number := r.new
	if before {
		number = r.old
	}
	text := t.pad(string(r.kind)+safe(r.text), width-6)
	return t.dim(fmt.Sprintf("%5d ", number)) + t.styled(r.kind)(text)
}

// counts writes how many lines a file gained and lost.
func (t theme) counts(f contract.FileChange) string {
	if f.Additions < 0 || f.Deletions < 0 {
		return t.dim("binary")
	}
	return t.good(fmt.Sprintf("+%d", f.Additions)) + " " + t.bad(fmt.Sprintf("-%d", f.Deletions))
}
