package tui

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// page is what fills the screen.
type page int

const (
	pageRun page = iota
	pageReview
	pageRuns
)

// model is all there is to the screen. Only Update changes it.
type model struct {
	ctx   context.Context
	o     Options
	theme theme

	width, height int
	page          page
	help          bool
	helpFrom      int
	now           time.Time
	ticking       bool
	blurred       bool
	mouse         bool
	toast         string // one line about what was just done
	toastBad      bool
	result        Result

	feed    *feed
	old     []*feed // closed, waited for at the end
	work    work
	owned   bool // the open run ends with this process
	pic     view.Picture
	seen    bool // the log was read up to its present end once
	lost    time.Duration
	tr      transcript
	comp    composer
	outbox  []string // sent, and not in the log yet
	card    card
	reading bool // the transcript has the keys, not the draft
	budget  bool
	typed   time.Time // the last key that was not for a card
	leaving leaving

	review review
	list   runList
}

// leaving is how far the person is with leaving.
type leaving int

const (
	staying leaving = iota
	asked           // to stop the run; once more leaves
	sure            // asked whether the run that lives here is to be stopped
)

func newModel(ctx context.Context, o Options) *model {
	m := &model{ctx: ctx, o: o, theme: theme{method: ansi.WcWidth, ascii: o.ASCII}, now: o.Now(), owned: o.Owned}
	m.tr.theme = m.theme
	if o.List {
		m.page = pageRuns
	}
	return m
}

// Init implements [tea.Model].
func (m *model) Init() tea.Cmd {
	cmds := []tea.Cmd{m.signals()}
	if m.o.Run != "" {
		cmds = append(cmds, m.open(m.o.Run, m.o.Owned, m.o.After))
	}
	if m.page == pageRuns {
		cmds = append(cmds, m.loadRuns())
	}
	return tea.Batch(cmds...)
}

// open shows a run from its log.
func (m *model) open(id contract.RunID, owned bool, after int64) tea.Cmd {
	m.drop()
	m.feed = newFeed(m.ctx, id)
	m.result.Run, m.result.Seq = id, after
	m.owned, m.pic, m.seen, m.outbox, m.card = owned, view.Picture{}, false, nil, card{}
	m.pic.Header.ID = id
	m.tr = transcript{theme: m.theme}
	m.review = review{}
	m.page, m.reading, m.budget, m.leaving = pageRun, !owned, false, staying
	return tea.Batch(m.feed.pump(m.o.Runs, after), m.feed.next)
}

// drop stops following the open run; its commands end by themselves.
func (m *model) drop() {
	if m.feed != nil {
		m.feed.cancel()
		m.old, m.feed = append(m.old, m.feed), nil
	}
}

// close waits for what the screen started.
func (m *model) close() {
	m.drop()
	for _, f := range m.old {
		f.close()
	}
	m.work.close()
	m.result.Draft = strings.TrimSpace(m.comp.text)
}

// Update implements [tea.Model].
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m, nil
	case tea.KeyPressMsg:
		m.now = m.o.Now()
		return m, tea.Batch(m.key(msg), m.clock())
	case tea.PasteMsg:
		m.now = m.o.Now()
		return m, m.pasted(msg.Content)
	case tea.MouseWheelMsg:
		m.wheel(msg)
		return m, nil
	case tea.ModeReportMsg:
		m.measured(msg)
		return m, nil
	case tea.BlurMsg, tea.FocusMsg:
		_, m.blurred = msg.(tea.BlurMsg)
		return m, nil
	case tea.ResumeMsg:
		m.now = m.o.Now()
		return m, m.clock()
	}
	return m, tea.Batch(m.told(msg), m.clock())
}

// told takes the messages of our own commands.
func (m *model) told(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case eventsMsg:
		return m.eventsCame(msg)
	case clockMsg:
		m.ticking, m.now = false, time.Time(msg)
	case retryMsg:
		return m.retry(msg)
	case signalMsg:
		return m.signalled(msg.signal)
	case doneMsg:
		return m.did(msg)
	case startedMsg:
		return m.started(msg)
	case filesMsg:
		m.comp.setFiles(msg.names)
	case editedMsg:
		m.edited(msg)
	case reviewMsg:
		m.review.loaded(msg)
	case outputMsg:
		m.review.output(msg)
	case runsMsg:
		return m.runsCame(msg)
	case reloadMsg:
		if m.page == pageRuns {
			return m.loadRuns()
		}
	}
	return nil
}

// measured learns how the terminal measures characters.
func (m *model) measured(msg tea.ModeReportMsg) {
	if msg.Mode != ansi.ModeUnicodeCore {
		return
	}
	switch msg.Value {
	case ansi.ModeReset, ansi.ModeSet, ansi.ModePermanentlySet:
		m.theme.method = ansi.GraphemeWidth
		m.tr.theme, m.tr.drawn = m.theme, nil
		m.review.drawn = nil
	case ansi.ModeNotRecognized, ansi.ModePermanentlyReset:
	}
}

func (m *model) wheel(msg tea.MouseWheelMsg) {
	by := 3
	if msg.Button == tea.MouseWheelUp {
		by = -3
	}
	switch m.page {
	case pageRun:
		m.tr.move(by)
	case pageReview:
		m.review.move(by)
	case pageRuns:
		m.list.move(by / 3)
	}
}

type clockMsg time.Time

// clock ticks once a second while a run is under way that is on the screen; an ended or idle screen
// has no clock.
func (m *model) clock() tea.Cmd {
	if m.ticking || m.page == pageRuns || m.pic.State == "" || m.pic.Ended != nil {
		return nil
	}
	m.ticking = true
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return clockMsg(t) })
}

func (m *model) say(format string, args ...any) {
	m.toast, m.toastBad = fmt.Sprintf(format, args...), false
}

func (m *model) complain(format string, args ...any) {
	m.toast, m.toastBad = fmt.Sprintf(format, args...), true
}

// View implements [tea.Model].
func (m *model) View() tea.View {
	v := tea.View{AltScreen: true, ReportFocus: true}
	if m.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	if m.width < 1 || m.height < 1 {
		return v
	}
	var lines []string
	switch {
	case m.help:
		lines = m.helpLines()
	case m.page == pageReview:
		lines = m.review.render(m.theme, m.width, m.height, m.toastLine())
	case m.page == pageRuns:
		lines = m.list.render(m.theme, m.now, m.width, m.height, m.toastLine())
	default:
		lines, v.Cursor = m.runLines()
	}
	v.SetContent(strings.Join(screenful(m.theme, lines, m.width, m.height), "\n"))
	return v
}

// screenful holds lines to the size of the screen, so that nothing a pane did can shift the rest.
func screenful(t theme, lines []string, width, height int) []string {
	lines = lines[:min(len(lines), height)]
	for i, l := range lines {
		if t.width(l) > width {
			lines[i] = t.clip(l, width)
		}
	}
	return lines
}

func (m *model) toastLine() string {
	switch {
	case m.toast == "":
		return ""
	case m.toastBad:
		return " " + m.theme.bad("! "+safeLine(m.toast))
	}
	return " " + m.theme.accent(safeLine(m.toast))
}
