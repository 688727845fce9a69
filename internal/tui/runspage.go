package tui

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// How the list of runs is kept fresh while it is shown and something in it runs.
const (
	reloadEvery = 2 * time.Second
	listMost    = 200
)

// runList is the page of runs.
type runList struct {
	runs      []contract.Run
	ready     bool
	loading   bool
	err       error
	at        int
	filtering bool
	filter    buffer
	discard   contract.RunID // asked about
}

type (
	runsMsg struct {
		runs []contract.Run
		err  error
	}
	reloadMsg struct{}
)

// loadRuns reads the list.
func (m *model) loadRuns() tea.Cmd {
	if m.list.loading {
		return nil
	}
	m.list.loading = true
	runs, filter := m.o.Runs, m.o.Filter
	if filter.Limit == 0 {
		filter.Limit = listMost
	}
	return m.reads(func(ctx context.Context) tea.Msg {
		var out []contract.Run
		for r, err := range runs.List(ctx, filter) {
			if err != nil {
				return runsMsg{err: err}
			}
			out = append(out, r)
		}
		return runsMsg{runs: out}
	})
}

// runsCame takes the list and asks for it again in a while when something in it still runs.
func (m *model) runsCame(msg runsMsg) tea.Cmd {
	l := &m.list
	m.now = m.o.Now()
	id := l.picked().ID
	l.loading, l.err = false, msg.err
	if msg.err == nil {
		l.runs, l.ready = msg.runs, true
		for i, r := range l.shown() {
			if r.ID == id {
				l.at = i
			}
		}
	}
	l.move(0)
	live := false
	for _, r := range l.runs {
		live = live || !r.Status.Terminal()
	}
	if !live || m.page != pageRuns {
		return nil
	}
	return tea.Tick(reloadEvery, func(time.Time) tea.Msg { return reloadMsg{} })
}

// shown is the runs that pass the filter.
func (l *runList) shown() []contract.Run {
	if l.filter.text == "" {
		return l.runs
	}
	low := strings.ToLower(l.filter.text)
	var out []contract.Run
	for _, r := range l.runs {
		if strings.Contains(strings.ToLower(string(r.ID)+" "+r.Name+" "+string(r.Status)+" "+r.Instruction+" "+r.Repository), low) {
			out = append(out, r)
		}
	}
	return out
}

func (l *runList) picked() contract.Run {
	if s := l.shown(); l.at < len(s) {
		return s[l.at]
	}
	return contract.Run{}
}

func (l *runList) move(by int) { l.at = min(max(0, l.at+by), max(0, len(l.shown())-1)) }

// runsKey takes the keys of the list.
func (m *model) runsKey(name, text string) tea.Cmd {
	l := &m.list
	if l.filtering {
		l.filterKey(name, text)
		return nil
	}
	if l.discard != "" {
		id := l.discard
		l.discard, m.toast = "", ""
		if name == "y" && l.picked().ID == id {
			return m.discard(l.picked())
		}
		return nil
	}
	m.toast = ""
	r := l.picked()
	switch name {
	case "down", "j":
		l.move(1)
	case "up", "k":
		l.move(-1)
	case "pgdown":
		l.move(10)
	case "pgup":
		l.move(-10)
	case "g", "home":
		l.at = 0
	case "G", "shift+g", "end":
		l.move(len(l.runs))
	case "/":
		l.filtering = true
	case "r":
		return m.loadRuns()
	case "?":
		m.help = true
	case "enter", "o":
		return m.openPicked(r)
	case "x":
		return m.cancelPicked(r)
	case "D", "shift+d":
		if r.ID != "" {
			l.discard = r.ID
			m.say("discard run %s, its worktree and its record? [y] yes, any other key no", r.ID.Short())
		}
	case "q", "esc", "ctrl+p":
		return m.closeRuns(name)
	}
	return nil
}

func (l *runList) filterKey(name, text string) {
	switch {
	case name == "enter":
		l.filtering = false
	case name == "esc":
		l.filtering = false
		l.filter.set("")
	case text != "":
		l.filter.insert(text)
	default:
		l.filter.edit(name)
	}
	l.move(0)
}

func (m *model) openPicked(r contract.Run) tea.Cmd {
	if r.ID == "" {
		return nil
	}
	if m.feed != nil && m.feed.run == r.ID {
		m.page = pageRun
		return nil
	}
	if m.feed != nil && m.owned && m.pic.Ended == nil {
		m.complain("this program carries out run %s: leave or stop it first, or open the other one in another terminal", m.feed.run.Short())
		return nil
	}
	return m.open(r.ID, false, 0)
}

func (m *model) cancelPicked(r contract.Run) tea.Cmd {
	if r.ID == "" || r.Status.Terminal() {
		return nil
	}
	m.say("stopping run %s", r.ID.Short())
	runs := m.o.Runs
	return tea.Batch(m.delivers(func(ctx context.Context) tea.Msg {
		return doneMsg{what: taskCancel, err: runs.Cancel(ctx, r.ID, "stopped at the terminal")}
	}), m.loadRuns())
}

// closeRuns goes back to the run that is open; without one, and where the list came first, q leaves.
func (m *model) closeRuns(name string) tea.Cmd {
	switch {
	case m.o.List && name == "q":
		return tea.Quit
	case m.feed != nil || m.o.Actions.Start != nil:
	case name == "ctrl+p":
		return nil
	default:
		return tea.Quit
	}
	m.page = pageRun
	return m.asks()
}

// render draws the list.
func (l *runList) render(t theme, now time.Time, width, height int, toast string) []string {
	shown := l.shown()
	out := []string{t.ends(" "+t.bold("runs"), t.dim(fmt.Sprintf("%d of %d ", len(shown), len(l.runs))), width)}
	if height >= 8 {
		out = append(out, t.rule(width, "", ""))
	}
	var foot []string
	if l.filtering || l.filter.text != "" {
		cursor := ""
		if l.filtering {
			cursor = t.mark(" ")
		}
		foot = append(foot, t.clip(" filter: "+safeLine(l.filter.text)+cursor, width))
	}
	if toast != "" {
		foot = append(foot, t.clip(toast, width))
	}
	foot = append(foot, t.dim(t.clip(" enter open"+t.dot()+"x stop"+t.dot()+"D discard"+t.dot()+"/ filter"+t.dot()+"q back"+t.dot()+"? help", width)))
	room := max(1, height-len(out)-len(foot))
	switch {
	case l.err != nil:
		out = append(out, " "+t.bad(safeLine(l.err.Error())))
	case !l.ready:
		out = append(out, t.dim(" reading"))
	case len(shown) == 0:
		out = append(out, t.dim(" no runs"))
	}
	first := min(max(0, l.at-room/2), max(0, len(shown)-room))
	for i := first; i < min(len(shown), first+room); i++ {
		out = append(out, l.line(t, shown[i], i == l.at, now, width))
	}
	return append(padded(out, max(0, height-len(foot))), foot...)
}

func (l *runList) line(t theme, r contract.Run, here bool, now time.Time, width int) string {
	point := "  "
	if here {
		point = t.you() + " "
	}
	sign, state := t.stateOf(r)
	changes := ""
	if r.Result != nil && len(r.Result.ChangedFiles) > 0 {
		changes = view.Changes(r.Result.ChangedFiles)
	}
	left := " " + point + sign + " " + r.ID.Short() + " " + t.pad(state, 12) + " "
	repo := r.Repository[strings.LastIndexAny(r.Repository, `/\`)+1:]
	task := firstOf(r.Name, view.OneLine(r.Instruction))
	if r.Name != "" && width > 80 {
		task = r.Name + "  " + t.dim(view.OneLine(r.Instruction))
	}
	right := t.dim(strings.TrimSpace(changes + "  " + safeLine(repo) + "  " + ago(now.Sub(r.CreatedAt.Time))))
	if width < 70 {
		right = t.dim(ago(now.Sub(r.CreatedAt.Time)))
	}
	return t.ends(left+task, right, width)
}

// stateOf is the state of a run in a sign and a word.
func (t theme) stateOf(r contract.Run) (sign, word string) {
	switch {
	case r.PendingApprovals > 0 && !r.Status.Terminal():
		return t.warn("?"), "asking"
	case r.CancelRequested && !r.Status.Terminal():
		return t.live(), "stopping"
	case !r.Status.Terminal():
		return t.live(), string(r.Status)
	case r.Status == contract.Completed && r.Result != nil && r.Result.Outcome == contract.OutcomeVerified:
		return t.ok(), "verified"
	case r.Status == contract.Completed:
		return t.ok(), "completed"
	}
	return t.failed(), string(r.Status)
}

func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// ago is how long ago something was, in one unit.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
