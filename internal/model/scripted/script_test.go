package scripted_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/scripted"
)

const story = `
turns:
  - text: "I look around first, slowly and in several pieces of text."
    calls:
      - name: bash
        arguments: {command: "ls", timeout_s: 5}
    usage: {input: 100, output: 20, cacheRead: 50}
  - text: done
`

func play(t *testing.T, src string) *scripted.Player {
	t.Helper()
	p, err := scripted.Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// request is a history with n answered turns.
func request(n int) model.Request {
	r := model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "go"}}}
	for range n {
		r.Messages = append(r.Messages, model.Message{Role: model.RoleAssistant, Text: "x"})
	}
	return r
}

func TestScriptPlaysTurnByAssistantMessages(t *testing.T) {
	p := play(t, story)
	var text strings.Builder
	pieces := 0
	var turn *model.Turn
	for c, err := range p.Stream(t.Context(), request(0)) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Kind == model.ChunkText {
			pieces++
			text.WriteString(c.Text)
		}
		turn = c.Turn
	}
	if pieces < 2 || turn == nil || text.String() != turn.Text {
		t.Fatalf("%d pieces, text %q, turn %+v", pieces, text.String(), turn)
	}
	if len(turn.Calls) != 1 || turn.Calls[0].ID != "call_1_1" || string(turn.Calls[0].Arguments) != `{"command":"ls","timeout_s":5}` {
		t.Fatalf("calls %+v", turn.Calls)
	}
	if want := (model.Usage{Input: 100, Output: 20, CacheRead: 50, Known: true}); turn.Usage != want || turn.Finish != model.FinishCalls {
		t.Fatalf("usage %+v finish %s", turn.Usage, turn.Finish)
	}
	second, err := model.Collect(t.Context(), p, request(1))
	if err != nil || second.Text != "done" || second.Usage.Known {
		t.Fatalf("second turn %+v, %v", second, err)
	}
	third, err := model.Collect(t.Context(), p, request(2))
	if err != nil || len(third.Calls) != 0 || third.Finish != model.FinishStop {
		t.Fatalf("after the end: %+v, %v", third, err)
	}
}

func TestScriptRepeatsLast(t *testing.T) {
	p := play(t, "default: repeat-last\n"+story)
	turn, err := model.Collect(t.Context(), p, request(7))
	if err != nil || turn.Text != "done" {
		t.Fatalf("%+v, %v", turn, err)
	}
}

func TestScriptIsStrict(t *testing.T) {
	for src, want := range map[string]string{
		"turns: [{txt: hi}]":                  "txt",
		"turn: [{text: hi}]":                  "turn",
		"turns: []":                           "turns",
		"":                                    "empty",
		"turns: [{}]":                         "turns[0]",
		"turns: [{text: hi, finish: enough}]": "finish",
		"default: again\nturns: [{text: hi}]": "default",
		"turns: [{calls: [{arguments: {}}]}]": "calls[0]",
		"turns: [{error: {kind: sad}}]":       "error.kind",
		"turns: [{text: a}]\n---\nturns: [{text: b}]":                  "document",
		`{"turns":[{"calls":[{"name":"a","arguments":{},"raw":""}]}]}`: "exclude",
	} {
		if _, err := scripted.Parse([]byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that names %q", src, err, want)
		}
	}
}

func TestScriptMD03RawArgumentsNeverRun(t *testing.T) {
	p := play(t, `{"turns":[{"calls":[{"name":"write","raw":"{\"path\":\"a"}],"finish":"length"},{"calls":[{"name":"write","raw":"not json"}]}]}`)
	for n := range 2 {
		turn, err := model.Collect(t.Context(), p, request(n))
		if err != nil || len(turn.Calls) != 1 || turn.Calls[0].Bad == "" {
			t.Fatalf("turn %d: %+v, %v", n, turn, err)
		}
	}
}

func TestScriptFaults(t *testing.T) {
	p := play(t, `
turns:
  - text: partial words
    error: {kind: stream, status: 529, code: overloaded_error, message: busy}
  - text: fine
    error: {kind: status, status: 429, retryAfterMs: 5, times: 2}
`)
	_, err := model.Collect(t.Context(), p, request(0))
	e, ok := model.AsError(err)
	if !ok || e.Kind != model.ErrStream || e.Status != 529 || !e.Emitted {
		t.Fatalf("fault %v", err)
	}
	p = play(t, "turns: [{text: fine, error: {kind: status, status: 429, times: 2}}]")
	for range 2 {
		if _, err := model.Collect(t.Context(), p, request(0)); err == nil {
			t.Fatal("fault was not played")
		}
	}
	if turn, err := model.Collect(t.Context(), p, request(0)); err != nil || turn.Text != "fine" {
		t.Fatalf("%+v, %v", turn, err)
	}
}

func TestScriptCancelEndsEveryWait(t *testing.T) {
	why := errors.New("enough")
	for _, src := range []string{
		"turns: [{text: a, delayMs: 600000}]",
		"turns: [{text: abcdef, chunks: 3, chunkMs: 600000}]",
		"turns: [{hang: true}]",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
		_, err := model.Collect(ctx, play(t, src), request(0))
		if e, ok := model.AsError(err); !ok || e.Kind != model.ErrCanceled || !errors.Is(err, why) {
			t.Errorf("%s: %v", src, err)
		}
	}
}

func TestScriptPlaysNothingAfterACancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	turn, err := model.Collect(ctx, play(t, story), request(0))
	if e, ok := model.AsError(err); !ok || e.Kind != model.ErrCanceled {
		t.Fatalf("%+v, %v", turn, err)
	}
}
