package tui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

func TestMarkdownHidesNothing(t *testing.T) {
	for in, want := range map[string]string{
		"# Title\n\ntext":          "Title||text",
		"a **b** and `c*d*`":       "a b and c*d*",
		"2 * 3 * 4, snake_case":    "2 * 3 * 4, snake_case",
		"- one\n  - two":           "• one|  • two",
		"1. one\n2. two":           "1. one|2. two",
		"```go\nx := `**a**`\n```": "  x := `**a**`",
		"> said\n&#27; &lt;":       "│ said|&#27; &lt;",
		"open ** and ` stay":       "open ** and ` stay",
	} {
		got := plain(strings.Join(theme{}.markdown(in, 60), "|"))
		if got != want {
			t.Errorf("%q is drawn as %q, want %q", in, got, want)
		}
	}
}

// Text that grows is drawn as it would be at once, at every length.
func TestAStreamEndsAsTheWholeText(t *testing.T) {
	text := "# Head\n\nA **long** line that has to be wrapped somewhere because it is long.\n\n```\ncode **x**\n\nmore\n```\n- a\n- b 日本語日本語日本語日本語\n"
	for _, width := range []int{8, 20, 60} {
		s := stream{scribe: scribe{width: width}}
		for i := 1; i <= len(text); i++ {
			if part := text[:i]; strings.ToValidUTF8(part, "") == part {
				got, want := s.lines(part), theme{}.markdown(part, width)
				if strings.TrimRight(strings.Join(got, "\n"), "\n ") != strings.TrimRight(strings.Join(want, "\n"), "\n ") {
					t.Fatalf("width %d, %q:\n%q\n%q", width, part, got, want)
				}
			}
		}
		for _, l := range s.lines(text) {
			if (theme{}).width(l) > width {
				t.Errorf("width %d: %q", width, l)
			}
		}
	}
}

func TestAPatchIsReadByFile(t *testing.T) {
	files := filesOf(testPatch + "diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n" +
		"diff --git a/x.bin b/x.bin\nindex 1..2\nGIT binary patch\nliteral 3\n" +
		"diff --git \"a/t\\303\\244b\" \"b/t\\303\\244b\"\n--- \"a/t\\303\\244b\"\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n")
	var names []string
	for _, f := range files {
		names = append(names, f.path)
	}
	if want := []string{"add.go", ".github/workflows/ci.yml", "new", "x.bin", "täb"}; !slices.Equal(names, want) {
		t.Fatalf("files %q, want %q", names, want)
	}
	rows := files[0].rows
	if r := rows[len(rows)-1]; r.kind != '+' || r.new != 3 || !strings.Contains(r.text, "a + b") {
		t.Errorf("last row %+v", r)
	}
	for _, l := range append((theme{}).split(rows, 80), (theme{}).unified(rows, 30)...) {
		if n := (theme{}).width(l); n > 80 {
			t.Errorf("%d cells: %q", n, l)
		}
	}
	if all := plain(strings.Join((theme{}).unified(rows, 24), "")); !strings.Contains(strings.ReplaceAll(all, "      ┊ ", ""), "return a + b }") {
		t.Errorf("a long line lost its end: %q", all)
	}
}

func TestNamesAreCompleted(t *testing.T) {
	w := newWorld(t, 80, 24)
	w.m.o.Actions.Files = func(context.Context) ([]string, error) {
		return []string{"cmd/main.go", "internal/tui/model.go", "README.md"}, nil
	}
	w.begin()
	w.write("look at @mod", time.Second)
	w.shows("internal/tui/model.go")
	w.keys("enter")
	if w.m.comp.text != "look at @internal/tui/model.go " || len(w.runs.sent) != 0 {
		t.Fatalf("draft %q, sent %q", w.m.comp.text, w.runs.sent)
	}
	w.write("@re", time.Second)
	w.shows("README.md")
	w.keys("esc")
	w.hides("README.md")
	w.keys("enter")
	if len(w.runs.sent) != 1 || w.runs.sent[0] != "look at @internal/tui/model.go @re" {
		t.Fatalf("sent %q", w.runs.sent)
	}
}

// What was not verified is applied after a second, spelled-out wish only; discard asks as well.
func TestTheReviewAsksTwiceWhereItMatters(t *testing.T) {
	w := newWorld(t, 100, 30)
	var how []Apply
	discarded := 0
	w.m.o.Actions.Apply = func(_ context.Context, r contract.Run, a Apply) (string, error) {
		how = append(how, a)
		if r.Status != contract.Completed && !a.Force {
			return "", errors.New("a check failed")
		}
		return "applied", nil
	}
	w.m.o.Actions.Discard = func(context.Context, contract.Run) error { discarded++; return nil }
	w.work()
	w.end()
	w.m.review.run.Status = contract.Failed
	w.keys("a")
	w.shows("a check failed", "type yes")
	w.write("no\n", time.Second)
	w.shows("nothing was applied")
	w.keys("a")
	w.write("yes\n", time.Second)
	if len(how) != 3 || !how[2].Force {
		t.Fatalf("applied %+v", how)
	}
	w.keys("b")
	w.write("fix/add\n", time.Second)
	w.shows("type yes")
	w.write("yes\n", time.Second)
	if len(how) != 5 || how[4].Branch != "fix/add" || !how[4].Force {
		t.Fatalf("applied %+v", how)
	}
	w.keys("/")
	w.write("jobs\n", time.Second)
	w.shows("jobs: {}")
	w.keys("o")
	w.shows("0.003s")
	w.keys("D")
	w.write("y\n", time.Second)
	if discarded != 0 {
		t.Fatal("discarded without a yes")
	}
	w.keys("m")
	w.shows("completed, verified", "\n >")
}

// Scrolled back, the picture stands still while the run goes on.
func TestScrollingHoldsItsPlace(t *testing.T) {
	w := newWorld(t, 80, 24)
	w.begin()
	for i := range 60 {
		w.events(1, contract.Notice{Level: "info", Text: strings.Repeat("n", i+1)})
	}
	w.screen()
	w.keys("pgup")
	w.pass(time.Second)
	before := w.screen()
	w.events(1, contract.Notice{Level: "info", Text: "something new"})
	if body(before) != body(w.screen()) {
		t.Errorf("the picture moved:\n%s", w.screen())
	}
	w.keys("pgdown", "pgdown")
	w.shows("something new")
}

// body is a screen without its first and last lines, where clocks are.
func body(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[2:len(lines)-3], "\n")
}
