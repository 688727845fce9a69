package tui

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// Bounds of what is read for a review, in bytes; beyond it the artifact is named instead.
const (
	maxPatch  = 32 << 20
	maxOutput = 4 << 20
)

// review is the page about what a run left.
type review struct {
	run     contract.Run
	ready   bool
	loading bool
	err     error
	patches map[string]filePatch
	chosen  map[string]bool // files marked for an apply of some only
	file    int
	from    int // first line shown of the diff or output
	inDiff  bool
	sides   bool
	applied bool
	last    Apply               // what was asked for last
	outputs map[string][]string // of checks, by artifact
	showing string              // the check output shown in place of the diff
	asking  question
	answer  buffer
	search  string
	later   func(string) bool

	drawn  []string // lines of what is shown, for the width and file below
	key    string
	height int
}

// question is what the line at the bottom asks for.
type question string

const (
	askBranch  question = "name of the branch"
	askSearch  question = "search"
	askDiscard question = "discard the run, its worktree and its record? type yes"
	askForce   question = "not verified. Apply all the same? type yes"
)

// reviewMsg brings what a review needs.
type reviewMsg struct {
	run   contract.Run
	patch string
	err   error
}

// outputMsg brings the output of a check.
type outputMsg struct {
	artifact string
	text     string
	err      error
}

// loadReview reads the run and its patch.
func (m *model) loadReview() tea.Cmd {
	if m.feed == nil || m.review.loading || m.review.ready && m.review.run.Status.Terminal() {
		return nil
	}
	m.review.loading, m.review.later = true, m.o.Actions.Later
	id, runs := m.feed.run, m.o.Runs
	return m.reads(func(ctx context.Context) tea.Msg {
		r, err := runs.Run(ctx, id)
		if err != nil || r.Result == nil || r.Result.Patch == nil {
			return reviewMsg{run: r, err: err}
		}
		text, err := readArtifact(ctx, runs, id, r.Result.Patch.Artifact, maxPatch)
		return reviewMsg{r, text, err}
	})
}

func (v *review) loaded(msg reviewMsg) {
	v.loading, v.ready, v.run, v.err = false, msg.err == nil, msg.run, msg.err
	v.patches, v.drawn = map[string]filePatch{}, nil
	for _, f := range filesOf(msg.patch) {
		v.patches[f.path] = f
	}
	if v.chosen == nil {
		v.chosen = map[string]bool{}
	}
}

// output takes a check's output.
func (v *review) output(msg outputMsg) {
	if v.outputs == nil {
		v.outputs = map[string][]string{}
	}
	text := msg.text
	if msg.err != nil {
		text = "the output cannot be read: " + msg.err.Error()
	}
	v.outputs[msg.artifact] = strings.Split(strings.TrimRight(safe(text), "\n"), "\n")
	v.drawn = nil
}

// refused offers to apply what was not verified, where that is the reason.
func (v *review) refused(err error) {
	if v.run.Status != contract.Completed && err != nil {
		v.asking = askForce
		v.answer.set("")
	}
}

func (v *review) files() []contract.FileChange {
	if v.run.Result == nil {
		return nil
	}
	return v.run.Result.ChangedFiles
}

func (v *review) checks() []contract.CheckResult {
	if v.run.Result == nil {
		return nil
	}
	return v.run.Result.Checks
}

// reviewKey takes the keys of the review.
func (m *model) reviewKey(name, text string) tea.Cmd {
	v := &m.review
	if v.asking != "" {
		return m.answerKey(name, text)
	}
	m.toast = ""
	switch name {
	case "a":
		return m.apply(Apply{})
	case "c":
		return m.apply(Apply{Commit: true})
	case "b":
		return v.ask(askBranch)
	case "/":
		return v.ask(askSearch)
	case "D", "shift+d":
		return v.ask(askDiscard)
	case "n":
		v.find(1)
	case "N", "shift+n":
		v.find(-1)
	case "m", "i":
		m.page, m.reading = pageRun, false
	case "esc", "ctrl+d":
		if v.showing != "" || v.inDiff {
			v.showing, v.inDiff, v.from, v.drawn = "", false, 0, nil
			return nil
		}
		m.page = pageRun
	case "ctrl+p":
		m.page = pageRuns
		return m.loadRuns()
	case "q":
		return m.leave()
	case "?":
		m.help = true
	case "o":
		return m.checkOutput()
	default:
		v.moveKey(name)
	}
	return nil
}

// moveKey takes the keys that walk through files and lines.
func (v *review) moveKey(name string) {
	switch name {
	case "tab", "enter":
		v.inDiff = !v.inDiff
	case "space", "x":
		if f := v.current(); f != "" {
			v.chosen[f] = !v.chosen[f]
		}
	case "u", "s":
		v.sides, v.drawn = !v.sides, nil
	case "]", "J", "shift+j":
		v.pick(v.file + 1)
	case "[", "K", "shift+k":
		v.pick(v.file - 1)
	case "down", "j":
		v.step(1)
	case "up", "k":
		v.step(-1)
	case "pgdown", "ctrl+f":
		v.move(max(1, v.height-1))
	case "pgup", "ctrl+b":
		v.move(-max(1, v.height-1))
	case "g", "home":
		v.from = 0
	case "G", "shift+g", "end":
		v.move(len(v.drawn))
	}
}

func (v *review) step(by int) {
	if v.inDiff || v.showing != "" {
		v.move(by)
		return
	}
	v.pick(v.file + by)
}

func (v *review) pick(file int) {
	if n := len(v.files()); n > 0 {
		v.file = min(max(0, file), n-1)
	}
	v.from, v.showing, v.drawn = 0, "", nil
}

func (v *review) move(by int) {
	v.from = min(max(0, v.from+by), max(0, len(v.drawn)-v.height))
}

func (v *review) current() string {
	if f := v.files(); v.file < len(f) {
		return f[v.file].Path
	}
	return ""
}

func (v *review) ask(q question) tea.Cmd {
	v.asking = q
	v.answer.set("")
	return nil
}

// answerKey takes the keys of the line at the bottom.
func (m *model) answerKey(name, text string) tea.Cmd {
	v := &m.review
	switch {
	case name == "esc":
		v.asking = ""
	case name == "enter":
		q, said := v.asking, strings.TrimSpace(v.answer.text)
		v.asking = ""
		return m.answered(q, said)
	case text != "":
		v.answer.insert(text)
	default:
		v.answer.edit(name)
	}
	return nil
}

func (m *model) answered(q question, said string) tea.Cmd {
	v := &m.review
	switch q {
	case askBranch:
		if said != "" {
			return m.apply(Apply{Branch: said})
		}
	case askSearch:
		v.search = said
		v.find(0)
	case askDiscard:
		if said == "yes" {
			return m.discard(v.run)
		}
		m.say("nothing was discarded")
	case askForce:
		if said == "yes" {
			return m.apply(Apply{Commit: v.last.Commit, Branch: v.last.Branch, Force: true})
		}
		m.say("nothing was applied")
	}
	return nil
}

// apply brings the result, or the marked files of it, into the checkout.
func (m *model) apply(how Apply) tea.Cmd {
	v := &m.review
	switch {
	case m.o.Actions.Apply == nil:
		m.complain("there is no checkout here: rivumi apply %s in one", v.run.ID.Short())
		return nil
	case !v.ready || !v.run.Status.Terminal():
		m.complain("the run has not ended")
		return nil
	case len(v.files()) == 0:
		m.complain("the run changed nothing")
		return nil
	}
	for _, f := range v.files() {
		if v.chosen[f.Path] {
			how.Paths = append(how.Paths, f.Path)
		}
	}
	v.last = how
	m.say("applying")
	r, do := v.run, m.o.Actions.Apply
	return m.finishes(func(ctx context.Context) tea.Msg {
		said, err := do(ctx, r, how)
		return doneMsg{what: taskApply, text: said, err: err}
	})
}

// discard throws a run away.
func (m *model) discard(r contract.Run) tea.Cmd {
	do := m.o.Actions.Discard
	if do == nil {
		m.complain("rivumi discard %s throws it away", r.ID.Short())
		return nil
	}
	return m.finishes(func(ctx context.Context) tea.Msg { return doneMsg{what: taskDiscard, err: do(ctx, r)} })
}

// checkOutput shows the output of the next check, then the diff again.
func (m *model) checkOutput() tea.Cmd {
	v := &m.review
	var names []string
	for _, c := range v.checks() {
		if c.OutputArtifact != "" {
			names = append(names, c.OutputArtifact)
		}
	}
	at := slices.Index(names, v.showing) + 1
	v.from, v.drawn = 0, nil
	if at >= len(names) {
		if len(names) == 0 {
			m.say("no check left an output")
		}
		v.showing = ""
		return nil
	}
	v.showing = names[at]
	if v.outputs[v.showing] != nil {
		return nil
	}
	id, runs, name := v.run.ID, m.o.Runs, v.showing
	return m.reads(func(ctx context.Context) tea.Msg {
		text, err := readArtifact(ctx, runs, id, name, maxOutput)
		return outputMsg{name, text, err}
	})
}

// find goes to the next line that holds the searched text: in this file, then in the others.
func (v *review) find(dir int) {
	if v.search == "" {
		return
	}
	low := strings.ToLower(v.search)
	step := 1
	if dir < 0 {
		step = -1
	}
	start := v.from + dir
	if dir == 0 {
		start = v.from
	}
	for i := start; i >= 0 && i < len(v.drawn); i += step {
		if strings.Contains(strings.ToLower(plain(v.drawn[i])), low) {
			v.from = i
			return
		}
	}
	for n := 1; n < len(v.files()); n++ {
		i := (v.file + n*step + len(v.files())*n) % len(v.files())
		if slices.ContainsFunc(v.patches[v.files()[i].Path].rows, func(r row) bool {
			return strings.Contains(strings.ToLower(r.text), low)
		}) {
			v.pick(i)
			return
		}
	}
}

// readArtifact reads at most limit bytes of an artifact, and says so where there is more.
func readArtifact(ctx context.Context, runs contract.Collector, id contract.RunID, name string, limit int64) (string, error) {
	r, err := runs.Artifact(ctx, id, name)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(raw)) > limit {
		return string(raw[:limit]) + "\n(cut; the whole is the artifact " + name + ")\n", nil
	}
	return string(raw), nil
}

// letter is the status of a file with its mark.
func (v *review) letter(t theme, f contract.FileChange) string {
	mark := "  "
	if v.chosen[f.Path] {
		mark = t.sign("✓ ", "* ")
	}
	return mark + view.Letter(f)
}
