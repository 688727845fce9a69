package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/wire"
)

type requestBody struct {
	Model     string        `json:"model"`
	MaxTokens int           `json:"max_tokens"`
	System    []part        `json:"system,omitempty"`
	Tools     []toolBody    `json:"tools,omitempty"`
	Choice    *choice       `json:"tool_choice,omitempty"`
	Messages  []messageBody `json:"messages"`
	Stream    bool          `json:"stream"`
	Output    *output       `json:"output_config,omitempty"`
}

type output struct {
	Effort string `json:"effort"`
}

type choice struct {
	Type string `json:"type"`
}

type toolBody struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema"`
	Cache       *cacheMark      `json:"cache_control,omitempty"`
}

type messageBody struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type cacheMark struct {
	Type string `json:"type"`
}

// part is one block of a message that we write ourselves.
type part struct {
	Type    string          `json:"type"`
	Text    string          `json:"text,omitempty"`
	ID      string          `json:"id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Input   json.RawMessage `json:"input,omitempty"`
	CallID  string          `json:"tool_use_id,omitempty"`
	Content string          `json:"content,omitempty"`
	IsError bool            `json:"is_error,omitempty"`
	Cache   *cacheMark      `json:"cache_control,omitempty"`
}

// encode makes the body of a request. No sampling parameter is ever sent: newer API versions
// refuse them. Breakpoints of the cache stand at the last tool, the system prompt and the last two
// user messages, which are all four that the wire allows.
func (m *Model) encode(r model.Request) ([]byte, error) {
	body := requestBody{Model: r.Model, MaxTokens: r.MaxTokens, Stream: true}
	if body.MaxTokens <= 0 {
		body.MaxTokens = m.o.MaxTokens
	}
	if r.Effort != "" {
		body.Output = &output{Effort: r.Effort}
	}
	if strings.TrimSpace(r.System) != "" {
		body.System = []part{{Type: "text", Text: r.System, Cache: m.mark()}}
	}
	body.Tools = m.tools(r)
	if len(r.Tools) == 0 && len(body.Tools) > 0 {
		body.Choice = &choice{Type: "none"}
	}
	messages, err := m.messages(r)
	if err != nil {
		return nil, err
	}
	body.Messages = messages
	return wire.Marshal(body)
}

func (m *Model) mark() *cacheMark {
	if m.o.NoCache {
		return nil
	}
	return &cacheMark{Type: "ephemeral"}
}

// tools gives the request's tools. A history with calls needs tools even where none may be used
// now: then the names it mentions stand for them.
func (m *Model) tools(r model.Request) []toolBody {
	var out []toolBody
	for _, t := range r.Tools {
		schema := t.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		out = append(out, toolBody{Name: t.Name, Description: t.Description, Schema: schema})
	}
	if len(out) == 0 {
		seen := map[string]bool{}
		for _, msg := range r.Messages {
			for _, c := range msg.Calls {
				if name := wire.SafeName(c.Name); !seen[name] {
					seen[name] = true
					out = append(out, toolBody{Name: name, Description: "Not available now.", Schema: json.RawMessage(`{"type":"object"}`)})
				}
			}
		}
	}
	if len(out) > 0 {
		out[len(out)-1].Cache = m.mark()
	}
	return out
}

// messages joins what belongs into one user message: the results of the calls before it first,
// then text.
func (m *Model) messages(r model.Request) ([]messageBody, error) {
	var out []messageBody
	add := func(role string, blocks ...any) {
		if len(blocks) == 0 {
			return
		}
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content = append(out[n-1].Content, blocks...)
			return
		}
		out = append(out, messageBody{Role: role, Content: blocks})
	}
	ids := idMap{}
	for _, msg := range model.Pair(r.Messages) {
		switch msg.Role {
		case model.RoleUser:
			if strings.TrimSpace(msg.Text) != "" {
				add("user", &part{Type: "text", Text: msg.Text})
			}
		case model.RoleTool:
			for _, res := range msg.Results {
				add("user", &part{Type: "tool_result", CallID: ids.safe(res.CallID), Content: res.Text, IsError: res.IsError})
			}
		case model.RoleAssistant:
			blocks, err := assistant(msg, ids)
			if err != nil {
				return nil, err
			}
			add("assistant", blocks...)
		}
	}
	if len(out) == 0 || out[0].Role != "user" {
		out = append([]messageBody{{Role: "user", Content: []any{&part{Type: "text", Text: "Go on."}}}}, out...)
	}
	marks := 2
	for i := len(out) - 1; i >= 0 && marks > 0; i-- {
		if out[i].Role != "user" {
			continue
		}
		if last, ok := out[i].Content[len(out[i].Content)-1].(*part); ok {
			last.Cache = m.mark()
			marks--
		}
	}
	return out, nil
}

// assistant gives the blocks of one turn: its reasoning as it came, its text, its calls.
func assistant(msg model.Message, ids idMap) ([]any, error) {
	var blocks []any
	for _, raw := range msg.Reasoning {
		if isThinking(raw) && (len(msg.Calls) > 0 || strings.TrimSpace(msg.Text) != "") {
			blocks = append(blocks, raw)
		}
	}
	if strings.TrimSpace(msg.Text) != "" {
		blocks = append(blocks, &part{Type: "text", Text: msg.Text})
	}
	for _, c := range msg.Calls {
		input := model.SentArguments(c)
		if !json.Valid(input) {
			return nil, fmt.Errorf("encoding call %s: the arguments are not JSON", c.ID)
		}
		blocks = append(blocks, &part{Type: "tool_use", ID: ids.safe(c.ID), Name: wire.SafeName(c.Name), Input: input})
	}
	return blocks, nil
}

// isThinking tells this wire's reasoning blocks from those of another provider.
func isThinking(raw json.RawMessage) bool {
	var b struct {
		Type      string `json:"type"`
		Signature string `json:"signature"`
		Data      string `json:"data"`
	}
	if json.Unmarshal(raw, &b) != nil {
		return false
	}
	return b.Type == "thinking" && b.Signature != "" || b.Type == "redacted_thinking" && b.Data != ""
}

// idMap gives call ids of other providers a form this wire takes: letters, digits, _ and -.
type idMap map[string]string

func (m idMap) safe(id string) string {
	if s, ok := m[id]; ok {
		return s
	}
	s := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
	if s != id {
		s = fmt.Sprintf("%s_%d", s, len(m))
	}
	m[id] = s
	return s
}
