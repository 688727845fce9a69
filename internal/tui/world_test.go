package tui

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/rivumi/rivumi/internal/contract"
)

const testRun = contract.RunID("run_0123456789abcdefghjkmnpqrs")

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// runsFake is runs as a screen sees them: a log that grows, and what was asked of it.
type runsFake struct {
	mu        sync.Mutex
	log       []contract.Event
	grown     chan struct{}
	broken    error // ends every stream
	run       contract.Run
	list      []contract.Run
	artifacts map[string]string
	decided   []contract.Decision
	sent      []string
	cancelled []string
	decideErr error
	sendErr   error
}

var _ contract.Runs = (*runsFake)(nil)

func newRuns() *runsFake {
	return &runsFake{grown: make(chan struct{}), artifacts: map[string]string{}}
}

func (r *runsFake) add(events ...contract.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, events...)
	close(r.grown)
	r.grown = make(chan struct{})
}

func (r *runsFake) Start(context.Context, contract.Task) (contract.Run, error) {
	return contract.Run{}, errors.New("not here")
}

func (r *runsFake) Run(context.Context, contract.RunID) (contract.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run, nil
}

func (r *runsFake) Events(ctx context.Context, _ contract.RunID, after int64) iter.Seq2[contract.Event, error] {
	return func(yield func(contract.Event, error) bool) {
		for at := int(after); ; {
			r.mu.Lock()
			batch, grown, broken := r.log[min(at, len(r.log)):], r.grown, r.broken
			r.mu.Unlock()
			for _, e := range batch {
				at++
				if !yield(e, nil) || e.Ends() {
					return
				}
			}
			if broken != nil {
				yield(contract.Event{}, broken)
				return
			}
			select {
			case <-grown:
			case <-ctx.Done():
				yield(contract.Event{}, ctx.Err())
				return
			}
		}
	}
}

func (r *runsFake) Decide(_ context.Context, _ contract.RunID, _ string, d contract.Decision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.decideErr != nil {
		return r.decideErr
	}
	r.decided = append(r.decided, d)
	return nil
}

func (r *runsFake) Cancel(_ context.Context, _ contract.RunID, why string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancelled = append(r.cancelled, why)
	return nil
}

func (r *runsFake) Send(_ context.Context, _ contract.RunID, text string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sendErr != nil {
		return r.sendErr
	}
	r.sent = append(r.sent, text)
	return nil
}

func (r *runsFake) Artifacts(context.Context, contract.RunID) ([]contract.Artifact, error) {
	return nil, nil
}

func (r *runsFake) Artifact(_ context.Context, _ contract.RunID, name string) (io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return io.NopCloser(strings.NewReader(r.artifacts[name])), nil
}

func (r *runsFake) List(context.Context, contract.Filter) iter.Seq2[contract.Run, error] {
	return func(yield func(contract.Run, error) bool) {
		r.mu.Lock()
		list := r.list
		r.mu.Unlock()
		for _, run := range list {
			if !yield(run, nil) {
				return
			}
		}
	}
}

// world is a screen under test, driven by hand: no program, no terminal, a clock that stands still.
type world struct {
	t    *testing.T
	m    *model
	runs *runsFake
	now  time.Time
	seq  int64
}

func newWorld(t *testing.T, width, height int) *world {
	t.Helper()
	w := &world{t: t, runs: newRuns(), now: start}
	w.m = newModel(t.Context(), Options{Runs: w.runs, Who: "kim", Owned: true, Now: func() time.Time { return w.now }})
	w.m.ticking = true // the clock is moved by hand
	w.m.feed = newFeed(t.Context(), testRun)
	w.m.feed.close()
	w.m.pic.Header.ID = testRun
	w.update(tea.WindowSizeMsg{Width: width, Height: height})
	return w
}

// update gives a message to the screen and carries out what it asks for.
func (w *world) update(msg tea.Msg) {
	w.t.Helper()
	_, cmd := w.m.Update(msg)
	w.carry(cmd)
}

func (w *world) carry(cmd tea.Cmd) {
	w.t.Helper()
	if cmd == nil {
		return
	}
	done := make(chan tea.Msg, 1)
	go func() { done <- cmd() }()
	select {
	case msg := <-done:
		switch msg := msg.(type) {
		case nil:
		case tea.BatchMsg:
			for _, c := range msg {
				w.carry(c)
			}
		default:
			w.update(msg)
		}
	case <-time.After(200 * time.Millisecond): // a tick
	}
}

func (w *world) event(step int, p contract.Payload) contract.Event {
	w.seq++
	e := contract.NewEvent(step, p)
	e.Seq, e.RunID, e.Attempt, e.Time = w.seq, testRun, 1, contract.At(w.now)
	return e
}

// events brings events of one step.
func (w *world) events(step int, payloads ...contract.Payload) {
	w.t.Helper()
	var list []contract.Event
	for _, p := range payloads {
		list = append(list, w.event(step, p))
	}
	w.update(eventsMsg{feed: w.m.feed, events: list})
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

var named = map[string]rune{
	"enter": tea.KeyEnter, "tab": tea.KeyTab, "esc": tea.KeyEscape, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft,
	"right": tea.KeyRight, "backspace": tea.KeyBackspace, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "end": tea.KeyEnd, "f2": tea.KeyF2,
}

func press(name string) tea.KeyPressMsg {
	if rest, ok := strings.CutPrefix(name, "ctrl+"); ok {
		return tea.KeyPressMsg{Code: rune(rest[0]), Mod: tea.ModCtrl}
	}
	if c, ok := named[name]; ok {
		return tea.KeyPressMsg{Code: c}
	}
	if name == "space" {
		return tea.KeyPressMsg{Code: ' ', Text: " "}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// keys presses keys a second apart: nothing of them is a burst or type-ahead.
func (w *world) keys(names ...string) {
	w.t.Helper()
	for _, n := range names {
		w.pass(time.Second)
		w.update(press(n))
	}
}

// write types a text at the given pace.
func (w *world) write(text string, pace time.Duration) {
	w.t.Helper()
	for _, r := range text {
		w.pass(pace)
		switch r {
		case '\n':
			w.update(press("enter"))
		case ' ':
			w.update(press("space"))
		default:
			w.update(press(string(r)))
		}
	}
}

func (w *world) screen() string {
	lines := strings.Split(ansi.Strip(w.m.View().Content), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func (w *world) shows(texts ...string) {
	w.t.Helper()
	for _, s := range texts {
		if !strings.Contains(w.screen(), s) {
			w.t.Fatalf("the screen does not show %q:\n%s", s, w.screen())
		}
	}
}

func (w *world) hides(texts ...string) {
	w.t.Helper()
	for _, s := range texts {
		if strings.Contains(w.screen(), s) {
			w.t.Fatalf("the screen shows %q:\n%s", s, w.screen())
		}
	}
}

// begin brings a run to its first step.
func (w *world) begin() {
	w.t.Helper()
	w.events(0,
		contract.RunQueued{Task: contract.Task{
			Instruction: "fix the failing test", Model: "openai/gpt-5",
			Limits: contract.Limits{MaxSteps: 40, WallTimeSeconds: 1200, MaxCostUSD: 1}, Approval: contract.ApprovalPolicy{Policy: contract.PolicyAsk},
		}},
		contract.RunStarted{Attempt: 1},
		contract.WorkspaceReady{BaseSHA: "3f2c1ab0aaaa", Root: "/home/kim/toy", Sandbox: "L3", Network: "none", Dirty: contract.DirtySummary{Tracked: 2, Untracked: 1, Included: 3}},
		contract.StepStarted{Step: 1, Max: 40},
	)
}

func approval(id, script string) contract.Approval {
	return contract.Approval{
		ID: id, CallID: "call_" + id, Kind: contract.ApproveCommand, Title: script, Command: contract.Asked{Script: script, Cwd: "."},
		Reason: "it may write anywhere", Risk: contract.Risk{Level: "medium", Why: []string{"runs code"}},
		SessionScope: contract.SessionScope{Pattern: "shell(" + script + ")", Explain: "this exact command"},
		RequestedAt:  contract.At(start), ExpiresAt: contract.At(start.Add(5 * time.Minute)),
	}
}

func (w *world) ask(a contract.Approval) {
	w.t.Helper()
	w.events(1, contract.ApprovalRequested{Approval: a})
}

const testPatch = `diff --git a/add.go b/add.go
index 1..2 100644
--- a/add.go
+++ b/add.go
@@ -1,3 +1,3 @@
 package toy
 
-func Add(a, b int) int { return a - b }
+func Add(a, b int) int { return a + b }
diff --git a/.github/workflows/ci.yml b/.github/workflows/ci.yml
new file mode 100644
index 0..3
--- /dev/null
+++ b/.github/workflows/ci.yml
@@ -0,0 +1,2 @@
+on: push
+jobs: {}
`

// end ends the run with two changed files and one check.
func (w *world) end() {
	w.t.Helper()
	res := &contract.Result{
		Outcome: contract.OutcomeVerified, Summary: "done",
		ChangedFiles: []contract.FileChange{{Path: "add.go", Status: "modified", Additions: 1, Deletions: 1}, {Path: ".github/workflows/ci.yml", Status: "added", Additions: 2}},
		Checks:       []contract.CheckResult{{Argv: contract.Check{"go", "test", "./..."}, Passed: true, DurationMS: 1300, Phase: "final", OutputArtifact: "check-1.txt"}},
		Patch:        &contract.PatchRef{Artifact: contract.ArtifactPatch},
	}
	at, to := contract.At(start), contract.At(w.now)
	w.runs.run = contract.Run{ID: testRun, Status: contract.Completed, Result: res, StartedAt: &at, EndedAt: &to, Usage: contract.Usage{Steps: 3}}
	w.runs.artifacts[contract.ArtifactPatch] = testPatch
	w.runs.artifacts["check-1.txt"] = "ok  \ttoy\t0.003s\n"
	w.events(3, contract.RunEnded{State: contract.Completed, Result: res, Usage: contract.Usage{Steps: 3}})
}
