package cli

import (
	"encoding/json"
	"testing"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/scripted"
)

func TestFallbackTakesOverForGoodAfterThreeFailures(t *testing.T) {
	down, err := scripted.Parse([]byte(`turns: [{error: {kind: transport, message: refused}}]`))
	if err != nil {
		t.Fatal(err)
	}
	other, err := scripted.Parse([]byte(`turns: [{text: "from the other"}]` + "\ndefault: repeat-last"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fallback{first: down, second: other, name: "other"}
	req := model.Request{Model: "first", Messages: []model.Message{{Role: model.RoleUser, Text: "x"}}}
	for i := range fallbackAfter {
		if _, err := model.Collect(t.Context(), f, req); err == nil {
			t.Fatalf("request %d was answered", i+1)
		}
	}
	for range 2 {
		turn, err := model.Collect(t.Context(), f, req)
		if err != nil || turn.Text != "from the other" {
			t.Fatalf("%+v, %v", turn, err)
		}
	}
}

func TestFallbackDropsOpaqueBlocks(t *testing.T) {
	f := &fallback{name: "other"}
	r := f.translate(model.Request{Model: "first", Messages: []model.Message{{
		Role: model.RoleAssistant, Reasoning: []json.RawMessage{[]byte(`{}`)}, Calls: []model.Call{{ID: "1", Extra: []byte(`{}`)}},
	}}})
	if r.Model != "other" || r.Messages[0].Reasoning != nil || r.Messages[0].Calls[0].Extra != nil || r.Messages[0].Calls[0].ID != "1" {
		t.Errorf("%+v", r)
	}
}
