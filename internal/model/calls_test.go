package model_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/redact"
)

func TestSafeCallsAgainstTheHistory(t *testing.T) {
	r := model.Request{Messages: []model.Message{{Role: model.RoleAssistant, Calls: []model.Call{{ID: "a"}}}}}
	calls, notes := model.SafeCalls(r, []model.RawCall{{ID: "a", Name: "x"}, {Name: "x"}, {ID: "bad\x1bid", Name: "x"}, {ID: "b", Name: "not a name"}}, false)
	if calls[0].ID != "a_2" || calls[1].ID != "call_2_2" || calls[2].ID != "call_2_3" || calls[3].Bad == "" || len(notes) != 2 {
		t.Fatalf("%+v %v", calls, notes)
	}
}

func TestMD03BadCallsStayValidJSON(t *testing.T) {
	for _, raw := range []string{`{"a":`, "not json", "[1]", "\xff{", `{"a":1}{"b":2}`, strings.Repeat("é", 3000)} {
		calls, _ := model.SafeCalls(model.Request{}, []model.RawCall{{Name: "write", Arguments: raw}}, false)
		if calls[0].Bad == "" || !json.Valid(calls[0].Arguments) || calls[0].Arguments[0] != '"' {
			t.Errorf("%.20q: %+v", raw, calls[0])
		}
		if sent := model.SentArguments(calls[0]); !model.CompleteObject(string(sent)) || len(sent) > 7000 {
			t.Errorf("%.20q is sent back as %q", raw, sent)
		}
	}
}

// Whatever the history, the paired one has one result for each call, in order, right after it.
func TestMD04PairGivesEveryCallOneResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := []string{"a", "b", "c", "d"}
		var history []model.Message
		for range rapid.IntRange(0, 8).Draw(t, "length") {
			switch rapid.IntRange(0, 2).Draw(t, "role") {
			case 0:
				history = append(history, model.Message{Role: model.RoleUser, Text: "u"})
			case 1:
				m := model.Message{Role: model.RoleAssistant, Text: "a"}
				for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, 3, rapid.ID[string]).Draw(t, "calls") {
					m.Calls = append(m.Calls, model.Call{ID: id})
				}
				history = append(history, m)
			default:
				m := model.Message{Role: model.RoleTool}
				for _, id := range rapid.SliceOfN(rapid.SampledFrom(ids), 0, 3).Draw(t, "results") {
					m.Results = append(m.Results, model.Result{CallID: id, Text: "r"})
				}
				history = append(history, m)
			}
		}
		paired := model.Pair(history)
		users := 0
		for i, m := range paired {
			if m.Role == model.RoleUser {
				users++
			}
			if m.Role == model.RoleTool && (i == 0 || len(paired[i-1].Calls) == 0) {
				t.Fatal("an orphan result")
			}
			if m.Role != model.RoleAssistant || len(m.Calls) == 0 {
				continue
			}
			if i+1 == len(paired) || len(paired[i+1].Results) != len(m.Calls) {
				t.Fatal("a call without a result")
			}
			for j, c := range m.Calls {
				if paired[i+1].Results[j].CallID != c.ID {
					t.Fatal("results out of order")
				}
			}
		}
		for _, m := range history {
			if m.Role == model.RoleUser {
				users--
			}
		}
		if users != 0 {
			t.Fatal("a user message was lost")
		}
	})
}

func TestRedactionOfRequests(t *testing.T) {
	var seen model.Request
	m := model.WithRedaction(model.WithRecord(&attempts{outcomes: []outcome{fine}}, func(e model.Exchange) { seen = e.Request }), redact.New(map[string]string{"KEY": "sup3r-secret"}))
	in := model.Request{
		System: "sup3r-secret",
		Messages: []model.Message{
			{Role: model.RoleUser, Text: "say sup3r-secret"},
			{Role: model.RoleAssistant, Calls: []model.Call{{ID: "a", Arguments: json.RawMessage(`{"c":"sup3r-secret"}`)}}},
			{Role: model.RoleTool, Results: []model.Result{{CallID: "a", Text: "c3VwM3Itc2VjcmV0"}}},
		},
	}
	if _, err := model.Collect(t.Context(), m, in); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(seen)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "sup3r-secret") || strings.Contains(string(out), "c3VwM3Itc2VjcmV0") || strings.Count(string(out), "[redacted:KEY]") != 4 {
		t.Errorf("%s", out)
	}
	if in.Messages[2].Results[0].Text != "c3VwM3Itc2VjcmV0" || string(in.Messages[1].Calls[0].Arguments) != `{"c":"sup3r-secret"}` {
		t.Error("the caller's history was changed")
	}
}

func TestPrices(t *testing.T) {
	f, ok := model.Known("openai", "gpt-5.5")
	if !ok || f.Price == nil {
		t.Fatal("no row")
	}
	for _, c := range []struct {
		u    model.Usage
		want float64
	}{
		{model.Usage{Input: 1000, Output: 100, CacheRead: 10_000, Known: true}, (1000*5 + 100*30 + 10_000*0.5) / 1e6},
		{model.Usage{Input: 300_000, Output: 100, Known: true}, (300_000*10 + 100*45) / 1e6},
		{model.Usage{CacheWrite: 1000, Known: true}, 1000 * 5 / 1e6},
	} {
		if got, ok := f.Price.Cost(c.u); !ok || got < c.want*0.999999 || got > c.want*1.000001 {
			t.Errorf("%+v costs %v, want %v", c.u, got, c.want)
		}
	}
	if _, ok := f.Price.Cost(model.Usage{Input: 5}); ok {
		t.Error("unknown usage has a cost")
	}
	if _, ok := model.Known("openai", "gpt-99"); ok {
		t.Error("an unknown model is known")
	}
}
