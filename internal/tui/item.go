package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// How many lines of a call are shown while nothing is opened.
const (
	tailLive   = 5
	tailFailed = 10
	tailDone   = 4
	diffLines  = 14
	opened     = 400 // and opened; the whole is in the artifacts
)

// artist draws items of the transcript.
type artist struct {
	theme
	width int
	open  bool // folded text is shown
	now   time.Time
}

// draw gives the lines of an item, the first of them empty where it stands apart from what is above.
func (a artist) draw(it *view.Item, s *stream) []string {
	switch it.Kind {
	case view.ItemUser:
		return a.user(it)
	case view.ItemText:
		return a.text(it, s)
	case view.ItemReasoning:
		return a.reasoning(it)
	case view.ItemTool:
		return a.tool(it)
	case view.ItemCheck:
		return a.check(it)
	case view.ItemNotice:
		return a.notice(it)
	}
	return nil
}

func (a artist) user(it *view.Item) []string {
	lines := a.paragraphs(safe(it.Text), a.width-4)
	if !a.open && len(lines) > 12 {
		lines = append(lines[:11:11], a.dim(fmt.Sprintf("%s %d more lines (o shows)", a.more(), len(lines)-11)))
	}
	for i := range lines {
		lines[i] = a.bold(lines[i])
	}
	if it.Queue {
		lines = append(lines, a.dim("queued: told with the next step"))
	}
	return append([]string{""}, indented(lines, " "+a.you()+" ", "   ")...)
}

func (a artist) text(it *view.Item, s *stream) []string {
	text := safe(it.Text)
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var lines []string
	switch {
	case it.Void:
		lines = a.paragraphs(text, a.width-4)
		for i := range lines {
			lines[i] = a.dim(lines[i])
		}
		lines = append(lines, a.dim("(void: the answer was broken off)"))
	case it.Live && s != nil:
		s.theme, s.width = a.theme, a.width-4
		lines = s.lines(text)
	default:
		lines = a.markdown(text, a.width-4)
	}
	if it.Cut {
		lines = append([]string{a.dim(a.more())}, lines...)
	}
	return append([]string{""}, indented(lines, " "+a.said()+" ", "   ")...)
}

func (a artist) reasoning(it *view.Item) []string {
	lines := a.paragraphs(safe(it.Text), a.width-4)
	if !a.open {
		word := "thought"
		if it.Live {
			word = "thinking"
		}
		return []string{a.clip("   "+a.dim(fmt.Sprintf("%s, %d lines (o shows)", word, len(lines))), a.width)}
	}
	for i := range lines {
		lines[i] = a.dim(lines[i])
	}
	return indented(lines, "   ", "   ")
}

func (a artist) tool(it *view.Item) []string {
	t := it.Tool
	sign := a.ok()
	switch t.State {
	case view.ToolRunning, view.ToolProposed:
		sign = a.live()
	case view.ToolAsking:
		sign = a.warn("?")
	case view.ToolFailed, view.ToolTimedOut, view.ToolDenied, view.ToolInterrupted:
		sign = a.failed()
	case view.ToolDone:
	}
	left := fmt.Sprintf(" %s %s  %s", sign, a.bold(safeLine(t.Name)), safeLine(t.Title))
	lines := []string{a.ends(left, a.outcome(t), a.width)}
	if t.Bad != "" {
		lines = append(lines, a.block([]string{safeLine(t.Bad)}, a.bad)...)
	}
	if t.Diff != "" {
		return append(lines, a.change(t)...)
	}
	most := tailDone
	switch {
	case t.State == view.ToolRunning:
		most = tailLive
	case t.State == view.ToolFailed, t.State == view.ToolTimedOut:
		most = tailFailed
	case t.Name != "bash":
		most = 0
	}
	return append(lines, a.output(t, most)...)
}

// output shows the end of what a call printed.
func (a artist) output(t *view.Tool, most int) []string {
	if a.open {
		most = opened
	}
	text := t.Output
	if t.Stderr != "" {
		text = strings.TrimRight(text, "\n") + "\n" + t.Stderr
	}
	if most == 0 || text == "" {
		return nil
	}
	tail, left := view.Tail(safe(lastBytes(text, (most+2)*4096)), most)
	if len(text) > (most+2)*4096 {
		left += strings.Count(text[:len(text)-(most+2)*4096], "\n")
	}
	var lines []string
	if left > 0 && most != tailLive {
		hint := " (o shows)"
		if a.open {
			hint = ""
		}
		lines = append(lines, fmt.Sprintf("%s %d lines before%s", a.more(), left, hint))
	}
	for _, l := range tail {
		if a.open {
			lines = append(lines, a.chop(l, a.width-6)...)
		} else {
			lines = append(lines, l)
		}
	}
	return a.block(lines, a.dim)
}

// lastBytes bounds what is looked at of a large output.
func lastBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return s[i+1:]
	}
	return strings.ToValidUTF8(s, "")
}

// block indents lines below a call, each on one row.
func (a artist) block(lines []string, style func(string) string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = "     " + style(a.clip(l, a.width-6))
	}
	return out
}

func (a artist) change(t *view.Tool) []string {
	most := diffLines
	if a.open {
		most = opened
	}
	var out []string
	rows := rowsOf(t.Diff)
	for i, r := range rows {
		if i == most {
			out = append(out, "     "+a.dim(fmt.Sprintf("%s %d more lines (o shows)", a.more(), len(rows)-most)))
			break
		}
		out = append(out, "   "+a.row(r, a.width-4))
	}
	return out
}

func (a artist) outcome(t *view.Tool) string {
	took := view.Length(time.Duration(t.Millis) * time.Millisecond)
	switch t.State {
	case view.ToolProposed:
		return a.dim("next")
	case view.ToolAsking:
		return a.warn("asks")
	case view.ToolRunning:
		return a.dim("running " + a.since(t.StartedAt))
	case view.ToolDenied:
		return a.bad("denied" + prefixed(" by ", safeLine(t.DecidedBy)))
	case view.ToolTimedOut:
		return a.bad("timed out") + a.dim(a.dot()+took)
	case view.ToolInterrupted:
		return a.bad("interrupted")
	case view.ToolFailed, view.ToolDone:
	}
	switch {
	case t.Diff != "":
		return a.good(fmt.Sprintf("+%d", t.Plus)) + " " + a.bad(fmt.Sprintf("-%d", t.Minus))
	case t.Name != "bash" && t.State == view.ToolFailed:
		return a.bad("error")
	case t.Name != "bash":
		return a.dim(took)
	case t.ExitCode != 0:
		return a.bad(fmt.Sprintf("exit %d", t.ExitCode)) + a.dim(a.dot()+took)
	}
	return a.dim("exit 0" + a.dot() + took)
}

// since is how long ago a moment was, in whole seconds.
func (a artist) since(at contract.Time) string {
	if at.IsZero() {
		return ""
	}
	return seconds(a.now.Sub(at.Time))
}

func (a artist) check(it *view.Item) []string {
	c := it.Check
	name := safeLine(strings.Join(c.Argv, " "))
	took := a.dim(a.dot() + view.Length(time.Duration(c.DurationMS)*time.Millisecond))
	switch {
	case c.Running:
		return []string{a.ends(" "+a.live()+" "+a.bold("check")+"  "+name, a.dim("running"), a.width)}
	case c.Passed:
		return []string{a.ends(" "+a.ok()+" "+a.bold("check")+"  "+name, a.good("passed")+took, a.width)}
	}
	word := fmt.Sprintf("failed, exit %d", c.ExitCode)
	if c.TimedOut {
		word = "timed out"
	}
	lines := []string{a.ends(" "+a.failed()+" "+a.bold("check")+"  "+name, a.bad(word)+took, a.width)}
	return append(lines, a.output(&view.Tool{Output: c.Tail}, tailFailed)...)
}

func (a artist) notice(it *view.Item) []string {
	style := a.dim
	switch it.Level {
	case "warning":
		style = a.warn
	case "error":
		style = a.bad
	}
	lines := a.paragraphs(safe(it.Text), a.width-4)
	for i := range lines {
		lines[i] = style(lines[i])
	}
	return indented(lines, " "+style("!")+" ", "   ")
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// seconds writes a length of time that is still going on: 3 s, 4:05.
func seconds(d time.Duration) string {
	d = max(0, d)
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return view.Length(d)
}
