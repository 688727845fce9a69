package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/model"
)

// Whatever becomes of a history between two requests, the body is what a model that sent nothing before
// would make of it.
func TestEncodingRemembersNothingThatChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{BaseURL: "http://127.0.0.1:1", Reasoning: rapid.SampledFrom([]Reasoning{ReasoningOff, ReasoningContent, ReasoningDetails}).Draw(t, "reasoning")}
		used, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		var history []model.Message
		for i := range rapid.IntRange(1, 8).Draw(t, "requests") {
			switch n := len(history); {
			case n > 0 && rapid.IntRange(0, 3).Draw(t, "change") == 0:
				at := rapid.IntRange(0, n-1).Draw(t, "at")
				history[at] = drawMessage(t, i)
			case n > 0 && rapid.IntRange(0, 5).Draw(t, "cut") == 0:
				history = append([]model.Message(nil), history[rapid.IntRange(0, n-1).Draw(t, "from"):]...)
			}
			history = append(history, drawMessage(t, i))
			r := model.Request{Model: "m", System: "s", Messages: history, MaxTokens: 5}
			fresh, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := used.encode(r, habits{})
			want, werr := fresh.encode(r, habits{})
			if err != nil || werr != nil || !bytes.Equal(got, want) || !json.Valid(got) {
				t.Fatalf("%v %v\n got %s\nwant %s", err, werr, got, want)
			}
		}
	})
}

func drawMessage(t *rapid.T, i int) model.Message {
	text := rapid.SampledFrom([]string{"", "a", "b<&>"}).Draw(t, "text")
	switch rapid.IntRange(0, 2).Draw(t, "role") {
	case 0:
		return model.Message{Role: model.RoleUser, Text: text}
	case 1:
		return model.Message{Role: model.RoleTool, Results: []model.Result{{CallID: fmt.Sprint("c", rapid.IntRange(0, i).Draw(t, "call")), Text: text}}}
	}
	m := model.Message{Role: model.RoleAssistant, Text: text}
	if rapid.Bool().Draw(t, "calls") {
		m.Calls = []model.Call{{ID: fmt.Sprint("c", i), Name: "bash", Arguments: json.RawMessage(`{"command":"` + text + `"}`), Extra: json.RawMessage(`{"x":1}`)}}
	}
	if rapid.Bool().Draw(t, "thinks") {
		m.Reasoning = []json.RawMessage{json.RawMessage(`{"reasoning_content":"` + text + `"}`)}
	}
	return m
}
