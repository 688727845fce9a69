package scripted_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/scripted"
)

const recording = `{"type":"header","format":"rivumi-replay/1","id":"toy","model":"m"}
{"type":"step","n":0,"text":"look","calls":[{"id":"c0","tool":"bash","args":{"command":"cd {{workdir}} && ls","deep":["{{workdir}}/x"]}}],"recorded":{"returncode":0,"output":"a\nb\n","truncated":false},"usage":{"in":100,"out":5,"cached":80,"cost":0.1}}
{"type":"step","n":1,"text":"fail","calls":[{"id":"c1","tool":"bash","args":{"command":"false"}}],"recorded":{"returncode":1,"output":"one\ntwo\nthr","truncated":true}}
{"type":"step","n":2,"text":"submit","calls":[{"id":"c2","tool":"bash","args":{"command":"git diff"}}],"recorded":{"returncode":0,"output":""}}
{"type":"end","exit_status":"Submitted","patch":"diff"}
`

// drive plays m to its end, answering every call with answer(step).
func drive(t *testing.T, m model.Model, answer func(n int) string) []*model.Turn {
	t.Helper()
	r := request(0)
	var turns []*model.Turn
	for n := range 20 {
		turn, err := model.Collect(t.Context(), m, r)
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, turn)
		if len(turn.Calls) == 0 {
			return turns
		}
		reply := model.Message{Role: model.RoleTool}
		for _, c := range turn.Calls {
			reply.Results = append(reply.Results, model.Result{CallID: c.ID, Text: answer(n)})
		}
		r.Messages = append(r.Messages, model.Message{Role: model.RoleAssistant, Text: turn.Text, Calls: turn.Calls}, reply)
	}
	t.Fatal("the model never ended")
	return nil
}

func TestReplayPlaysAndCompares(t *testing.T) {
	m, err := scripted.ParseReplay([]byte(recording), scripted.ReplayOptions{Workdir: "/w", SkipLast: true})
	if err != nil {
		t.Fatal(err)
	}
	answers := []string{"exit code: 0\nduration: 1 ms\n\na\nb", "exit code: 1\none\ntwo\nthree and more"}
	turns := drive(t, m, func(n int) string { return answers[n] })
	if len(turns) != 3 || string(turns[0].Calls[0].Arguments) != `{"command":"cd /w && ls","deep":["/w/x"]}` {
		t.Fatalf("turns %+v", turns)
	}
	if u := turns[0].Usage; u.Input != 20 || u.CacheRead != 80 || !u.Known || turns[1].Usage.Known {
		t.Fatalf("usage %+v", u)
	}
	report := m.Report()
	if got, want := scripted.Summarise(report), (scripted.Summary{Calls: 2, Readable: 2, SameExit: 2, SameOutput: 2}); got != want {
		t.Fatalf("summary %+v, report %+v", got, report)
	}
}

func TestReplayTellsDifferences(t *testing.T) {
	m, err := scripted.ParseReplay([]byte(recording), scripted.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	answers := []string{"[exit 2, 0.1 s]\nother", "no head at all", "exit code: 0\n"}
	drive(t, m, func(n int) string { return answers[n] })
	if got, want := scripted.Summarise(m.Report()), (scripted.Summary{Calls: 3, Readable: 2, SameExit: 1, SameOutput: 1}); got != want {
		t.Fatalf("summary %+v, report %+v", got, m.Report())
	}
}

func TestReplayRefusesOtherFiles(t *testing.T) {
	for src, want := range map[string]string{
		"":                                     "header",
		`{"type":"step","n":0}`:                "line 1",
		`{"type":"header","format":"other/1"}`: "format",
		recording + `{"type":"header","format":"rivumi-replay/1"}`: "line 6",
		recording + `{"type":"note"}`:                              "note",
		recording + `{`:                                            "line 6",
	} {
		if _, err := scripted.ParseReplay([]byte(src), scripted.ReplayOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", src, err, want)
		}
	}
}

func TestRecorderWritesWhatReplayPlays(t *testing.T) {
	source := play(t, `
turns:
  - {text: one, calls: [{name: bash, arguments: {command: "cat /home/me/tree/f"}}, {name: read, arguments: {path: f}}], usage: {input: 3, output: 4, cacheRead: 2}}
  - {text: two, calls: [{name: bash, raw: "{broken"}]}
  - {text: three}
`)
	var file bytes.Buffer
	rec := scripted.NewRecorder(source, &file, scripted.RecorderOptions{Header: scripted.Header{ID: "r1"}, Workdir: "/home/me/tree"})
	first := drive(t, rec, func(n int) string { return "exit code: 3\n\nsaid /home/me/tree" })
	if err := rec.Close("completed", "the patch"); err != nil {
		t.Fatal(err)
	}
	m, err := scripted.ParseReplay(file.Bytes(), scripted.ReplayOptions{Workdir: "/home/me/tree"})
	if err != nil {
		t.Fatalf("%v\n%s", err, file.String())
	}
	if !strings.Contains(file.String(), "cat {{workdir}}/f") || m.End.Patch != "the patch" || m.Header.ID != "r1" {
		t.Fatalf("recorded:\n%s", file.String())
	}
	again, err := model.Collect(t.Context(), m, request(0))
	if err != nil || again.Text != "one" || len(again.Calls) != 2 || string(again.Calls[0].Arguments) != string(first[0].Calls[0].Arguments) {
		t.Fatalf("%+v, %v", again, err)
	}
	if m.Steps() != 3 || again.Usage.Input != 3 || again.Usage.CacheRead != 2 {
		t.Fatalf("%d steps, usage %+v", m.Steps(), again.Usage)
	}
}

func TestReadResult(t *testing.T) {
	for text, want := range map[string]struct {
		exit   int
		output string
		ok     bool
	}{
		"exit code: 0\nduration: 2 s\n\nhello\n":  {0, "hello\n", true},
		"[exit 1, 0.2 s]\nhello":                  {1, "hello", true},
		"[exit code 0, 0.1 s]\nsrc: a\n\nb":       {0, "src: a\n\nb", true},
		"[exit code 0, 0.1 s]\n(no output)":       {0, "", true},
		"exit_code=127\nsh: no":                   {127, "sh: no", true},
		"note: cut\nexit: -1":                     {-1, "", true},
		"the exit code was fine\n":                {0, "", false},
		strings.Repeat("x\n", 9) + "exit code: 0": {0, "", false},
	} {
		exit, output, ok := scripted.ReadResult(text)
		if exit != want.exit || output != want.output || ok != want.ok {
			t.Errorf("%q: %d %q %t", text, exit, output, ok)
		}
	}
}
