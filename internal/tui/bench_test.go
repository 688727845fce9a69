package tui

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/rivumi/rivumi/internal/contract"
)

// longLog makes about n events of a run that is still under way.
func longLog(w *world, n int) []contract.Event {
	var out []contract.Event
	put := func(step int, p contract.Payload) { out = append(out, w.event(step, p)) }
	put(0, contract.RunQueued{Task: contract.Task{Instruction: "long", Limits: contract.Limits{MaxSteps: n}}})
	put(0, contract.RunStarted{Attempt: 1})
	put(0, contract.WorkspaceReady{Root: "/toy", Sandbox: "L3"})
	for step := 1; len(out) < n; step++ {
		id := fmt.Sprint("c", step)
		args := contract.MarshalJSON(map[string]string{"command": fmt.Sprint("go test ./pkg", step)})
		put(step, contract.StepStarted{Step: step, Max: n})
		put(step, contract.ModelDelta{Text: "I look at **package** "})
		put(step, contract.ModelDelta{Text: fmt.Sprintf("%d and run `its` tests.\n\n- one\n- two", step)})
		put(step, contract.ModelMessage{Text: fmt.Sprintf("I look at **package** %d and run `its` tests.\n\n- one\n- two", step), ToolCalls: []contract.ToolCall{{ID: id, Name: "bash", Arguments: args}}})
		put(step, contract.ToolStarted{CallID: id, Name: "bash", Arguments: args})
		put(step, contract.ToolOutput{CallID: id, Stream: "stdout", Text: strings.Repeat("ok  \tpkg\t0.1s\n", 10)})
		put(step, contract.ToolResult{CallID: id, Stdout: strings.Repeat("ok  \tpkg\t0.1s\n", 10), DurationMS: 12})
	}
	return out
}

// attached is a screen that has read a long log.
func attached(b testing.TB, events []contract.Event) *model {
	m := newModel(b.Context(), Options{Runs: newRuns(), Now: time.Now, Owned: true})
	m.feed = newFeed(b.Context(), testRun)
	m.feed.close()
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	for at := 0; at < len(events); at += batchMax {
		m.Update(eventsMsg{feed: m.feed, events: events[at:min(len(events), at+batchMax)]})
		m.View()
	}
	return m
}

// BenchmarkAttachTo10000Events is the way from a stored log to the first whole picture.
func BenchmarkAttachTo10000Events(b *testing.B) {
	events := longLog(&world{now: start}, 10_000)
	b.ReportAllocs()
	for b.Loop() {
		attached(b, events)
	}
}

// BenchmarkKeyIn10000Events is one key from press to picture in a long run.
func BenchmarkKeyIn10000Events(b *testing.B) {
	m := attached(b, longLog(&world{now: start}, 10_000))
	b.ReportAllocs()
	for b.Loop() {
		m.Update(press("x"))
		m.View()
		if len(m.comp.text) > 60 {
			m.comp.set("")
		}
	}
}

// BenchmarkStream5000Tokens is an answer of 5 000 tokens, drawn for every five of them: more often
// than the feed lets a screen be drawn at 125 tokens a second.
func BenchmarkStream5000Tokens(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		w := &world{now: start}
		m := attached(b, longLog(w, 20))
		for range 1000 {
			e := w.event(9, contract.ModelDelta{Text: "some words of an\nanswer that goes on "})
			m.Update(eventsMsg{feed: m.feed, events: []contract.Event{e}})
			m.View()
		}
	}
}

// A long log is on the screen within a second and a key costs little, with a lot of air for slow machines.
func TestTU06LongRunsStayQuick(t *testing.T) {
	events := longLog(&world{now: start}, 10_000)
	begin := time.Now()
	m := attached(t, events)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("the first paint of %d events took %s", len(events), took)
	}
	if n := len(m.tr.drawn); n > 200 {
		t.Errorf("%d items were drawn for one screen", n)
	}
	begin = time.Now()
	const keys = 200
	for range keys {
		m.Update(press("x"))
		m.View()
	}
	if per := time.Since(begin) / keys; per > 50*time.Millisecond {
		t.Errorf("a key takes %s", per)
	}
	// Far back is as quick as here.
	m.tr.start()
	m.View()
	for range 300 {
		m.tr.move(1)
		m.View()
	}
	if n := len(m.tr.drawn); n > keepDrawn {
		t.Errorf("%d drawn items are kept", n)
	}
}

// Nothing ticks on a screen where nothing changes.
func TestTU06AnIdleScreenHasNoClock(t *testing.T) {
	w := newWorld(t, 80, 24)
	w.m.ticking = false
	w.work()
	w.m.ticking = false
	if w.m.clock() == nil {
		t.Error("a run under way has no clock")
	}
	w.end()
	w.m.ticking = false
	if w.m.clock() != nil {
		t.Error("an ended run ticks")
	}
}

// The processor time of a whole program that shows a long, waiting run.
func TestTU06IdleCostsAlmostNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	runs := newRuns()
	runs.add(longLog(story(t, runs), 10_000)...)
	e := play(t, Options{Runs: runs, Run: testRun, Owned: true}, 120, 40)
	e.wait("go test ./pkg")
	time.Sleep(time.Second)
	runtime.GC()
	before := processor(t)
	const look = 3 * time.Second
	time.Sleep(look)
	used := processor(t) - before
	if share := float64(used) / float64(look); share > 0.3 { // far above what it takes, far below a loop, also with the race detector
		t.Errorf("an idle screen takes %.1f %% of a processor", share*100)
	} else {
		t.Logf("an idle screen takes %.2f %% of a processor", share*100)
	}
}

func processor(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Skipf("no usage here (%s): %v", os.Getenv("GOOS"), err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
