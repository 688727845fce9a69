package tui

import (
	"context"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// doneMsg tells how something went that was asked of the runs or of an action.
type doneMsg struct {
	what task
	text string // of a message; what an action said
	id   string // of an approval
	err  error
}

// task names what was asked.
type task string

const (
	taskSend    task = "send the message"
	taskDecide  task = "answer the approval"
	taskCancel  task = "stop the run"
	taskApply   task = "apply"
	taskDiscard task = "discard the run"
)

// startedMsg brings a run that was started for a prompt.
type startedMsg struct {
	run    contract.Run
	prompt string
	err    error
}

type (
	filesMsg  struct{ names []string }
	editedMsg struct {
		text string
		err  error
	}
	signalMsg struct{ signal os.Signal }
	retryMsg  struct{ feed *feed }
)

// signals waits for one signal.
func (m *model) signals() tea.Cmd {
	if m.o.Signals == nil {
		return nil
	}
	return func() tea.Msg {
		select {
		case s, ok := <-m.o.Signals:
			if ok {
				return signalMsg{s}
			}
		case <-m.ctx.Done():
		}
		return nil
	}
}

// signalled does what a signal means: an interrupt is the key of that name, all others end the screen.
func (m *model) signalled(s os.Signal) tea.Cmd {
	if s == os.Interrupt {
		m.now = m.o.Now()
		return tea.Batch(m.interrupt(), m.signals())
	}
	m.result.Signal = s
	return tea.Quit
}

// eventsCame folds what the log brought.
func (m *model) eventsCame(msg eventsMsg) tea.Cmd {
	if msg.feed != m.feed {
		return nil
	}
	m.now = m.o.Now()
	for _, e := range msg.events {
		m.pic = view.Fold(m.pic, e)
		if d, ok := contract.As[contract.MessageUser](e); ok {
			m.unsent(d.Text)
		}
	}
	m.tr.items = m.pic.Items
	m.result.Seq = max(m.result.Seq, m.pic.LastSeq)
	if len(msg.events) > 0 && m.lost > 0 {
		m.lost = 0
		m.say("connected again, going on after event %d", msg.events[0].Seq-1)
	}
	cmds := []tea.Cmd{m.asks()}
	switch {
	case m.pic.Ended != nil:
		cmds = append(cmds, m.ended())
	case msg.ended:
		cmds = append(cmds, m.disconnected(msg.err))
	default:
		cmds = append(cmds, m.feed.next)
	}
	return tea.Batch(cmds...)
}

// unsent takes a message out of those whose event is awaited.
func (m *model) unsent(text string) {
	for i, s := range m.outbox {
		if s == text || strings.TrimSpace(text) == s {
			m.outbox = append(m.outbox[:i:i], m.outbox[i+1:]...)
			return
		}
	}
}

// The wait before a lost log is asked for again doubles between these.
const (
	retryFirst = time.Second
	retryLast  = 15 * time.Second
)

// disconnected says that the log broke off, and when it is tried again. Keys work meanwhile.
func (m *model) disconnected(err error) tea.Cmd {
	if err != nil && stopped(err) {
		return nil
	}
	m.lost = min(max(retryFirst, 2*m.lost), retryLast)
	why := "the stream ended"
	if err != nil {
		why = err.Error()
	}
	m.complain("lost the log after event %d (%s); trying again in %s", m.pic.LastSeq, why, seconds(m.lost))
	f := m.feed
	return tea.Tick(m.lost, func(time.Time) tea.Msg { return retryMsg{f} })
}

// retry follows the log again, from the last event that was seen.
func (m *model) retry(msg retryMsg) tea.Cmd {
	if msg.feed != m.feed {
		return nil
	}
	id := m.feed.run
	m.drop()
	m.feed = newFeed(m.ctx, id)
	return tea.Batch(m.feed.pump(m.o.Runs, m.pic.LastSeq), m.feed.next)
}

// asks shows the card of the oldest approval, and rings when nobody looks.
func (m *model) asks() tea.Cmd {
	if len(m.pic.Approvals) == 0 {
		if m.card.id != "" && m.card.sent == "" && m.pic.Ended == nil {
			m.say("the approval was decided elsewhere, or is over")
		}
		m.card = card{}
		return nil
	}
	a := m.pic.Approvals[0]
	was := m.card
	if !m.card.show(a, m.now, m.comp.text != "" && m.page == pageRun && !m.reading) {
		return nil
	}
	if was.id != "" && was.sent == "" {
		m.say("that approval was decided elsewhere")
	}
	if m.page == pageRuns {
		return nil
	}
	m.page, m.help = pageRun, false
	if !m.blurred {
		return nil
	}
	return ring("rivumi asks: " + safeLine(a.Title))
}

// ended loads what there is to review, and opens it where nothing else is being done.
func (m *model) ended() tea.Cmd {
	m.outbox = nil
	m.leaving = staying
	var cmds []tea.Cmd
	if m.blurred {
		cmds = append(cmds, ring("rivumi: the run is "+string(m.pic.State)))
	}
	cmds = append(cmds, m.loadReview())
	if m.comp.text == "" && !m.reading && m.page == pageRun && len(m.pic.Files) > 0 || m.reading && m.page == pageRun && len(m.pic.Files) > 0 && !m.tr.scroll {
		m.page = pageReview
	}
	return tea.Batch(cmds...)
}

// send sends what was written: to the run under way, as a follow-up to one that ended, or as the
// task of a new one.
func (m *model) send(text string) tea.Cmd {
	a := m.o.Actions
	m.toast = ""
	switch {
	case m.feed == nil && a.Start != nil:
		m.say("starting")
		return m.finishes(func(ctx context.Context) tea.Msg {
			r, err := a.Start(ctx, text)
			return startedMsg{r, text, err}
		})
	case m.feed == nil:
		m.comp.restore(text)
		m.complain("there is no run to tell it to")
		return nil
	case m.pic.Ended != nil && a.FollowUp != nil:
		m.say("going on from here")
		from := m.feed.run
		return m.finishes(func(ctx context.Context) tea.Msg {
			r, err := a.FollowUp(ctx, from, text)
			return startedMsg{r, text, err}
		})
	case m.pic.Ended != nil:
		m.comp.restore(text)
		m.complain("the run has ended: rivumi resume %s goes on from it", m.feed.run.Short())
		return nil
	}
	m.outbox = append(m.outbox, text)
	m.tr.follow()
	id := m.feed.run
	return m.delivers(func(ctx context.Context) tea.Msg {
		return doneMsg{what: taskSend, text: text, err: m.o.Runs.Send(ctx, id, text)}
	})
}

// started opens the run that was asked for; a refusal gives the text back.
func (m *model) started(msg startedMsg) tea.Cmd {
	if msg.err != nil {
		m.comp.restore(msg.prompt)
		m.complain("%v", msg.err)
		return nil
	}
	m.toast = ""
	return m.open(msg.run.ID, true, 0)
}

// decide sends a decision; the card stays until the log says what became of it.
func (m *model) decide(a contract.Approval, v contract.Verdict) tea.Cmd {
	m.card.sent = v
	id, d := m.feed.run, contract.Decision{Verdict: v, By: m.o.Who, At: contract.At(m.now)}
	return m.delivers(func(ctx context.Context) tea.Msg {
		return doneMsg{what: taskDecide, id: a.ID, err: m.o.Runs.Decide(ctx, id, a.ID, d)}
	})
}

// cancel asks for the end of the open run.
func (m *model) cancel(why string) tea.Cmd {
	id := m.feed.run
	return m.delivers(func(ctx context.Context) tea.Msg {
		return doneMsg{what: taskCancel, err: m.o.Runs.Cancel(ctx, id, why)}
	})
}

// did tells how something went.
func (m *model) did(msg doneMsg) tea.Cmd {
	if msg.err == nil {
		switch msg.what {
		case taskApply:
			m.review.applied = true
			m.say("%s", msg.text)
		case taskDiscard:
			m.say("discarded the run")
			if m.page == pageReview {
				return tea.Quit
			}
			return m.loadRuns()
		case taskCancel, taskSend, taskDecide:
		}
		return nil
	}
	switch {
	case msg.what == taskDecide && contract.KindOf(msg.err) == contract.KindApprovalDecided:
		m.say("it was decided elsewhere first")
		return nil
	case msg.what == taskDecide && m.card.id == msg.id:
		m.card.sent = ""
	case msg.what == taskSend:
		m.unsent(msg.text)
		m.comp.restore(msg.text)
	case msg.what == taskApply:
		m.review.refused(msg.err)
	}
	m.complain("%s: %v", msg.what, msg.err)
	return nil
}

// listFiles asks for the names of files once.
func (m *model) listFiles() tea.Cmd {
	if m.o.Actions.Files == nil || !m.comp.asksFiles() {
		return nil
	}
	m.comp.files = []string{}
	return m.reads(func(ctx context.Context) tea.Msg {
		names, err := m.o.Actions.Files(ctx)
		if err != nil {
			return nil
		}
		return filesMsg{names}
	})
}

// edit opens the draft in the person's editor.
func (m *model) edit() tea.Cmd {
	if m.o.Actions.Editor == nil {
		return nil
	}
	ed := m.o.Actions.Editor(m.comp.text)
	return tea.Exec(ed, func(err error) tea.Msg {
		text, rerr := ed.Text()
		if err == nil {
			err = rerr
		}
		return editedMsg{text, err}
	})
}

// edited takes the draft back; a failed editor leaves it as it was.
func (m *model) edited(msg editedMsg) {
	if msg.err != nil {
		m.complain("the editor failed, the draft is as before: %v", msg.err)
		return
	}
	m.comp.set(contract.CleanText(strings.TrimRight(msg.text, "\n")))
}

// suspend stops the program until the shell wakes it. The library saves and restores the terminal.
func suspend() tea.Msg { return tea.SuspendMsg{} }
