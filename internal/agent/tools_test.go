package agent_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/contract"
)

func TestSH05NoisyOutputIsBounded(t *testing.T) {
	w := newWorld(t, calls("bash", `{"command":"yes | head -c 30000000; echo LAST","timeout_s":60}`, "bash", bash("head -c 3000000 /dev/zero | tr '\\0' x")), says("done"))
	w.end(agent.EndFinished)
	res := w.results()
	if !strings.Contains(res[0].Text, "LAST") || !strings.Contains(res[0].Text, "bytes of output were dropped") || res[0].Truncated.StdoutBytes < 29_000_000 {
		t.Errorf("the result has %+v and ends %q", res[0].Truncated, res[0].Text[max(0, len(res[0].Text)-80):])
	}
	if !strings.Contains(res[0].Text, "full output: artifact "+res[0].Artifact) || w.put[res[0].Artifact] == "" || len(w.put[res[0].Artifact]) > 52<<10 {
		t.Errorf("the artifact %q has %d bytes", res[0].Artifact, len(w.put[res[0].Artifact]))
	}
	for i, r := range res {
		if len(r.Text) > 18<<10 || len(r.Stdout) > 26<<10 {
			t.Errorf("result %d: %d bytes to the model, %d in the event", i, len(r.Text), len(r.Stdout))
		}
	}
	live := 0
	for _, o := range payloads[contract.ToolOutput](w.log.all()) {
		live += len(o.Text)
	}
	if live > 600<<10 {
		t.Errorf("%d bytes were shown while it ran", live)
	}
}

func TestSH06OddBytesDoNotPoisonTheHistory(t *testing.T) {
	w := newWorld(t, calls("bash", bash(`printf 'a\0b\033[31mred\377\n'`)), says("done"))
	w.end(agent.EndFinished)
	if got := w.results()[0].Stdout; got != `a\x00b\x1b[31mred\xff`+"\n" {
		t.Errorf("the output is %q", got)
	}
}

func TestTimeoutIsAFieldBeforeTheText(t *testing.T) {
	w := newWorld(t, calls("bash", `{"command":"echo before; sleep 60","timeout_s":1}`), says("done"))
	w.end(agent.EndFinished)
	r := w.results()[0]
	if !r.TimedOut || !r.IsError || !strings.Contains(strings.SplitN(r.Text, "\n", 2)[0], "timed out after 1 s") || r.Stdout != "before\n" {
		t.Errorf("%+v", r)
	}
}

func TestPT01OnlyTheTargetedLineChanges(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct{ before, old, new, after string }{
		"crlf":               {"one\r\ntwo\r\nthree\r\n", "two", "2", "one\r\n2\r\nthree\r\n"},
		"crlf, many lines":   {"one\r\ntwo\r\nthree\r\n", "one\ntwo\nthree\n", "one\n2\nthree\n", "one\r\n2\r\nthree\r\n"},
		"crlf, inside lines": {"one\r\ntwo\r\nthree\r\n", "ne\ntw", "ne\nTW", "one\r\nTWo\r\nthree\r\n"},
		"crlf, added line":   {"one\r\ntwo\r\n", "two", "two\nhalf", "one\r\ntwo\r\nhalf\r\n"},
		"crlf, removed line": {"one\r\ntwo\r\nthree\r\n", "one\ntwo\n", "one\n", "one\r\nthree\r\n"},
		"mixed":              {"one\ntwo\r\nthree\n", "two", "2", "one\n2\r\nthree\n"},
		"mixed, many lines":  {"one\ntwo\r\nthree\n", "one\ntwo\nthree", "one\n2\nthree", "one\n2\r\nthree\n"},
		"no final newline":   {"one\ntwo\nthree", "two", "2", "one\n2\nthree"},
		"last line":          {"one\ntwo", "two", "2", "one\n2"},
		"lf stays":           {"one\ntwo\n", "one\ntwo", "1\n2", "1\n2\n"},
	} {
		w.next(calls("edit", editArgs("f", c.old, c.new)), says("done"))
		w.file("f", c.before)
		w.end(agent.EndFinished)
		if got := w.content("f"); got != c.after {
			t.Errorf("%s: the file is %q, want %q (%s)", name, got, c.after, w.results()[0].Text)
		}
	}
	w.next(calls("write", writeArgs("f", "a\nb\n")), says("done"))
	w.file("f", "a\r\nc\r\n")
	w.end(agent.EndFinished)
	if got := w.content("f"); got != "a\r\nb\r\n" {
		t.Errorf("a written CRLF file is %q", got)
	}
}

func TestPT02OtherBytesStay(t *testing.T) {
	w := newWorld(t, calls("read", `{"path":"f"}`, "edit", editArgs("f", "5", "7")), says("done"))
	w.file("f", "caf\xe9\nprice: 5\n")
	w.end(agent.EndFinished)
	if got := w.content("f"); got != "caf\xe9\nprice: 7\n" {
		t.Errorf("the file is %q", got)
	}
	if res := w.results(); !strings.Contains(res[0].Text, `caf\xe9`) || strings.Contains(res[1].Diff, "\ufffd") {
		t.Errorf("read shows %q, the diff %q", res[0].Text, res[1].Diff)
	}
}

func TestEditSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t, calls(
		"edit", editArgs("f", "x = 1", "x = 2"), "edit", editArgs("f", "func mian() {", "func main() {"), "edit", editArgs("f", "", "x"),
		"edit", editArgs("none", "a", "b"), "edit", `{"path":"f","old":"x = 1","new":"x = 3","replace_all":true}`,
	), says("done"))
	w.file("f", "x = 1\nfunc main() {\nx = 1\n}\n")
	if err := os.Chmod(w.dir+"/f", 0o755); err != nil {
		t.Fatal(err)
	}
	w.end(agent.EndFinished)
	res := w.results()
	for i, want := range []string{"occurs 2 times", "     2\tfunc main() {", "must not be empty", "no such file", "edited f"} {
		if !strings.Contains(res[i].Text, want) || res[i].IsError != (i < 4) {
			t.Errorf("edit %d: %q, want %q", i, res[i].Text, want)
		}
	}
	if !strings.Contains(res[0].Text, "     3\tx = 1") || !strings.Contains(res[1].Text, "0 matches") {
		t.Errorf("the places are not named: %q, %q", res[0].Text, res[1].Text)
	}
	want := "--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n-x = 1\n+x = 3\n func main() {\n-x = 1\n+x = 3\n }\n"
	if res[4].Diff != want || res[4].Path != "f" {
		t.Errorf("the diff is %q", res[4].Diff)
	}
	if st, err := os.Stat(w.dir + "/f"); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("the mode became %v, %v", st.Mode(), err)
	}
}

func TestReadShowsNumberedLinesWithinBounds(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	w := newWorld(t, calls("read", `{"path":"f"}`, "read", `{"path":"f","offset":990,"limit":5}`, "read", `{"path":"f","offset":2000}`,
		"read", `{"path":"bin"}`, "read", `{"path":"empty"}`, "read", `{"path":"wide"}`, "read", `{"path":"link"}`, "write", writeArgs("link", "x")), says("done"))
	w.file("f", b.String())
	w.file("bin", "a\x00b")
	w.file("empty", "")
	w.file("wide", strings.Repeat("w", 1<<20))
	if err := os.Symlink("/etc/hostname", w.dir+"/link"); err != nil {
		t.Fatal(err)
	}
	w.end(agent.EndFinished)
	res := w.results()
	for i, want := range []string{"   400\tline 400\n[lines 1 to 400 of 1000]", "   990\tline 990", "[the file has 1000 lines]", "[binary file, 3 bytes", "[empty file]", "bytes]", "link: ", "link: "} {
		if !strings.Contains(res[i].Text, want) || len(res[i].Text) > 18<<10 {
			t.Errorf("read %d: %d bytes %.200q, want %q", i, len(res[i].Text), res[i].Text, want)
		}
	}
	if !res[6].IsError || !res[7].IsError {
		t.Error("a link out of the tree was followed")
	}
}

func TestWriteCreatesFoldersAndShowsTheDiff(t *testing.T) {
	w := newWorld(t, calls("write", writeArgs("a/b/c.txt", "x\ny")), says("done"))
	w.end(agent.EndFinished)
	r := w.results()[0]
	if w.content("a/b/c.txt") != "x\ny" || !strings.Contains(r.Diff, "--- /dev/null\n+++ b/a/b/c.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline") {
		t.Errorf("%q", r.Diff)
	}
	if s := payloads[contract.ToolStarted](w.log.all()); s[0].PreHash != "absent" {
		t.Errorf("the hash before is %q", s[0].PreHash)
	}
}

func TestBashOnlyBaseline(t *testing.T) {
	w := newWorld(t, calls("read", `{"path":"f"}`), says("done"))
	w.c.Tools = []string{"bash"}
	w.end(agent.EndFinished)
	if r := w.model.requests[0]; len(r.Tools) != 1 || strings.Contains(r.System, "- edit:") {
		t.Errorf("the model gets %d tools", len(r.Tools))
	}
	if !strings.Contains(w.results()[0].Text, `no tool "read"`) {
		t.Errorf("%q", w.results()[0].Text)
	}
}
