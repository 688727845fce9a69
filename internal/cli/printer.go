package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// How much of a command's output the plain printer shows.
const (
	tailLines = 8
	lineWidth = 200
)

// printer writes a run as plain lines, event by event, from the fold of its events. It writes an
// escape byte only for colour on a terminal.
type printer struct {
	io   *IO
	w    *bufio.Writer
	pic  view.Picture
	open string // streamed text of the line that is still open
	tell bool   // false for --quiet: fold only
}

func newPrinter(s *IO) *printer {
	var w io.Writer = s.Err
	return &printer{io: s, w: bufio.NewWriter(w), tell: !s.Quiet}
}

// event folds the event and writes what it adds.
func (p *printer) event(e contract.Event) {
	step := p.pic.Step
	p.pic = view.Fold(p.pic, e)
	if !p.tell {
		return
	}
	p.print(e, step)
	p.w.Flush()
}

func (p *printer) print(e contract.Event, step int) {
	switch e.Type {
	case contract.TypeModelDelta:
		if d, ok := contract.As[contract.ModelDelta](e); ok {
			p.stream(d.Text)
		}
		return
	case contract.TypeModelMessage:
		if d, ok := contract.As[contract.ModelMessage](e); ok {
			p.said(d.Text)
		}
		return
	}
	p.closeLine()
	switch e.Type {
	case contract.TypeLogGap:
		p.line("…", "older events are gone")
	case contract.TypeWorkspaceReady:
		p.header()
	case contract.TypeStepStarted:
		if p.pic.Step != step && p.io.Color {
			p.line("", p.io.Dim(fmt.Sprintf("step %d of %d", p.pic.Step, p.pic.MaxStep)))
		}
	case contract.TypeToolStarted:
		p.toolStarted(e)
	case contract.TypeToolResult:
		p.toolResult(e)
	case contract.TypeApprovalRequested:
		if d, ok := contract.As[contract.ApprovalRequested](e); ok {
			p.asked(d.Approval)
		}
	case contract.TypeApprovalDecided:
		if d, ok := contract.As[contract.ApprovalDecided](e); ok {
			p.line("", fmt.Sprintf("%s by %s", verdictText(d.Decision.Verdict), firstOf(clean(d.Decision.By), "somebody")))
		}
	case contract.TypeCheckResult:
		p.checked(e)
	case contract.TypeMessageUser, contract.TypeNotice, contract.TypeModelRetry, contract.TypeModelDiscarded,
		contract.TypeCompacted, contract.TypeRunResumed, contract.TypeRunLateResult:
		p.lastItem()
	case contract.TypeRunCancelRequested:
		p.line("", "stopping: "+clean(p.pic.Cancel))
	}
}

// header is the first line of a run: what it works on, with what, held by what.
func (p *printer) header() {
	p.line("", headerLine(p.pic.Header))
	for _, n := range p.pic.Header.Notes {
		p.line("", "left behind: "+clean(n))
	}
}

func headerLine(h view.Header) string {
	name := h.Root[strings.LastIndexAny(h.Root, `/\`)+1:]
	sandbox := "sandbox " + h.Sandbox
	if h.Sandbox == "L0" || h.Sandbox == "none" {
		sandbox = "no sandbox"
	}
	network := "no network"
	if h.Network != "" && h.Network != "none" && h.Network != "off" {
		network = "network " + h.Network
	}
	parts := []string{
		fmt.Sprintf("%s @ %s%s", clean(name), clean(view.Commit(h.BaseSHA)), dirtyText(h.Dirty)),
		clean(h.Model), clean(sandbox), clean(network),
	}
	return strings.Join(parts, " | ")
}

func dirtyText(d contract.DirtySummary) string {
	all := d.Tracked + d.Untracked
	switch {
	case all == 0:
		return ""
	case d.Included == 0:
		return fmt.Sprintf(" (%d changed, %d untracked left out)", d.Tracked, d.Untracked)
	case d.Included < all:
		return fmt.Sprintf(" (%d changed, %d untracked, %d of them in)", d.Tracked, d.Untracked, d.Included)
	}
	return fmt.Sprintf(" (%d changed, %d untracked in)", d.Tracked, d.Untracked)
}

func (p *printer) stream(text string) {
	if text == "" {
		return
	}
	if p.open == "" {
		fmt.Fprint(p.w, "* ")
	}
	p.open += text
	fmt.Fprint(p.w, indent(clean(text)))
}

// said writes a whole turn's text: only what was not streamed.
func (p *printer) said(text string) {
	streamed := p.open
	rest, ok := strings.CutPrefix(text, streamed)
	if !ok {
		p.closeLine()
		rest = text
	}
	if rest != "" {
		if p.open == "" {
			fmt.Fprint(p.w, "* ")
		}
		p.open += rest
		fmt.Fprint(p.w, indent(clean(rest)))
	}
	p.closeLine()
}

func (p *printer) closeLine() {
	if p.open != "" && !strings.HasSuffix(p.open, "\n") {
		fmt.Fprintln(p.w)
	}
	p.open = ""
}

func (p *printer) line(sign, text string) {
	if sign != "" {
		sign += " "
	}
	fmt.Fprintf(p.w, "%s%s\n", sign, indent(text))
}

func (p *printer) lastItem() {
	if len(p.pic.Items) == 0 {
		return
	}
	it := p.pic.Items[len(p.pic.Items)-1]
	switch it.Kind {
	case view.ItemUser:
		p.line(">", clean(it.Text))
	case view.ItemNotice:
		p.line("!", clean(it.Text))
	case view.ItemText, view.ItemReasoning, view.ItemTool, view.ItemCheck:
	}
}

func (p *printer) toolItem(id string) *view.Tool {
	for i := len(p.pic.Items) - 1; i >= 0; i-- {
		if t := p.pic.Items[i].Tool; t != nil && t.CallID == id {
			return t
		}
	}
	return nil
}

func (p *printer) toolStarted(e contract.Event) {
	d, _ := contract.As[contract.ToolStarted](e)
	if t := p.toolItem(d.CallID); t != nil {
		p.line(toolSign(t.Name), clip(t.Title, lineWidth))
	}
}

func toolSign(name string) string {
	if name == "bash" {
		return "$"
	}
	return clean(name)
}

func (p *printer) toolResult(e contract.Event) {
	d, _ := contract.As[contract.ToolResult](e)
	t := p.toolItem(d.CallID)
	if t == nil {
		return
	}
	if t.Name == "bash" || t.State == view.ToolFailed {
		p.tail(t.Output + t.Stderr)
	}
	p.line("", "  "+p.outcome(t))
}

func (p *printer) outcome(t *view.Tool) string {
	took := view.Length(time.Duration(t.Millis) * time.Millisecond)
	switch t.State {
	case view.ToolDenied:
		return p.io.Bad("denied") + note(t)
	case view.ToolInterrupted:
		return p.io.Bad("interrupted")
	case view.ToolTimedOut:
		return p.io.Bad("timed out after " + took)
	case view.ToolFailed:
		if t.Name != "bash" {
			return p.io.Bad("error")
		}
		if t.StartedAt.IsZero() {
			return p.io.Bad("not run")
		}
		return p.io.Bad(fmt.Sprintf("exit %d", t.ExitCode)) + " | " + took
	case view.ToolDone, view.ToolProposed, view.ToolAsking, view.ToolRunning:
	}
	if t.Diff != "" {
		return p.io.Good(fmt.Sprintf("+%d -%d", t.Plus, t.Minus))
	}
	if t.Name != "bash" {
		return p.io.Good("ok")
	}
	left := ""
	if t.Left > 0 {
		left = fmt.Sprintf(" | %d processes ended that it left behind", t.Left)
	}
	return p.io.Good(fmt.Sprintf("exit %d", t.ExitCode)) + " | " + took + left
}

func note(t *view.Tool) string {
	if t.Note == "" {
		return ""
	}
	return ": " + clean(t.Note)
}

// tail shows the last lines of an output.
func (p *printer) tail(text string) {
	lines, left := view.Tail(text, tailLines)
	if left > 0 {
		fmt.Fprintf(p.w, "    %s\n", p.io.Dim(fmt.Sprintf("(%d lines before)", left)))
	}
	for _, l := range lines {
		fmt.Fprintf(p.w, "    %s\n", p.io.Dim(clip(clean(l), lineWidth)))
	}
}

func (p *printer) asked(a contract.Approval) {
	p.line("?", fmt.Sprintf("%s %s", p.io.Bold("approval "+a.ID), clean(a.Title)))
}

func verdictText(v contract.Verdict) string {
	switch v {
	case contract.AllowOnce:
		return "allowed once"
	case contract.AllowSession:
		return "allowed for this run"
	case contract.Deny:
		return "denied"
	case contract.CancelRun:
		return "the run was cancelled"
	}
	return "decided"
}

func (p *printer) checked(e contract.Event) {
	d, ok := contract.As[contract.CheckFinished](e)
	if !ok {
		return
	}
	took := view.Length(time.Duration(d.DurationMS) * time.Millisecond)
	if d.Passed {
		p.line("", fmt.Sprintf("check %s: %s | %s", clean(quoteArgv(d.Argv)), p.io.Good("passed"), took))
		return
	}
	p.line("", fmt.Sprintf("check %s: %s | %s", clean(quoteArgv(d.Argv)), p.io.Bad(fmt.Sprintf("failed, exit %d", d.ExitCode)), took))
	p.tail(d.Tail)
}

// indent keeps the lines after the first of a text under it.
func indent(s string) string { return strings.ReplaceAll(s, "\n", "\n  ") }

func clean(s string) string { return contract.CleanText(s) }

func clip(s string, n int) string { return view.Clip(s, n) }
