package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// key gives a key to what has the keys.
func (m *model) key(msg tea.KeyPressMsg) tea.Cmd {
	name := msg.Keystroke()
	if name != "ctrl+c" && m.leaving == asked && m.pic.Ended != nil {
		m.leaving = staying
	}
	switch name {
	case "ctrl+c":
		return m.interrupt()
	case "ctrl+z":
		return suspend
	case "f2":
		m.mouse = !m.mouse
		m.say("mouse %s", map[bool]string{true: "scrolls; f2 gives it back to the terminal", false: "selects text again"}[m.mouse])
		return nil
	}
	if m.help {
		m.helpKey(name)
		return nil
	}
	switch m.page {
	case pageReview:
		return m.reviewKey(name, msg.Text)
	case pageRuns:
		return m.runsKey(name, msg.Text)
	case pageRun:
	}
	return m.runKey(name, msg.Text)
}

// interrupt is Ctrl+C: the first asks a run that lives here to stop, the second leaves. Leaving a run
// that lives elsewhere does not stop it.
func (m *model) interrupt() tea.Cmd {
	running := m.feed != nil && m.pic.Ended == nil
	switch {
	case !running:
		return tea.Quit
	case !m.owned && m.leaving != asked:
		m.leaving = asked
		m.say("ctrl+c again leaves and the run goes on; x stops the run")
		return nil
	case !m.owned:
		return tea.Quit
	case m.leaving == asked:
		m.result.Now = true
		return tea.Quit
	}
	m.leaving = asked
	m.say("stopping; the work so far is kept. ctrl+c again leaves at once")
	return m.cancel("interrupted at the terminal")
}

// runKey takes the keys of the run page, the card before the draft.
func (m *model) runKey(name, text string) tea.Cmd {
	if cmd, ok := m.pageKey(name); ok {
		return cmd
	}
	if m.leaving == asked && !m.owned && name == "x" {
		m.leaving = staying
		return m.cancel("stopped at the terminal")
	}
	if m.leaving == sure {
		return m.sureKey(name)
	}
	if len(m.pic.Approvals) > 0 {
		if cmd, ok := m.cardKey(name); ok {
			return cmd
		}
		if text != "" && !m.reading {
			m.card.focused = false // what is being written is a draft: an answer needs Tab first
		}
	}
	m.typed = m.now
	if m.reading || m.budget {
		return m.readKey(name)
	}
	if name == "tab" && len(m.comp.found) == 0 {
		m.reading = true
		return nil
	}
	if name == "?" && m.comp.text == "" {
		m.help = true
		return nil
	}
	if name == "esc" && len(m.comp.found) == 0 {
		m.say("write what should be different and press enter: it is told with the next step. ctrl+c stops the run")
		return nil
	}
	if sent := m.comp.key(name, text, m.now); sent != "" {
		return m.send(sent)
	}
	return m.listFiles()
}

// pageKey takes the keys that mean the same wherever one is on the run page.
func (m *model) pageKey(name string) (tea.Cmd, bool) {
	switch name {
	case "pgup":
		m.tr.move(-max(1, m.tr.height-1))
	case "pgdown":
		m.tr.move(max(1, m.tr.height-1))
	case "ctrl+p":
		m.page = pageRuns
		return m.loadRuns(), true
	case "ctrl+d":
		m.page = pageReview
		return m.loadReview(), true
	case "ctrl+t":
		m.budget = !m.budget
	case "ctrl+e":
		return m.edit(), true
	case "ctrl+l":
		return tea.ClearScreen, true
	default:
		return nil, false
	}
	return nil, true
}

// cardKey takes the keys of the open card; false for a key that goes to the draft.
func (m *model) cardKey(name string) (tea.Cmd, bool) {
	a := m.pic.Approvals[0]
	if !m.card.focused {
		if name == "tab" && len(m.comp.found) == 0 {
			m.card.focused, m.card.since = true, m.now
			return nil, true
		}
		return nil, false
	}
	if m.card.deaf(m.now, m.typed) {
		return nil, false
	}
	if name == "s" && m.card.cut && a.SessionScope.Pattern != "" {
		m.card.whole = true // nothing is allowed wider than was shown
		m.say("this is all that [s] would allow; press it again")
		return nil, true
	}
	if v, ok := verdictOf(name, a); ok && m.card.sent == "" {
		return m.decide(a, v), true
	}
	switch name {
	case "e":
		m.card.why = !m.card.why
		if m.card.explains == nil && m.o.Actions.Explain != nil {
			m.card.explains = m.o.Actions.Explain(a)
		}
	case "v":
		m.card.whole = !m.card.whole
	case "up", "k":
		m.card.from--
	case "down", "j":
		m.card.from++
	case "tab":
		m.card.focused = false
	case "s":
		m.say("this one can only be allowed once")
	}
	return nil, true
}

// readKey takes the keys of the transcript.
func (m *model) readKey(name string) tea.Cmd {
	switch name {
	case "up", "k":
		m.tr.move(-1)
	case "down", "j":
		m.tr.move(1)
	case "g", "home":
		m.tr.start()
	case "G", "shift+g", "end":
		m.tr.follow()
	case "ctrl+u":
		m.tr.move(-m.tr.height / 2)
	case "o":
		m.tr.open = !m.tr.open
	case "?":
		m.help = true
	case "tab", "i", "enter", "esc":
		m.reading, m.budget = false, false
	case "q":
		return m.leave()
	}
	return nil
}

// leave is q: a run that lives elsewhere goes on, one that lives here is asked about.
func (m *model) leave() tea.Cmd {
	switch {
	case m.feed != nil && m.pic.Ended == nil && m.owned:
	case m.o.List:
		m.page = pageRuns
		return m.loadRuns()
	default:
		return tea.Quit
	}
	m.leaving = sure
	m.say("the run lives in this program: [x] stop it and leave, any other key stays")
	return nil
}

func (m *model) sureKey(name string) tea.Cmd {
	m.leaving, m.toast = staying, ""
	if name != "x" {
		return nil
	}
	m.leaving = asked
	m.say("stopping; the work so far is kept. ctrl+c leaves at once")
	return m.cancel("stopped at the terminal")
}

// pasted gives pasted text to the draft, or to what asks for a line.
func (m *model) pasted(s string) tea.Cmd {
	switch {
	case m.page == pageReview && m.review.asking != "":
		m.review.answer.insert(safeLine(s))
	case m.page == pageRuns && m.list.filtering:
		m.list.filter.insert(safeLine(s))
	case m.page == pageRun:
		m.reading = false
		m.comp.paste(s, m.now)
	}
	return m.listFiles()
}

// runLines draws the run page: the header, the transcript, the card or the draft, and the status.
func (m *model) runLines() ([]string, *tea.Cursor) {
	t, w, h := m.theme, m.width, m.height
	small := h < 10 || w < 30
	asking := len(m.pic.Approvals) > 0
	if asking && (h < 12 || w < 40) {
		return m.cardOnly(), nil
	}
	var head []string
	if !small || !asking {
		head = append(head, t.header(m.pic, w))
	}
	if !small {
		head = append(head, t.rule(w, "", ""))
	}
	foot, cursor := m.footLines(h-len(head), small)
	room := max(0, h-len(head)-len(foot))
	var middle []string
	switch {
	case m.budget:
		middle = t.budget(m.pic, m.now, w)
		middle = padded(middle, room)
	default:
		m.tr.now = m.now
		middle = m.tr.render(w, room)
	}
	lines := append(append(head, middle...), foot...)
	if cursor != nil {
		cursor.Y += len(head) + len(middle)
	}
	return lines, cursor
}

func padded(lines []string, n int) []string {
	for len(lines) < n {
		lines = append(lines, "")
	}
	return lines[:n]
}

// cardOnly gives the whole of a small screen to the card.
func (m *model) cardOnly() []string {
	lines := m.card.render(m.theme, m.pic.Approvals, m.now, m.width, m.height)
	if len(lines) > m.height {
		lines = append(lines[:max(0, m.height-1):max(0, m.height-1)], lines[len(lines)-1])
	}
	return lines
}

// footLines draws what is below the transcript, and says where the cursor is in it.
func (m *model) footLines(height int, small bool) ([]string, *tea.Cursor) {
	t, w := m.theme, m.width
	var out []string
	for _, s := range m.outbox {
		out = append(out, t.dim(t.clip(fmt.Sprintf(" sending: %q", safeLine(s)), w)))
	}
	if len(m.pic.Approvals) > 0 {
		out = append(out, m.card.render(t, m.pic.Approvals, m.now, w, min(height*2/3, 24))...)
	} else if !small {
		out = append(out, t.rule(w, "", m.hint()))
	}
	var cursor *tea.Cursor
	out = append(out, m.comp.list(t, w)...)
	if !m.reading || m.comp.text != "" {
		lines, x, y := m.comp.render(t, w, max(1, min(6, height/3)))
		if !m.reading && !(len(m.pic.Approvals) > 0 && m.card.focused) {
			cursor = tea.NewCursor(x, len(out)+y)
		}
		if m.comp.text == "" {
			lines[0] += t.dim(t.clip(m.invitation(), w-4))
		}
		out = append(out, lines...)
	}
	if toast := m.toastLine(); toast != "" {
		out = append(out, t.clip(toast, w))
	}
	return append(out, t.status(m.pic, m.now, w)), cursor
}

// hint names the keys of where one is.
func (m *model) hint() string {
	t := m.theme
	switch {
	case m.tr.scroll:
		return t.dim("G end" + t.dot() + "o open" + t.dot() + "tab write")
	case m.reading && !m.owned:
		return t.dim("q leave" + t.dot() + "tab write" + t.dot() + "? help")
	case m.reading:
		return t.dim("j k g G" + t.dot() + "o open" + t.dot() + "tab write" + t.dot() + "? help")
	case m.pic.Ended != nil && len(m.pic.Files) > 0:
		return t.dim("ctrl+d review" + t.dot() + "ctrl+c leave")
	}
	return t.dim("tab read" + t.dot() + "? help")
}

// invitation stands in an empty draft.
func (m *model) invitation() string {
	switch {
	case m.feed == nil:
		return "what should be done in this repository?"
	case m.pic.Ended != nil && m.o.Actions.FollowUp != nil:
		return "go on with …"
	case m.pic.Ended != nil:
		return ""
	}
	return strings.TrimSpace("tell the agent something")
}
