package tui

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/vt"

	"github.com/rivumi/rivumi/internal/contract"
)

// terminal is a whole program drawn into an emulator.
type terminal struct {
	t    *testing.T
	keys *io.PipeWriter
	sigs chan os.Signal
	done chan struct{}
	res  Result
	err  error

	mu  sync.Mutex
	emu *vt.Emulator
	raw strings.Builder
}

// Write gives output to the emulator. Without a terminal as input the program counts on the terminal
// to go to the first column at a line feed.
func (e *terminal) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.raw.Write(p)
	_, err := e.emu.WriteString(strings.ReplaceAll(string(p), "\n", "\r\n"))
	return len(p), err
}

func play(t *testing.T, o Options, width, height int) *terminal {
	t.Helper()
	e := &terminal{t: t, sigs: make(chan os.Signal, 4), done: make(chan struct{}), emu: vt.NewEmulator(width, height)}
	in, keys := io.Pipe()
	e.keys = keys
	o.In, o.Out, o.Signals, o.Now = in, e, e.sigs, time.Now
	o.Env = []string{"TERM=xterm-256color", "SSH_TTY=/dev/none", "TERM_PROGRAM=none"} // no questions to the terminal
	o.Extra = append(o.Extra, tea.WithWindowSize(width, height), tea.WithColorProfile(colorprofile.ANSI))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	go func() {
		defer close(e.done)
		e.res, e.err = Show(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		_ = keys.Close()
		<-e.done
	})
	return e
}

func (e *terminal) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.emu.String()
}

func (e *terminal) wait(texts ...string) {
	e.t.Helper()
	for _, s := range texts {
		for end := time.Now().Add(20 * time.Second); !strings.Contains(e.text(), s); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				e.t.Fatalf("the terminal does not show %q:\n%s", s, e.text())
			}
		}
	}
}

func (e *terminal) press(s string) {
	e.t.Helper()
	if _, err := e.keys.Write([]byte(s)); err != nil {
		e.t.Fatal(err)
	}
}

func (e *terminal) left() Result {
	e.t.Helper()
	select {
	case <-e.done:
	case <-time.After(20 * time.Second):
		e.t.Fatalf("the program does not end:\n%s", e.text())
	}
	if e.err != nil {
		e.t.Fatal(e.err)
	}
	return e.res
}

// story makes the events of a run on the real clock.
func story(t *testing.T, runs *runsFake) *world {
	w := newWorld(t, 80, 24)
	w.now = time.Now()
	w.runs = runs
	return w
}

func (w *world) log(step int, payloads ...contract.Payload) {
	for _, p := range payloads {
		w.runs.add(w.event(step, p))
	}
}

func TestAWholeProgramFromRunToReview(t *testing.T) {
	runs := newRuns()
	w := story(t, runs)
	applied := make(chan Apply, 1)
	e := play(t, Options{Runs: runs, Run: testRun, Owned: true, Who: "kim", Actions: Actions{
		Apply: func(_ context.Context, _ contract.Run, how Apply) (string, error) {
			applied <- how
			return "applied 1 file", nil
		},
	}}, 80, 24)
	e.wait("reading the log")
	w.log(0, contract.RunQueued{Task: contract.Task{Instruction: "fix 日本語 the test"}}, contract.RunStarted{Attempt: 1}, contract.WorkspaceReady{Root: "/toy", Sandbox: "L3"})
	w.log(1, contract.StepStarted{Step: 1, Max: 9}, contract.ModelDelta{Text: "I look at "})
	e.wait("fix 日本語 the test", "I look at", "waiting for the model")
	w.log(1, contract.ModelDelta{Text: "it now"})
	e.wait("I look at it now")
	e.press("good 😀")
	e.wait("> good 😀")
	time.Sleep(2 * burst)
	e.press("\r")
	e.wait("sending:")
	w.log(1, contract.MessageUser{Message: contract.Message{ID: "m", Text: "good 😀"}})
	e.wait("queued")
	a := approval("apr_1", "npm install")
	a.ExpiresAt = contract.At(time.Now().Add(5 * time.Minute))
	w.log(1, contract.ApprovalRequested{Approval: a})
	e.wait("npm install", "expires in 4:")
	time.Sleep(2 * quiet)
	e.press("a")
	e.wait("sent: allow_once")
	w.log(1, contract.ApprovalDecided{ID: "apr_1", Decision: contract.Decision{Verdict: contract.AllowOnce}})
	e.wait("tab read")
	w.end()
	runs.add(w.event(2, contract.RunEnded{State: contract.Completed, Result: runs.run.Result}))
	e.wait("completed, verified", "ci.yml", "func Add(a, b int) int { return a + b }")
	e.press(" ")
	e.wait("apply 1 marked")
	e.press("a")
	e.wait("applied 1 file")
	if how := <-applied; len(how.Paths) != 1 || how.Paths[0] != "add.go" {
		t.Fatalf("applied %v", how.Paths)
	}
	e.press("q")
	if res := e.left(); res.Now || res.Run != testRun {
		t.Fatalf("left with %+v", res)
	}
	e.restored()
}

// restored checks that the terminal is as it was: the main screen, a cursor, no modes.
func (e *terminal) restored() {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.emu.IsAltScreen() || e.emu.CursorHidden() {
		e.t.Errorf("left the terminal with alternate screen %t, hidden cursor %t", e.emu.IsAltScreen(), e.emu.CursorHidden())
	}
	for _, mode := range []string{"?1049", "?2004", "?1004"} {
		on, off := strings.LastIndex(e.raw.String(), "\x1b["+mode+"h"), strings.LastIndex(e.raw.String(), "\x1b["+mode+"l")
		if on > off {
			e.t.Errorf("left mode %s on", mode)
		}
	}
}

// The mouse belongs to the terminal, until the person asks otherwise.
func TestTU03TheMouseIsNotCaptured(t *testing.T) {
	runs := newRuns()
	e := play(t, Options{Runs: runs, Run: testRun, Owned: true}, 80, 24)
	e.wait("reading the log")
	mouse := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return strings.Contains(e.raw.String(), "\x1b[?1002h") || strings.Contains(e.raw.String(), "\x1b[?1000h") || strings.Contains(e.raw.String(), "\x1b[?1003h")
	}
	if mouse() {
		t.Fatal("the mouse is captured at first")
	}
	e.press("\x1bOQ") // f2
	e.wait("mouse scrolls")
	if !mouse() {
		t.Fatal("the toggle does nothing")
	}
	e.sigs <- syscall.SIGTERM
	if res := e.left(); res.Signal != syscall.SIGTERM {
		t.Fatalf("left with %+v", res)
	}
	e.restored()
	if off := strings.LastIndex(e.raw.String(), "\x1b[?1002l"); off < strings.LastIndex(e.raw.String(), "\x1b[?1002h") {
		t.Error("left the mouse captured")
	}
}

// A lost log is said, tried again from the last event, and keys work meanwhile.
func TestALostLogIsFollowedAgain(t *testing.T) {
	runs := newRuns()
	w := story(t, runs)
	w.log(0, contract.RunQueued{Task: contract.Task{Instruction: "x"}}, contract.RunStarted{Attempt: 1}, contract.Notice{Level: "info", Text: "first"})
	runs.broken = io.ErrUnexpectedEOF
	e := play(t, Options{Runs: runs, Run: testRun, Owned: true}, 90, 24)
	e.wait("first", "lost the log after event 3", "trying again in 1 s")
	e.press("still here")
	e.wait("> still here")
	runs.mu.Lock()
	runs.broken = nil
	runs.mu.Unlock()
	w.log(0, contract.Notice{Level: "info", Text: "second"})
	e.wait("second", "connected again, going on after event 3")
	if strings.Count(e.text(), "first") != 1 {
		t.Errorf("an event was shown twice:\n%s", e.text())
	}
	e.press("\x03")
	e.wait("again leaves")
	e.press("\x03")
	if res := e.left(); !res.Now || res.Draft != "still here" || res.Seq != 4 {
		t.Fatalf("left with %+v", res)
	}
}

// A bell and a notification come when nobody looks, and only then.
func TestAnApprovalRingsWhenNobodyLooks(t *testing.T) {
	runs := newRuns()
	w := story(t, runs)
	w.log(0, contract.RunQueued{Task: contract.Task{Instruction: "x"}}, contract.RunStarted{Attempt: 1})
	e := play(t, Options{Runs: runs, Run: testRun, Owned: true}, 80, 24)
	e.wait("waiting for")
	rang := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return strings.Contains(e.raw.String(), "\x1b]9;rivumi asks: npm")
	}
	w.log(1, contract.ApprovalRequested{Approval: approval("apr_1", "npm one")})
	e.wait("npm one")
	if rang() {
		t.Fatal("rang before a person's eyes")
	}
	w.log(1, contract.ApprovalDecided{ID: "apr_1", Decision: contract.Decision{Verdict: contract.Deny}})
	e.press("\x1b[O") // focus is lost
	e.wait("decided elsewhere")
	w.log(1, contract.ApprovalRequested{Approval: approval("apr_2", "npm two")})
	e.wait("npm two")
	for end := time.Now().Add(10 * time.Second); !rang(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no bell")
		}
	}
}

// A panic of the screen is an error; the terminal is as before and the run can be gone on with.
func TestTU04APanicLeavesTheTerminalWhole(t *testing.T) {
	runs := newRuns()
	w := story(t, runs)
	w.log(0, contract.RunQueued{Task: contract.Task{Instruction: "x"}}, contract.RunStarted{Attempt: 1})
	w.log(1, contract.ApprovalRequested{Approval: approval("apr_1", "npm install")})
	e := play(t, Options{Runs: runs, Run: testRun, Owned: true, Actions: Actions{
		Explain: func(contract.Approval) []string { panic("as asked by the test") },
	}}, 80, 24)
	e.wait("npm install", "[e] why")
	time.Sleep(2 * quiet)
	e.press("e")
	select {
	case <-e.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the program does not end")
	}
	if e.err == nil || e.res.Run != testRun || e.res.Seq != 3 {
		t.Fatalf("left with %+v, %v", e.res, e.err)
	}
	e.restored()
}

// Who leaves right after a key still gets what the key asked for, whole.
func TestLeavingWaitsForAnApplyUnderWay(t *testing.T) {
	runs := newRuns()
	w := story(t, runs)
	w.begin()
	w.end()
	began, done := make(chan struct{}), false
	e := play(t, Options{Runs: runs, Run: testRun, Owned: true, Actions: Actions{
		Apply: func(ctx context.Context, _ contract.Run, _ Apply) (string, error) {
			close(began)
			select {
			case <-time.After(300 * time.Millisecond):
				done = true
			case <-ctx.Done():
			}
			return "applied", ctx.Err()
		},
	}}, 80, 24)
	w.seq = 0
	w.log(0, contract.RunQueued{Task: contract.Task{Instruction: "x"}}, contract.RunStarted{Attempt: 1})
	w.log(1, contract.RunEnded{State: contract.Completed, Result: runs.run.Result})
	e.wait("[a] apply", "add.go")
	e.press("a")
	<-began
	e.press("q")
	e.left()
	if !done {
		t.Fatal("left in the middle of an apply")
	}
}
