package tui

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

var update = flag.Bool("update", false, "write the golden screens anew")

// work brings the run to the middle of its work.
func (w *world) work() {
	w.begin()
	args := func(v any) json.RawMessage { return contract.MarshalJSON(v) }
	w.events(1, contract.ModelDelta{Reasoning: "I should look first.\nThen change it."}, contract.ModelDelta{Text: "I'll look at the **test** first:\n\n- run it\n- read `add.go`"},
		contract.ModelMessage{Text: "I'll look at the **test** first:\n\n- run it\n- read `add.go`", ToolCalls: []contract.ToolCall{{ID: "c1", Name: "bash", Arguments: args(map[string]string{"command": "go test ./..."})}}},
		contract.ToolStarted{CallID: "c1", Name: "bash", Arguments: args(map[string]string{"command": "go test ./..."})},
		contract.ToolResult{CallID: "c1", ExitCode: 1, Stdout: "--- FAIL: TestAdd (0.00s)\n    add_test.go:7: wrong\nFAIL\nFAIL\ttoy\t0.002s\n", DurationMS: 1200},
	)
	cost := 0.03
	w.events(2, contract.UsageUpdated{Usage: contract.Usage{Steps: 2, ModelRequests: 2, InputTokens: 5000, OutputTokens: 200, CachedTokens: 13000, CostUSD: &cost}},
		contract.StepStarted{Step: 2, Max: 40},
		contract.ToolStarted{CallID: "c2", Name: "edit", Arguments: args(map[string]string{"path": "add.go"})},
		contract.ToolResult{CallID: "c2", Path: "add.go", Diff: "@@ -3 +3 @@\n-func Add(a, b int) int { return a - b }\n+func Add(a, b int) int { return a + b }\n"},
		contract.DiffUpdated{Files: []contract.FileChange{{Path: "add.go", Status: "modified", Additions: 1, Deletions: 1}}},
		contract.MessageUser{Message: contract.Message{ID: "m1", Text: "also add a test for 負数 numbers"}},
		contract.ToolStarted{CallID: "c3", Name: "bash", Arguments: args(map[string]string{"command": "go test ./... -count=1"})},
		contract.ToolOutput{CallID: "c3", Stream: "stdout", Text: "ok  \ttoy\t0.003s\n"},
	)
	w.pass(3 * time.Second)
	w.update(clockMsg(w.now))
	w.m.ticking = true
}

func TestScreensAtThreeSizes(t *testing.T) {
	scenes := []struct {
		name string
		play func(w *world)
	}{
		{"a run at work", func(w *world) { w.work() }},
		{"a draft", func(w *world) { w.work(); w.write("hello\n"[:5], time.Second) }},
		{"checks and budget", func(w *world) { w.work(); w.keys("ctrl+t") }},
		{"an approval", func(w *world) {
			w.work()
			w.ask(approval("apr_1", "npm install left-pad && node scripts/gen.js > ../out.txt"))
		}},
		{"a long approval", func(w *world) {
			w.work()
			w.ask(approval("apr_1", strings.Repeat("echo one\n", 40)+"rm -rf /"))
		}},
		{"stopping", func(w *world) {
			w.work()
			w.keys("ctrl+c")
			w.events(2, contract.RunCancelRequested{By: "kim"})
		}},
		{"a review", func(w *world) {
			w.work()
			w.m.o.Actions.Later = func(p string) bool { return strings.HasPrefix(p, ".github/") }
			w.end()
		}},
		{"a list of runs", func(w *world) { w.runs.list = someRuns(); w.keys("ctrl+p") }},
		{"help", func(w *world) { w.work(); w.keys("?") }},
	}
	for _, size := range [][2]int{{40, 10}, {80, 24}, {160, 50}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			var b strings.Builder
			for _, s := range scenes {
				w := newWorld(t, size[0], size[1])
				s.play(w)
				screen := w.screen()
				holdSize(t, w, size[0], size[1])
				fmt.Fprintf(&b, "=== %s\n%s\n", s.name, screen)
			}
			compare(t, filepath.Join("testdata", fmt.Sprintf("screens_%dx%d.txt", size[0], size[1])), b.String())
		})
	}
}

// holdSize checks that no line is wider and no screen higher than the terminal.
func holdSize(t *testing.T, w *world, width, height int) {
	t.Helper()
	lines := strings.Split(w.m.View().Content, "\n")
	if len(lines) > height {
		t.Errorf("%d lines on a screen of %d", len(lines), height)
	}
	for _, l := range lines {
		if n := w.m.theme.width(l); n > width {
			t.Errorf("a line of %d cells on a screen of %d: %q", n, width, plain(l))
		}
	}
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) == got {
		return
	}
	w, g := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			t.Fatalf("%s: line %d differs (-update writes it anew); now:\n%s", name, i+1, strings.Join(g[max(0, i-3):min(len(g), i+12)], "\n"))
		}
	}
}

func someRuns() []contract.Run {
	at := func(d time.Duration) contract.Time { return contract.At(start.Add(-d)) }
	return []contract.Run{
		{ID: "run_aaaaaaaaaaaaaaaaaaaaaaaaaa", Status: contract.Running, PendingApprovals: 1, Instruction: "fix the failing test", Repository: "/home/kim/toy", CreatedAt: at(time.Minute)},
		{ID: "run_bbbbbbbbbbbbbbbbbbbbbbbbbb", Status: contract.Completed, Instruction: "日本語の説明を書く", Name: "docs", Repository: "/home/kim/toy", CreatedAt: at(2 * time.Hour), Result: &contract.Result{
			Outcome: contract.OutcomeVerified, ChangedFiles: []contract.FileChange{{Path: "a", Additions: 3}},
		}},
		{ID: "run_cccccccccccccccccccccccccc", Status: contract.Failed, Instruction: "upgrade", Repository: "/home/kim/other", CreatedAt: at(72 * time.Hour)},
	}
}
