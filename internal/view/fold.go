package view

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Fold gives the picture after an event. It takes the picture over: the one passed in must not be
// used any more. An event that was folded before, or is of a type this program does not know,
// changes nothing but the newest number and time.
func Fold(p Picture, e contract.Event) Picture {
	if e.Type == contract.TypeLogGap {
		p.Gap = true
		p.LastSeq = max(p.LastSeq, e.Seq)
		return p
	}
	if e.Seq <= p.LastSeq {
		return p
	}
	p.LastSeq, p.LastTime = e.Seq, e.Time
	p.Attempt = max(p.Attempt, e.Attempt)
	if p.Header.ID == "" {
		p.Header.ID = e.RunID
	}
	switch {
	case e.Ends():
		p.end(e)
	case foldLife(&p, e), foldModel(&p, e), foldTool(&p, e), foldApproval(&p, e), foldRest(&p, e):
	}
	if w := p.waiting(); w != p.Waiting || opensWait(e) {
		p.Waiting, p.WaitSince = w, e.Time
	}
	return p
}

// opensWait reports whether a wait begins anew with the event, though it is of the same kind.
func opensWait(e contract.Event) bool {
	return e.Type == contract.TypeToolStarted || e.Type == contract.TypeCheckStarted || e.Type == contract.TypeStepStarted
}

// touch says that an item was changed by the event that is folded.
func (p *Picture) touch(it *Item) *Item {
	it.Rev = p.LastSeq
	return it
}

func foldLife(p *Picture, e contract.Event) bool {
	switch e.Type {
	case contract.TypeRunQueued:
		if d, ok := contract.As[contract.RunQueued](e); ok {
			p.queued(d.Task)
			p.add(e, Item{Kind: ItemUser, Text: d.Task.Instruction})
		}
	case contract.TypeRunStarted:
		d, _ := contract.As[contract.RunStarted](e)
		p.State, p.StartedAt, p.Attempt = contract.Running, e.Time, max(p.Attempt, d.Attempt)
	case contract.TypeRunResumed:
		d, _ := contract.As[contract.RunResumed](e)
		p.resumed(e, d)
	case contract.TypeRunCancelRequested:
		d, _ := contract.As[contract.RunCancelRequested](e)
		p.Cancel, p.CancelBy = d.Reason, d.By
		if p.Cancel == "" {
			p.Cancel = "asked for"
		}
	case contract.TypeWorkspaceReady:
		if d, ok := contract.As[contract.WorkspaceReady](e); ok {
			h := &p.Header
			h.Root, h.BaseSHA, h.Dirty, h.Notes = d.Root, d.BaseSHA, d.Dirty, d.Notes
			h.Sandbox, h.Network, h.Ready = d.Sandbox, d.Network, true
		}
	default:
		return false
	}
	return true
}

func (p *Picture) queued(t contract.Task) {
	p.State, p.Limits, p.MaxStep = contract.Queued, t.Limits, t.Limits.MaxSteps
	p.Header.Name, p.Header.Instruction, p.Header.Model = t.Name, t.Instruction, t.Model
	p.Header.Policy, p.Header.Network = t.Approval.Policy, networkText(t.Network)
	if t.Repository != nil {
		p.Header.Root = t.Repository.Path
	}
}

func networkText(n contract.Network) string {
	if len(n.Hosts) == 0 {
		return "none"
	}
	return strings.Join(n.Hosts, ", ")
}

// resumed closes what the ended attempt left open: a call without a result was interrupted.
func (p *Picture) resumed(e contract.Event, d contract.RunResumed) {
	p.State, p.Attempt, p.Ended, p.Cancel = contract.Running, max(p.Attempt, d.Attempt), nil, ""
	p.closeOpen(ToolInterrupted)
	p.Approvals = nil
	p.add(e, Item{Kind: ItemNotice, Level: "info", Code: "resumed", Text: "resumed: " + d.Reason})
}

func foldModel(p *Picture, e contract.Event) bool {
	switch e.Type {
	case contract.TypeStepStarted:
		d, _ := contract.As[contract.StepStarted](e)
		p.Step, p.MaxStep = d.Step, d.Max
		p.closeText()
		p.taken(d.Messages)
	case contract.TypeModelDelta:
		d, _ := contract.As[contract.ModelDelta](e)
		p.stream(e, ItemReasoning, d.Reasoning)
		p.stream(e, ItemText, d.Text)
	case contract.TypeModelMessage:
		if d, ok := contract.As[contract.ModelMessage](e); ok {
			p.message(e, d)
		}
	case contract.TypeModelRetry:
		d, _ := contract.As[contract.ModelRetry](e)
		p.add(e, Item{Kind: ItemNotice, Level: "warning", Code: "model_retry", Text: retryText(d)})
	case contract.TypeModelDiscarded:
		d, _ := contract.As[contract.ModelDiscarded](e)
		for _, it := range p.Items {
			if it.Step == e.Step && (it.Kind == ItemText || it.Kind == ItemReasoning) && it.Live {
				p.touch(it).Void = true
			}
		}
		p.closeText()
		p.add(e, Item{Kind: ItemNotice, Level: "warning", Code: "model_discarded", Text: "the answer so far is void: " + d.Reason})
	default:
		return false
	}
	return true
}

// stream adds streamed text to the open item of its kind, or opens one.
func (p *Picture) stream(e contract.Event, kind ItemKind, text string) {
	if text == "" {
		return
	}
	if p.text == nil || p.text.Kind != kind {
		if p.text != nil && p.text.Kind == ItemReasoning {
			p.touch(p.text).Live = false
		}
		p.text = p.add(e, Item{Kind: kind, Live: true})
	}
	p.text.Text, p.text.Cut = keepNewest(p.text.Text+text, p.text.Cut)
	p.touch(p.text)
}

// message replaces what was streamed by the whole turn and lists its calls.
func (p *Picture) message(e contract.Event, d contract.ModelMessage) {
	switch {
	case p.text != nil && p.text.Kind == ItemText:
		p.text.Text, p.text.Cut = d.Text, false
	case d.Text != "":
		p.add(e, Item{Kind: ItemText, Text: d.Text})
	}
	p.closeText()
	for _, c := range d.ToolCalls {
		state := ToolProposed
		if c.Bad != "" || d.Interrupted {
			state = ToolFailed
		}
		p.call(e, c.ID, &Tool{CallID: c.ID, Name: c.Name, Arguments: c.Arguments, State: state, Bad: c.Bad})
	}
}

func (p *Picture) closeText() {
	if p.text != nil {
		p.touch(p.text).Live = false
		p.text = nil
	}
}

func (p *Picture) call(e contract.Event, id string, t *Tool) *Item {
	if p.calls == nil {
		p.calls = map[string]*Item{}
	}
	t.Title = titleOf(t.Name, t.Arguments)
	it := p.add(e, Item{Kind: ItemTool, Tool: t, Live: !t.Ended()})
	p.calls[id] = it
	return it
}

// tool gives the open item of a call, making one for a log that starts later than the message.
func (p *Picture) tool(e contract.Event, id, name string, args json.RawMessage) *Item {
	if it := p.calls[id]; it != nil && (it.Step == e.Step || e.Step == 0) {
		return it
	}
	return p.call(e, id, &Tool{CallID: id, Name: name, Arguments: args, State: ToolProposed})
}

func foldTool(p *Picture, e contract.Event) bool {
	switch e.Type {
	case contract.TypeToolStarted:
		d, _ := contract.As[contract.ToolStarted](e)
		it := p.touch(p.tool(e, d.CallID, d.Name, d.Arguments))
		it.Live, it.Tool.State, it.Tool.StartedAt = true, ToolRunning, e.Time
	case contract.TypeToolOutput:
		d, _ := contract.As[contract.ToolOutput](e)
		if it := p.calls[d.CallID]; it != nil {
			it.Tool.Output, it.Cut = keepNewest(it.Tool.Output+d.Text, it.Cut)
			p.touch(it)
		}
	case contract.TypeToolResult:
		if d, ok := contract.As[contract.ToolResult](e); ok {
			p.result(p.touch(p.tool(e, d.CallID, "", nil)), d)
		}
	default:
		return false
	}
	return true
}

func (p *Picture) result(it *Item, d contract.ToolResult) {
	t := it.Tool
	it.Live, it.Cut = false, false
	t.State = resultState(d)
	t.ExitCode, t.Millis, t.Left, t.Artifact = d.ExitCode, d.DurationMS, d.LeftProcesses, d.Artifact
	t.Output, t.Stderr = d.Stdout, d.Stderr
	if t.Output == "" && t.Stderr == "" {
		t.Output = d.Text
	}
	t.Cut = d.Truncated.StdoutBytes + d.Truncated.StderrBytes
	t.Path, t.Diff = d.Path, d.Diff
	t.Plus, t.Minus = countLines(d.Diff)
	if t.Title == "" {
		t.Title = d.Path
	}
}

func resultState(d contract.ToolResult) ToolState {
	switch {
	case d.Denied:
		return ToolDenied
	case d.Interrupted:
		return ToolInterrupted
	case d.TimedOut:
		return ToolTimedOut
	case d.IsError || d.ExitCode != 0:
		return ToolFailed
	}
	return ToolDone
}

func foldApproval(p *Picture, e contract.Event) bool {
	switch e.Type {
	case contract.TypeApprovalRequested:
		d, ok := contract.As[contract.ApprovalRequested](e)
		if !ok {
			return true
		}
		p.Approvals = append(p.Approvals, d.Approval)
		if p.asked == nil {
			p.asked = map[string]string{}
		}
		p.asked[d.Approval.ID] = d.Approval.CallID
		if it := p.calls[d.Approval.CallID]; it != nil {
			p.touch(it).Tool.State = ToolAsking
		}
	case contract.TypeApprovalDecided:
		d, _ := contract.As[contract.ApprovalDecided](e)
		p.closeApproval(d.ID)
		if it := p.calls[p.asked[d.ID]]; it != nil {
			p.touch(it)
			it.Tool.Verdict, it.Tool.DecidedBy, it.Tool.Note = d.Decision.Verdict, d.Decision.By, d.Decision.Note
			if it.Tool.State == ToolAsking {
				it.Tool.State = ToolProposed
			}
		}
	case contract.TypeApprovalClosed:
		d, _ := contract.As[contract.ApprovalClosed](e)
		p.closeApproval(d.ID)
	default:
		return false
	}
	return true
}

func (p *Picture) closeApproval(id string) {
	p.Approvals = slices.DeleteFunc(p.Approvals, func(a contract.Approval) bool { return a.ID == id })
}

func foldRest(p *Picture, e contract.Event) bool {
	switch e.Type {
	case contract.TypeDiffUpdated:
		d, _ := contract.As[contract.DiffUpdated](e)
		p.Files = d.Files
	case contract.TypeUsageUpdated:
		d, _ := contract.As[contract.UsageUpdated](e)
		p.Usage = d.Usage
	case contract.TypeCheckStarted:
		d, _ := contract.As[contract.CheckStarted](e)
		p.checkStarted(e, d)
	case contract.TypeCheckResult:
		if d, ok := contract.As[contract.CheckFinished](e); ok {
			p.checkFinished(e, d)
		}
	case contract.TypeMessageUser:
		d, _ := contract.As[contract.MessageUser](e)
		p.add(e, Item{Kind: ItemUser, Text: d.Text, Msg: d.ID, Queue: true})
	case contract.TypeNotice:
		d, _ := contract.As[contract.Notice](e)
		p.add(e, Item{Kind: ItemNotice, Level: d.Level, Code: d.Code, Text: d.Text})
	case contract.TypeCompacted:
		d, _ := contract.As[contract.Compacted](e)
		p.add(e, Item{Kind: ItemNotice, Level: "info", Code: "compacted", Text: compactedText(d)})
	case contract.TypeRunLateResult:
		d, _ := contract.As[contract.RunLateResult](e)
		p.add(e, Item{Kind: ItemNotice, Level: "warning", Code: "late_result", Text: d.Text})
	default:
		return false
	}
	return true
}

// checkStarted opens a check; the first of a new round forgets the round before.
func (p *Picture) checkStarted(e contract.Event, d contract.CheckStarted) {
	if !slices.ContainsFunc(p.Checks, func(c Check) bool { return c.Running }) && roundOver(p.Checks, d) {
		p.Checks = nil
	}
	c := Check{CheckResult: contract.CheckResult{Argv: d.Argv, Phase: d.Phase}, Running: true}
	p.Checks = append(p.Checks, c)
	item := c
	p.add(e, Item{Kind: ItemCheck, Check: &item, Live: true})
}

// roundOver reports whether a check that starts belongs to a new round: another phase, or one
// that ran in this round before.
func roundOver(done []Check, d contract.CheckStarted) bool {
	return slices.ContainsFunc(done, func(c Check) bool {
		return c.Phase != d.Phase || slices.Equal(c.Argv, d.Argv)
	})
}

func (p *Picture) checkFinished(e contract.Event, d contract.CheckFinished) {
	c := Check{CheckResult: d.CheckResult, Tail: d.Tail}
	same := func(o Check) bool { return o.Running && slices.Equal(o.Argv, d.Argv) }
	if i := slices.IndexFunc(p.Checks, same); i >= 0 {
		p.Checks[i] = c
	} else {
		p.Checks = append(p.Checks, c)
	}
	for _, it := range slices.Backward(p.Items) {
		if it.Kind == ItemCheck && same(*it.Check) {
			*it.Check, it.Live = c, false
			p.touch(it)
			return
		}
	}
	p.add(e, Item{Kind: ItemCheck, Check: &c})
}

func (p *Picture) end(e contract.Event) {
	d, ok := contract.EndedOf(e)
	if !ok {
		d = contract.RunEnded{State: contract.Failed}
	}
	p.State, p.Ended, p.Usage, p.Approvals = d.State, &d, d.Usage, nil
	p.closeText()
	p.closeOpen(ToolInterrupted)
	if d.Result != nil {
		p.Files = d.Result.ChangedFiles
	}
}

func (p *Picture) closeOpen(s ToolState) {
	for _, it := range slices.Backward(p.Items) {
		if it.Kind == ItemTool && !it.Tool.Ended() {
			it.Tool.State, it.Live = s, false
			p.touch(it)
		}
		if it.Kind == ItemCheck && it.Live {
			it.Check.Running, it.Live = false, false
			p.touch(it)
		}
	}
}

// taken marks the messages that the model is told with the step that begins.
func (p *Picture) taken(ids []string) {
	left := len(ids)
	for _, it := range slices.Backward(p.Items) {
		if left == 0 {
			return
		}
		if it.Kind == ItemUser && it.Queue && slices.Contains(ids, it.Msg) {
			p.touch(it).Queue = false
			left--
		}
	}
}

func (p *Picture) add(e contract.Event, it Item) *Item {
	it.Seq, it.Rev, it.Step = e.Seq, e.Seq, e.Step
	p.Items = append(p.Items, &it)
	return &it
}

// waiting decides the one word for what the run waits for.
func (p *Picture) waiting() Waiting {
	switch {
	case p.Ended != nil || p.State == "":
		return WaitNothing
	case p.Cancel != "":
		return WaitCancel
	case p.State == contract.Queued:
		return WaitOwner
	case len(p.Approvals) > 0:
		return WaitApproval
	case !p.Header.Ready:
		return WaitWorkspace
	}
	for _, it := range slices.Backward(p.Items) {
		switch {
		case it.Kind == ItemTool && it.Tool.State == ToolRunning:
			return WaitCommand
		case it.Kind == ItemCheck && it.Live:
			return WaitCheck
		case it.Kind == ItemText:
			return WaitModel
		case it.Kind == ItemNotice && it.Code == "model_retry":
			return WaitRetry
		}
		if it.Step != 0 && it.Step != p.Step {
			break
		}
	}
	return WaitModel
}
