package openai

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/model"
)

// wanted is a call a pretended provider means.
type wanted struct{ ID, Name, Args string }

// fragments spells calls the way one kind of server does.
func fragments(t *rapid.T, calls []wanted, style string) []json.RawMessage {
	var out []json.RawMessage
	add := func(fields map[string]any) {
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, raw)
	}
	queues := make([][]map[string]any, len(calls))
	for i, c := range calls {
		put := func(fields map[string]any) {
			if style != "no index" {
				fields["index"] = i
			}
			if style == "index 0" {
				fields["index"] = 0
			}
			queues[i] = append(queues[i], fields)
		}
		put(map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": ""}})
		for rest := c.Args; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			f := map[string]any{"function": map[string]any{"arguments": rest[:n]}}
			if style == "repeated" {
				f["id"] = c.ID
				f["function"] = map[string]any{"name": c.Name, "arguments": rest[:n]}
			}
			put(f)
			rest = rest[n:]
		}
	}
	interleave := style == "interleaved" || style == "repeated" || style == "shuffled index 0"
	for len(queues) > 0 {
		at := 0
		if interleave {
			at = rapid.IntRange(0, len(queues)-1).Draw(t, "next")
		}
		f := queues[at][0]
		if style == "shuffled index 0" {
			f["index"] = 0
		}
		add(f)
		if queues[at] = queues[at][1:]; len(queues[at]) == 0 {
			queues = append(queues[:at], queues[at+1:]...)
		}
	}
	return out
}

func join(raws []json.RawMessage) ([]model.RawCall, *model.Error) {
	var j joiner
	for _, raw := range raws {
		if err := j.add(raw, func(string, string) {}); err != nil {
			return nil, err
		}
	}
	return j.result(func(string) {})
}

// Servers that say clearly which call a piece belongs to give exactly their calls, however the
// pieces are cut; the others may give an error or a call that cannot run, never another call.
func TestMD02NeverAMergedCall(t *testing.T) {
	pool := []string{`{"command":"ls"}`, `{"command":"rm -rf /tmp/x"}`, `{"a":{"b":["}","{"]}}`, `{}`, `{"name":"bash","arguments":"{}"}`}
	rapid.Check(t, func(t *rapid.T) {
		var calls []wanted
		for i := range rapid.IntRange(1, 4).Draw(t, "calls") {
			name := rapid.SampledFrom([]string{"bash", "read"}).Draw(t, "name")
			calls = append(calls, wanted{fmt.Sprintf("c%d", i), name, rapid.SampledFrom(pool).Draw(t, "args")})
		}
		style := rapid.SampledFrom([]string{"plain", "index 0", "no index", "interleaved", "repeated", "shuffled index 0"}).Draw(t, "style")
		got, err := join(fragments(t, calls, style))
		if style == "shuffled index 0" {
			checkUnclear(t, calls, got, err)
			return
		}
		if err != nil || len(got) != len(calls) {
			t.Fatalf("%s: %v, %+v", style, err, got)
		}
		byID := map[string]wanted{}
		for _, c := range got {
			byID[c.ID] = wanted{c.ID, c.Name, c.Arguments}
		}
		for _, c := range calls {
			if byID[c.ID] != c {
				t.Fatalf("%s: got %+v, want %+v", style, got, calls)
			}
		}
	})
}

func checkUnclear(t *rapid.T, calls []wanted, got []model.RawCall, err *model.Error) {
	if err != nil {
		return
	}
	means := map[wanted]bool{}
	for _, c := range calls {
		means[c] = true
	}
	for _, c := range got {
		if model.CompleteObject(c.Arguments) && !means[wanted{c.ID, c.Name, c.Arguments}] {
			t.Fatalf("nobody asked for %+v; asked were %+v", c, calls)
		}
	}
}
