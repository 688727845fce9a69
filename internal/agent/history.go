package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

// history folds the events of a run into the messages of the next model request. The loop feeds it
// every event it writes and a resume feeds it the stored log, so both come to the same bytes.
type history struct {
	first    string
	items    []item
	step     int // of the last step.started
	steps    int // how many there were
	requests int // answers and retries seen

	open    []contract.ToolCall // calls of the last message, until all have results
	results map[string]contract.ToolResult
	started map[string]contract.ToolStarted

	checks []contract.CheckFinished // of the round that ran after the last message
	anew   bool                     // an attempt began: the next check belongs to a new round
	mail   []contract.Message       // seen and not yet told to the model
	told   map[string]bool          // ids of messages the model knows
	fault  string                   // what was wrong with the last answer, "" for nothing in particular

	elided     int    // results of steps up to this one are shortened
	summed     int    // steps up to this one are replaced by the summary
	summary    string // "" for none
	lastChecks string // the last failed round as the model was told of it
}

// item is one message with the step it belongs to.
type item struct {
	step  int
	msg   model.Message
	short []string // for a tool message: the texts once they are elided
	keep  bool     // words of the user: never summarised away
}

func newHistory(first string) *history {
	return &history{
		first: first, results: map[string]contract.ToolResult{},
		started: map[string]contract.ToolStarted{}, told: map[string]bool{},
	}
}

// apply folds one event; types that say nothing to the model are passed over.
func (h *history) apply(e contract.Event) {
	switch e.Type {
	case contract.TypeStepStarted:
		if p, ok := contract.As[contract.StepStarted](e); ok {
			h.stepStarted(p)
		}
	case contract.TypeModelMessage:
		if p, ok := contract.As[contract.ModelMessage](e); ok {
			h.message(p)
		}
	case contract.TypeModelRetry:
		h.requests++
	case contract.TypeToolStarted:
		if p, ok := contract.As[contract.ToolStarted](e); ok {
			h.started[p.CallID] = p
		}
	case contract.TypeToolResult:
		if p, ok := contract.As[contract.ToolResult](e); ok {
			h.result(p)
		}
	case contract.TypeCheckResult:
		if p, ok := contract.As[contract.CheckFinished](e); ok {
			h.checks = append(h.checks, p)
		}
	case contract.TypeCheckStarted:
		h.checkStarted()
	case contract.TypeRunStarted, contract.TypeRunResumed:
		h.anew = true
	case contract.TypeMessageUser:
		if p, ok := contract.As[contract.MessageUser](e); ok {
			h.offer(p.Message)
		}
	case contract.TypeCompacted:
		if p, ok := contract.As[contract.Compacted](e); ok {
			h.compacted(p)
		}
	}
}

// checkStarted drops the round of an earlier attempt, which may have been cut short: the checks of the
// same answer run anew, from the first.
func (h *history) checkStarted() {
	if h.anew {
		h.checks, h.anew = nil, false
	}
}

// offer notes a message of the user. It is told with the step.started that names it.
func (h *history) offer(m contract.Message) {
	if h.told[m.ID] || slices.ContainsFunc(h.mail, func(o contract.Message) bool { return o.ID == m.ID }) {
		return
	}
	h.mail = append(h.mail, m)
}

// stepStarted tells the model what came between two answers: a failed round of checks, messages of
// the user, or that its last answer was no end.
func (h *history) stepStarted(p contract.StepStarted) {
	before := len(h.items)
	h.step = p.Step
	h.steps++
	if text := checkReport(h.checks); text != "" {
		h.lastChecks = text
		h.user(text, false)
	}
	h.checks = nil
	for _, id := range p.Messages {
		i := slices.IndexFunc(h.mail, func(m contract.Message) bool { return m.ID == id })
		if i < 0 || h.told[id] {
			continue
		}
		h.told[id] = true
		h.user(userNote(h.mail[i].Text), true)
		h.mail = slices.Delete(h.mail, i, i+1)
	}
	if len(h.items) == before {
		h.nudge()
	}
}

// nudge follows an answer without calls that did not end the run.
func (h *history) nudge() {
	if n := len(h.items); n > 0 && h.items[n-1].msg.Role == model.RoleAssistant {
		h.user(orElse(h.fault, "Your last answer was cut off or empty. Go on with the task: call a tool, or answer with a short summary when you are done."), false)
	}
}

// faultOf says what was wrong with an answer, "" where there is nothing better to say than that it was no end.
func faultOf(p contract.ModelMessage) string {
	switch model.Finish(p.FinishReason) {
	case finishMalformed:
		return "Your last tool call could not be read and did not run: " + p.Text + "\nCall the tool again, with arguments that are one JSON object."
	case model.FinishLength:
		if strings.TrimSpace(p.Text) == "" && len(p.ToolCalls) == 0 {
			return "Your last answer used up its token limit before it said anything. Think in smaller steps: call one tool now, or answer with a short summary when you are done."
		}
	}
	return ""
}

func (h *history) user(text string, keep bool) {
	h.items = append(h.items, item{step: h.step, keep: keep, msg: model.Message{Role: model.RoleUser, Text: text}})
}

func userNote(text string) string { return "Message from the user:\n" + contract.CleanText(text) }

// message adds an answer. An interrupted one is no part of the history: its attempt was made anew.
func (h *history) message(p contract.ModelMessage) {
	h.requests++
	h.checks = nil
	if p.Interrupted {
		return
	}
	h.fault = faultOf(p)
	m := model.Message{Role: model.RoleAssistant, Text: p.Text, Reasoning: p.Reasoning}
	if model.Finish(p.FinishReason) == finishMalformed {
		m.Text = "(a tool call that could not be read)" // what the provider said is no answer of the model's
	}
	for _, c := range p.ToolCalls {
		m.Calls = append(m.Calls, model.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments, Bad: c.Bad, Extra: c.Extra})
	}
	if strings.TrimSpace(m.Text) == "" && len(m.Calls) == 0 {
		// An empty message is refused by some providers; the fact is told to the model instead.
		m = model.Message{Role: model.RoleAssistant, Text: "(empty answer)"}
	}
	h.items = append(h.items, item{step: h.step, msg: m})
	h.open = p.ToolCalls
	clear(h.results)
	clear(h.started)
}

// result notes the answer to a call; when the last open one is in, the tool message is complete.
func (h *history) result(p contract.ToolResult) {
	if _, twice := h.results[p.CallID]; twice || len(h.open) == 0 {
		return
	}
	h.results[p.CallID] = p
	m, short := model.Message{Role: model.RoleTool}, []string(nil)
	for _, c := range h.open {
		r, ok := h.results[c.ID]
		if !ok {
			return
		}
		m.Results = append(m.Results, model.Result{CallID: c.ID, Text: r.Text, IsError: r.IsError})
		short = append(short, elide(r.Text))
	}
	h.items = append(h.items, item{step: h.step, msg: m, short: short})
	h.open = nil
}

// unanswered gives the calls of the last message that have no result yet, in order.
func (h *history) unanswered() []contract.ToolCall {
	return slices.DeleteFunc(slices.Clone(h.open), func(c contract.ToolCall) bool {
		_, ok := h.results[c.ID]
		return ok
	})
}

// ended reports whether the last thing in the history is an answer without calls.
func (h *history) ended() bool {
	n := len(h.items)
	return n > 0 && h.items[n-1].msg.Role == model.RoleAssistant && len(h.open) == 0
}

func (h *history) compacted(p contract.Compacted) {
	switch p.Kind {
	case kindElide:
		h.elided = max(h.elided, p.Step)
	case kindSummary:
		h.summed, h.summary = p.Step, p.Summary
	}
}

// messages gives the request's messages: append-only between two compactions. Messages of the same
// role that follow each other are one.
func (h *history) messages() []model.Message {
	head := h.first
	if h.summary != "" {
		head += "\n" + h.digest()
	}
	out := []model.Message{{Role: model.RoleUser, Text: head}}
	for _, it := range h.items {
		if it.step <= h.summed {
			continue
		}
		m := it.msg
		if m.Role == model.RoleTool && it.step <= h.elided {
			m.Results = slices.Clone(m.Results)
			for i := range m.Results {
				m.Results[i].Text = it.short[i]
			}
		}
		if last := &out[len(out)-1]; m.Role == model.RoleUser && last.Role == model.RoleUser {
			last.Text += "\n\n" + m.Text
			continue
		}
		out = append(out, m)
	}
	return out
}

// digest stands for the summarised steps: the summary, the user's own words and how the checks stood.
func (h *history) digest() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n# Your own summary of steps 1 to %d\n%s\n", h.summed, h.summary)
	for _, it := range h.items {
		if it.step <= h.summed && it.keep {
			b.WriteString("\n" + it.msg.Text + "\n")
		}
	}
	if h.lastChecks != "" {
		b.WriteString("\nThe last round of checks you were told of:\n" + h.lastChecks + "\n")
	}
	return b.String()
}

// size is the number of bytes of the messages, for estimates.
func (h *history) size() int64 {
	var n int64
	for _, m := range h.messages() {
		n += int64(len(m.Text))
		for _, c := range m.Calls {
			n += int64(len(c.Arguments) + len(c.Name))
		}
		for _, r := range m.Results {
			n += int64(len(r.Text))
		}
		for _, r := range m.Reasoning {
			n += int64(len(r))
		}
	}
	return n
}

// Bounds of an elided result.
const (
	elideLines = 5
	elideWidth = 200
)

// elide keeps the first line, which has the fields, and the first and last lines of the body. It
// never makes a text longer.
func elide(text string) string {
	lines := strings.Split(text, "\n")
	if len(lines) <= 2*elideLines+2 && len(text) <= elideWidth*elideLines {
		return text
	}
	keep := lines
	left := 0
	if len(lines) > 2*elideLines+2 {
		left = len(lines) - 2*elideLines - 1
		keep = slices.Concat(lines[:elideLines+1], lines[len(lines)-elideLines:])
	}
	var b strings.Builder
	for i, l := range keep {
		if i > 0 {
			b.WriteByte('\n')
		}
		if left > 0 && i == elideLines+1 {
			fmt.Fprintf(&b, "[%d older lines left out to save room]\n", left)
		}
		b.WriteString(cutLine(l, elideWidth))
	}
	if b.Len() >= len(text) {
		return text
	}
	return b.String()
}

// cutLine cuts a line to at most width bytes at a character's border, and says how much is gone.
func cutLine(l string, width int) string {
	if len(l) <= width {
		return l
	}
	cut := width
	for cut > 0 && l[cut]&0xc0 == 0x80 {
		cut--
	}
	return fmt.Sprintf("%s[… %d bytes]", l[:cut], len(l)-cut)
}

// checkReport is what the model is told of a round with a failure, "" for a round without one.
func checkReport(checks []contract.CheckFinished) string {
	var b strings.Builder
	for _, c := range checks {
		if c.Passed {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("You said that you are done, but the checks that decide do not pass:\n")
		}
		fmt.Fprintf(&b, "\n%s: exit code %d", contract.CleanText(quoteArgv(c.Argv)), c.ExitCode)
		if c.TimedOut {
			b.WriteString(", timed out")
		}
		b.WriteString("\n")
		if c.Tail != "" {
			b.WriteString(clip(contract.CleanText(c.Tail), tailOnly(6<<10)) + "\n")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	b.WriteString("\nThey ran on a clean tree with only your changes. Find the cause, change the code, and verify again.")
	return b.String()
}
