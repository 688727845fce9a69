package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// plain is a drawn line without its styles.
func plain(s string) string { return ansi.Strip(s) }

// render draws the review: the verdict, checks, files, and the diff of the file that is picked.
func (v *review) render(t theme, width, height int, toast string) []string {
	head := []string{v.head(t, width)}
	switch {
	case v.err != nil:
		return append(head, "", " "+t.bad(safeLine(v.err.Error())), "", t.dim(" esc back"))
	case !v.ready:
		return append(head, "", t.dim(" reading"))
	}
	rules := height >= 14
	if rules {
		head = append(head, t.rule(width, "", ""))
	}
	head = append(head, v.checkLines(t, width, max(1, height/6))...)
	head = append(head, v.fileLines(t, width, max(2, height/4))...)
	if rules {
		head = append(head, t.rule(width, safeLine(v.title()), v.place(t)))
	}
	foot := v.footLines(t, width, toast)
	if rules {
		foot = append([]string{t.rule(width, "", "")}, foot...)
	}
	v.height = max(1, height-len(head)-len(foot))
	v.draw(t, width)
	v.from = min(v.from, max(0, len(v.drawn)-v.height))
	body := v.drawn[v.from:min(len(v.drawn), v.from+v.height)]
	lines := append(head, v.marked(t, body)...)
	return append(padded(lines, max(0, height-len(foot))), foot...)
}

func (v *review) head(t theme, width int) string {
	r := v.run
	p := view.Picture{State: r.Status, Usage: r.Usage}
	left := " " + string(r.Status)
	if r.Status.Terminal() {
		p.Ended = &contract.RunEnded{State: r.Status, Result: r.Result, Error: r.Error}
		left = " " + t.verdict(p)
	}
	parts := []string{left, fmt.Sprintf("%d steps", r.Usage.Steps)}
	if r.StartedAt != nil && r.EndedAt != nil {
		parts = append(parts, view.Length(r.EndedAt.Sub(r.StartedAt.Time).Truncate(time.Second/10)))
	}
	if r.Usage.CostUSD != nil {
		parts = append(parts, view.Cost(*r.Usage.CostUSD))
	}
	right := t.dim("run " + r.ID.Short())
	return t.ends(t.fit(parts, width-t.width(right)-2), right, width)
}

func (v *review) checkLines(t theme, width, most int) []string {
	checks := v.checks()
	if len(checks) == 0 {
		return []string{t.clip(" checks   "+t.warn("none was asked: nothing is verified"), width)}
	}
	var out []string
	for i, c := range checks {
		label := "         "
		if i == 0 {
			label = " checks  "
		}
		if i == most-1 && len(checks) > most {
			return append(out, t.dim(fmt.Sprintf("%s %d more", label, len(checks)-i)))
		}
		sign, word := t.ok(), fmt.Sprintf("exit %d", c.ExitCode)
		if !c.Passed {
			sign, word = t.failed(), t.bad(word)
		}
		if c.TimedOut {
			word = t.bad("timed out")
		}
		took := t.dim(t.dot() + view.Length(time.Duration(c.DurationMS)*time.Millisecond))
		out = append(out, t.clip(label+sign+" "+safeLine(strings.Join(c.Argv, " "))+"  "+word+took, width))
	}
	for _, f := range v.run.Result.ChecksInputsChanged {
		out = append(out, t.clip("          "+t.warn("! the checks read "+safeLine(f)+", which the agent changed"), width))
	}
	return out
}

func (v *review) fileLines(t theme, width, most int) []string {
	files := v.files()
	if len(files) == 0 {
		return []string{" files    none changed"}
	}
	first := min(max(0, v.file-most/2), max(0, len(files)-most))
	var out []string
	for i := first; i < min(len(files), first+most); i++ {
		f := files[i]
		label := "         "
		if i == first {
			label = " files   "
		}
		point := "  "
		if i == v.file {
			point = t.you() + " "
		}
		later := ""
		if v.later != nil && v.later(f.Path) {
			later = "  " + t.warn("! runs code later")
		}
		name := safeLine(f.Path)
		if f.OldPath != "" {
			name = safeLine(f.OldPath) + " -> " + name
		}
		out = append(out, t.clip(label+point+v.letter(t, f)+" "+name+"  "+t.counts(f)+later, width))
	}
	if left := len(files) - len(out); left > 0 {
		out[len(out)-1] = t.ends(out[len(out)-1], t.dim(fmt.Sprintf("%d of %d files", len(out), len(files))), width)
	}
	return out
}

func (v *review) title() string {
	if v.showing != "" {
		return "output " + v.showing
	}
	return v.current()
}

// place says how far into the diff one is.
func (v *review) place(t theme) string {
	if len(v.drawn) <= v.height {
		return ""
	}
	return t.dim(fmt.Sprintf("%d-%d of %d", v.from+1, min(len(v.drawn), v.from+v.height), len(v.drawn)))
}

// draw makes the lines of the diff or output that is shown, once for its width.
func (v *review) draw(t theme, width int) {
	key := fmt.Sprintf("%d %t %d %s", v.file, v.sides, width, v.showing)
	if v.drawn != nil && v.key == key {
		return
	}
	v.key = key
	switch p, ok := v.patches[v.current()]; {
	case v.showing != "":
		v.drawn = []string{t.dim(" reading")}
		if lines := v.outputs[v.showing]; lines != nil {
			v.drawn = nil
			for _, l := range lines {
				v.drawn = append(v.drawn, indented(t.chop(l, width-2), " ", " ")...)
			}
		}
	case !ok:
		v.drawn = []string{t.dim(" no lines to show")}
	case v.sides && width >= 60:
		v.drawn = t.split(p.rows, width)
	default:
		v.drawn = t.unified(p.rows, width)
	}
}

// marked shows the lines that hold the searched text.
func (v *review) marked(t theme, lines []string) []string {
	if v.search == "" {
		return lines
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l
		if text := plain(l); strings.Contains(strings.ToLower(text), strings.ToLower(v.search)) {
			out[i] = t.mark(text)
		}
	}
	return out
}

// footLines are what the keys do, or the question that is asked.
func (v *review) footLines(t theme, width int, toast string) []string {
	var out []string
	if toast != "" {
		out = append(out, t.clip(toast, width))
	}
	if v.asking != "" {
		return append(out, t.clip(" "+t.bold(string(v.asking)+": ")+safeLine(v.answer.text)+t.mark(" "), width))
	}
	marked := 0
	for _, on := range v.chosen {
		if on {
			marked++
		}
	}
	apply := "apply"
	if marked > 0 {
		apply = fmt.Sprintf("apply %d marked", marked)
	}
	if v.applied {
		apply = "apply again"
	}
	keys := [][2]string{
		{"a", apply},
		{"c", "commit"},
		{"b", "branch"},
		{"q", "keep for later"},
		{"D", "discard"},
		{"m", "message, go on"},
		{"space", "mark"},
		{"s", "sides"},
		{"/", "search"},
		{"o", "output"},
		{"?", "help"},
	}
	var line strings.Builder
	for _, k := range keys {
		part := " " + t.bold("["+k[0]+"]") + " " + k[1] + " "
		if t.width(line.String())+t.width(part) > width {
			break
		}
		line.WriteString(part)
	}
	return append(out, line.String())
}
