package tui

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/rivumi/rivumi/internal/contract"
)

// Keys typed into the draft when a card pops up are no decisions, and none of them is lost.
func TestAP01TypeAheadNeverDecides(t *testing.T) {
	w := newWorld(t, 80, 24)
	w.begin()
	w.write("yes al", 50*time.Millisecond)
	w.ask(approval("apr_1", "npm install"))
	w.write("ways 1 2 adsx", 50*time.Millisecond)
	if len(w.runs.decided) != 0 {
		t.Fatalf("typing decided: %v", w.runs.decided)
	}
	if w.m.comp.text != "yes always 1 2 adsx" {
		t.Fatalf("the draft is %q", w.m.comp.text)
	}
	w.shows("[tab] answer")
	w.keys("a")
	if len(w.runs.decided) != 0 {
		t.Fatal("a key decided while a draft had the keys")
	}
	w.keys("tab", "a")
	if len(w.runs.decided) != 1 || w.runs.decided[0].Verdict != contract.AllowOnce || w.runs.decided[0].By != "kim" {
		t.Fatalf("the deliberate key: %v", w.runs.decided)
	}
}

// With an empty draft the card has the keys, but not those that were under way when it appeared, and
// not those of somebody who goes on typing.
func TestAP01TheFirstKeysOfACardAreNoDecisions(t *testing.T) {
	w := newWorld(t, 80, 24)
	w.begin()
	w.ask(approval("apr_1", "npm install"))
	w.write("a", 290*time.Millisecond)
	w.write("asx", 400*time.Millisecond)
	if len(w.runs.decided) != 0 || w.m.comp.text != "aasx" {
		t.Fatalf("decided %v, draft %q", w.runs.decided, w.m.comp.text)
	}
	w = newWorld(t, 80, 24)
	w.begin()
	w.ask(approval("apr_1", "npm install"))
	w.keys("enter", "space", "y")
	if len(w.runs.decided) != 0 {
		t.Fatal("there is a default answer")
	}
	w.keys("d")
	if len(w.runs.decided) != 1 || w.runs.decided[0].Verdict != contract.Deny {
		t.Fatalf("decided %v", w.runs.decided)
	}
}

// Several pending questions are all visible; each is answered for itself; a twin that a grant covers
// leaves the queue without an answer of its own.
func TestAP02SeveralApprovalsQueue(t *testing.T) {
	w := newWorld(t, 80, 30)
	w.begin()
	a, b, twin := approval("apr_1", "echo a"), approval("apr_2", "echo b"), approval("apr_3", "echo a")
	w.ask(a)
	w.ask(b)
	w.ask(twin)
	w.shows("approval 1 of 3", "then asks   echo b", "then asks   echo a")
	w.keys("s")
	if len(w.runs.decided) != 1 || w.runs.decided[0].Verdict != contract.AllowSession {
		t.Fatalf("decided %v", w.runs.decided)
	}
	w.keys("a")
	if len(w.runs.decided) != 1 {
		t.Fatal("a sent decision was sent again")
	}
	grant := contract.Decision{Verdict: contract.AllowSession, By: "kim"}
	w.events(1, contract.ApprovalDecided{ID: "apr_1", Decision: grant}, contract.ApprovalDecided{ID: "apr_3", Decision: grant})
	w.shows("── approval ", "echo b")
	w.hides("then asks")
	w.pass(60 * time.Second)
	w.keys("d")
	if len(w.runs.decided) != 2 {
		t.Fatalf("the one left: %v", w.runs.decided)
	}
}

// The card says exactly how far "session" would reach, and offers none where there is none. Where it
// does not fit the screen, the key shows it before it allows it.
func TestAP03TheScopeOfASessionIsShown(t *testing.T) {
	w := newWorld(t, 100, 30)
	w.begin()
	w.ask(approval("apr_1", "go test ./..."))
	w.shows(`allows shell(go test ./...) in this run: this exact command`, "[s] session")
	w.events(1, contract.ApprovalDecided{ID: "apr_1", Decision: contract.Decision{Verdict: contract.Deny}})
	none := approval("apr_2", "go test ./...; touch p")
	none.SessionScope = contract.SessionScope{}
	w.ask(none)
	w.hides("[s]")
	w.keys("s")
	if len(w.runs.decided) != 0 {
		t.Fatalf("allowed for a session that was not offered: %v", w.runs.decided)
	}
	w = newWorld(t, 40, 10)
	w.begin()
	w.ask(approval("apr_3", strings.Repeat("echo one two three; ", 20)))
	w.screen()
	w.keys("s")
	if len(w.runs.decided) != 0 {
		t.Fatal("allowed a session whose scope was out of sight")
	}
	w.screen()
	w.keys("s")
	if len(w.runs.decided) != 1 {
		t.Fatal("the second press, with the scope in sight, does not decide")
	}
}

// A screen that comes late sees the pending question from the log, and later that it was answered.
func TestAP05ALateScreenSeesTheQuestion(t *testing.T) {
	w := newWorld(t, 80, 24)
	w.m.owned, w.m.reading = false, true
	w.begin()
	w.ask(approval("apr_1", "make deploy"))
	late := newWorld(t, 80, 24)
	late.m.owned, late.m.reading = false, true
	late.begin()
	late.ask(approval("apr_1", "make deploy"))
	late.pass(10 * time.Second)
	late.shows("make deploy", "[a] once")
	late.keys("a")
	if len(late.runs.decided) != 1 {
		t.Fatal("the late screen cannot answer")
	}
	done := contract.ApprovalDecided{ID: "apr_1", Decision: contract.Decision{Verdict: contract.AllowOnce, By: "lee"}}
	w.events(1, done)
	w.hides("[a] once")
	w.shows("decided elsewhere")
}

// Codes that would repaint the question are shown as what they are; every line of the command can
// be reached.
func TestAP06ControlCodesAreShownNotDone(t *testing.T) {
	w := newWorld(t, 80, 30)
	w.begin()
	w.ask(approval("apr_1", "ls\x1b[2K\x1b[1A\rAllow? [y]\u202e evil\u200b\nrm -rf /\u009b31m"))
	w.shows(`ls\x1b[2K\x1b[1A\x0dAllow? [y]\u{202E} evil\u{200B}`, "2 │ rm -rf /", `\x9b31m`)
	for _, r := range w.m.View().Content {
		if r == '\r' || r == '\u202e' || r == 0x9b || r == '\u200b' {
			t.Fatalf("%q reached the terminal", r)
		}
	}
	if strings.Contains(w.m.View().Content, "\x1b[2K") {
		t.Fatal("an escape sequence of the command reached the terminal")
	}
	w = newWorld(t, 40, 10)
	w.begin()
	w.ask(approval("apr_1", strings.Repeat("echo padding\n", 50)+"rm -rf /"))
	w.shows("more lines: [v]")
	w.hides("rm -rf /")
	w.keys("v")
	for range 60 {
		if strings.Contains(w.screen(), "51 │ rm -rf /") {
			break
		}
		w.keys("down")
	}
	w.shows("51 │ rm -rf /")
}

// What models and tools print is data everywhere, not only on cards.
func TestHostileTextIsShownAsCodes(t *testing.T) {
	w := newWorld(t, 100, 30)
	w.begin()
	evil := "x\x1b]0;owned\x07\x1b[8mhidden\x1b[2J &#27;[31m &rlm; \u202e"
	w.events(1, contract.ModelDelta{Text: evil}, contract.ToolStarted{CallID: "1", Name: "bash\x1b[5m", Arguments: contract.MarshalJSON(map[string]string{"command": evil})},
		contract.ToolResult{CallID: "1", Stdout: evil + "\r\nnext\n", Path: evil}, contract.Notice{Level: "info", Text: evil})
	for _, bad := range []string{"\x1b]", "\x07", "\x1b[8m", "\x1b[2J", "\x1b[5m", "\u202e", "\u200f", "\r"} {
		if strings.Contains(w.m.View().Content, bad) {
			t.Errorf("%q reached the terminal", bad)
		}
	}
	w.shows("&#27;[31m", `\x1b[8mhidden`)
}

// A paste of several lines is one draft, with and without the marks of a paste, and answers nothing.
func TestTU02APasteIsOneDraft(t *testing.T) {
	w := newWorld(t, 80, 24)
	w.begin()
	w.update(tea.PasteMsg{Content: "one\r\ntwo\nthree\n"})
	if w.m.comp.text != "one\ntwo\nthree\n" || len(w.runs.sent) != 0 {
		t.Fatalf("draft %q, sent %q", w.m.comp.text, w.runs.sent)
	}
	w.keys("enter")
	if len(w.runs.sent) != 1 || w.runs.sent[0] != "one\ntwo\nthree" {
		t.Fatalf("sent %q", w.runs.sent)
	}
	w = newWorld(t, 80, 24)
	w.begin()
	w.pass(time.Second)
	w.write("one\ntwo\nthree\n", time.Millisecond)
	if w.m.comp.text != "one\ntwo\nthree\n" || len(w.runs.sent) != 0 {
		t.Fatalf("unmarked: draft %q, sent %q", w.m.comp.text, w.runs.sent)
	}
	w = newWorld(t, 80, 24)
	w.begin()
	w.ask(approval("apr_1", "npm install"))
	w.pass(time.Second)
	w.update(tea.PasteMsg{Content: "a\ns\nx"})
	if len(w.runs.decided) != 0 || w.m.comp.text != "a\ns\nx" {
		t.Fatalf("a paste decided: %v", w.runs.decided)
	}
}

// Any size is drawn without a panic and within its bounds, and decision keys are there at 20x5.
func TestTU05AnySize(t *testing.T) {
	for _, play := range []func(w *world){
		func(w *world) { w.work() }, func(w *world) { w.work(); w.end() }, func(w *world) { w.work(); w.keys("ctrl+t") },
		func(w *world) { w.runs.list = someRuns(); w.keys("ctrl+p") }, func(w *world) { w.work(); w.keys("?") },
		func(w *world) { w.work(); w.ask(approval("apr_1", "npm install left-pad && rm -rf node_modules")) },
	} {
		w := newWorld(t, 80, 24)
		play(w)
		for _, size := range [][2]int{{80, 24}, {20, 5}, {1, 1}, {0, 0}, {200, 60}, {3, 40}, {300, 2}, {300, 100}} {
			w.update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			if size[0] > 0 {
				holdSize(t, w, size[0], size[1])
			}
		}
	}
	w := newWorld(t, 20, 5)
	w.begin()
	w.ask(approval("apr_1", "npm install left-pad"))
	w.shows("npm install", "a s d x e v")
	w.keys("a")
	if len(w.runs.decided) != 1 {
		t.Fatal("no decision at 20x5")
	}
}

// The cursor is where the next character goes, and one key deletes one visible character.
func TestTU07WideCharacters(t *testing.T) {
	const family = "👨‍👩‍👧"
	w := newWorld(t, 20, 12)
	w.begin()
	for _, s := range []string{"日", "本", "e\u0301", "😀", family} {
		w.pass(time.Second)
		w.update(tea.KeyPressMsg{Code: []rune(s)[0], Text: s})
	}
	c := w.m.View().Cursor
	if c == nil {
		t.Fatal("no cursor")
	}
	line := strings.Split(w.screen(), "\n")[c.Y]
	if want := w.m.theme.width(line); c.X != want {
		t.Errorf("cursor in cell %d of %q, want %d", c.X, line, want)
	}
	for _, want := range []string{"日本e\u0301😀", "日本e\u0301", "日本", "日"} {
		w.keys("backspace")
		if got := strings.ReplaceAll(w.m.comp.text, "\u200d", "ZWJ"); got != want {
			t.Errorf("after backspace %q, want %q", got, want)
		}
	}
	w.m.comp.set("日本語のとても長い下書きです")
	holdSize(t, w, 20, 12)
	w.keys("left", "left", "backspace")
	if w.m.comp.text != "日本語のとても長い下書です" {
		t.Errorf("deleted the wrong character: %q", w.m.comp.text)
	}
	w = newWorld(t, 40, 14)
	w.runs.list = someRuns()
	w.keys("ctrl+p")
	holdSize(t, w, 40, 14)
}

// The stop key answers at once, whatever the run waits for: the model, a retry, an approval.
func TestCX03TheStopKeyAnswersAtOnce(t *testing.T) {
	for name, play := range map[string]func(w *world){
		"a silent model": func(*world) {},
		"a retry":        func(w *world) { w.events(1, contract.ModelRetry{Attempt: 1, InSeconds: 60, Reason: "529"}) },
		"an approval":    func(w *world) { w.ask(approval("apr_1", "npm install")) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 80, 24)
			w.begin()
			play(w)
			w.keys("ctrl+c")
			if len(w.runs.cancelled) != 1 {
				t.Fatalf("asked to stop %d times", len(w.runs.cancelled))
			}
			w.shows("stopping", "again leaves at once")
			w.events(1, contract.RunCancelRequested{By: "kim", Reason: "interrupted at the terminal"})
			w.pass(2 * time.Second)
			w.update(clockMsg(w.now))
			w.shows("asked 2 s ago")
			_, cmd := w.m.Update(press("ctrl+c"))
			if !quits(cmd) || !w.m.result.Now {
				t.Fatal("the second press does not leave")
			}
		})
	}
}

// quits reports whether a command ends the program.
func quits(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	switch msg := cmd().(type) {
	case tea.QuitMsg:
		return true
	case tea.BatchMsg:
		for _, c := range msg {
			if quits(c) {
				return true
			}
		}
	}
	return false
}

// Leaving a run that lives elsewhere never stops it.
func TestLeavingAnAttachedRun(t *testing.T) {
	w := newWorld(t, 80, 24)
	w.m.owned, w.m.reading = false, true
	w.begin()
	_, cmd := w.m.Update(press("q"))
	if !quits(cmd) {
		t.Error("q does not leave")
	}
	w.keys("ctrl+c")
	w.shows("the run goes on", "x stops")
	if _, cmd := w.m.Update(press("ctrl+c")); !quits(cmd) || len(w.runs.cancelled) != 0 {
		t.Error("ctrl+c twice does not leave, or stopped the run")
	}
	w = newWorld(t, 80, 24)
	w.m.owned, w.m.reading = false, true
	w.begin()
	w.keys("ctrl+c", "x")
	if len(w.runs.cancelled) != 1 {
		t.Error("x does not stop the run")
	}
}

// A draft is lost by nothing but sending it.
func TestTheDraftSurvives(t *testing.T) {
	w := newWorld(t, 80, 24)
	w.begin()
	w.write("remember me", 50*time.Millisecond)
	w.keys("ctrl+p", "esc", "ctrl+t", "ctrl+t", "ctrl+d", "esc", "tab", "tab")
	if w.m.comp.text != "remember me" {
		t.Fatalf("the draft is %q", w.m.comp.text)
	}
	w.runs.sendErr = errors.New("no route")
	w.keys("enter")
	if w.m.comp.text != "remember me" {
		t.Fatalf("after a failed send the draft is %q", w.m.comp.text)
	}
	w.shows("no route", "remember me")
	w.runs.sendErr = nil
	w.keys("enter")
	if w.m.comp.text != "" || len(w.runs.sent) != 1 {
		t.Fatalf("draft %q, sent %q", w.m.comp.text, w.runs.sent)
	}
	w.shows(`sending: "remember me"`)
	w.events(1, contract.MessageUser{Message: contract.Message{ID: "m1", Text: "remember me"}})
	w.hides("sending")
	w.shows("queued: told with the next step")
	w.events(2, contract.StepStarted{Step: 2, Max: 40, Messages: []string{"m1"}})
	w.hides("queued")
	w.write("half a thought", 50*time.Millisecond)
	w.keys("up", "up")
	if w.m.comp.text != "remember me" {
		t.Fatalf("the history gives %q", w.m.comp.text)
	}
	w.keys("down")
	if w.m.comp.text != "half a thought" {
		t.Fatalf("back from the history the draft is %q", w.m.comp.text)
	}
	w.m.close()
	if w.m.result.Draft != "half a thought" {
		t.Fatalf("left with the draft %q", w.m.result.Draft)
	}
}
