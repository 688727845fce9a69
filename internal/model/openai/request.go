package openai

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/wire"
)

// requestBody is a request without model and messages, which stand before it.
type requestBody struct {
	Tools               []toolBody     `json:"tools,omitempty"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	Effort              string         `json:"reasoning_effort,omitempty"`
	CacheKey            string         `json:"prompt_cache_key,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type toolBody struct {
	Type     string       `json:"type"`
	Function functionBody `json:"function"`
}

type functionBody struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict"`
}

type textMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type toolMessage struct {
	Role    string `json:"role"`
	CallID  string `json:"tool_call_id"`
	Content string `json:"content"`
}

type assistantMessage struct {
	Role      string            `json:"role"`
	Content   *string           `json:"content"`
	Content2  *string           `json:"reasoning_content,omitempty"`
	Reasoning json.RawMessage   `json:"reasoning,omitempty"`
	Details   json.RawMessage   `json:"reasoning_details,omitempty"`
	Calls     []json.RawMessage `json:"tool_calls,omitempty"`
}

// reasoningBlock is how this adapter keeps the reasoning of one answer in a message.
type reasoningBlock struct {
	Content   *string         `json:"reasoning_content,omitempty"`
	Reasoning *string         `json:"reasoning,omitempty"`
	Details   json.RawMessage `json:"reasoning_details,omitempty"`
}

func (b reasoningBlock) empty() bool {
	return b.Content == nil && b.Reasoning == nil && len(b.Details) == 0
}

// encode makes the body of a request. Equal requests give equal bytes, and a longer history
// begins with the bytes of a shorter one's messages.
func (m *Model) encode(r model.Request, h habits) ([]byte, error) {
	rest, err := wire.Marshal(m.settings(r, h))
	if err != nil {
		return nil, err
	}
	name, err := wire.Marshal(r.Model)
	if err != nil {
		return nil, err
	}
	messages, size, err := m.messages(r)
	if err != nil {
		return nil, err
	}
	body := make([]byte, 0, len(name)+size+len(rest)+64)
	body = append(append(body, `{"model":`...), name...)
	body = append(body, `,"messages":[`...)
	for i, raw := range messages {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, raw...)
	}
	return append(append(body, `],`...), rest[1:]...), nil
}

func (m *Model) settings(r model.Request, h habits) requestBody {
	body := requestBody{Stream: true, Effort: r.Effort}
	if !h.noUsage {
		body.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if h.tokenField == "max_completion_tokens" {
		body.MaxCompletionTokens = r.MaxTokens
	} else {
		body.MaxTokens = r.MaxTokens
	}
	if m.o.CacheKey {
		body.CacheKey = r.CacheKey
	}
	for _, t := range r.Tools {
		body.Tools = append(body.Tools, toolBody{Type: "function", Function: functionBody{Name: t.Name, Description: t.Description, Parameters: t.Parameters}})
	}
	return body
}

// messages gives the messages of a request as JSON, and how many bytes they are with separators. What
// was encoded for the request before and is the same is taken from there: a history only grows.
func (m *Model) messages(r model.Request) (out [][]byte, size int, err error) {
	history := r.Messages
	if r.System != "" {
		raw, err := wire.Marshal(textMessage{Role: "system", Content: r.System})
		if err != nil {
			return nil, 0, err
		}
		out, size = append(out, raw), len(raw)+1
	}
	reasons := false
	for _, msg := range history {
		for _, raw := range msg.Reasoning {
			reasons = reasons || !blockOf(raw).empty()
		}
	}
	before := m.coded.take()
	paired := model.Pair(history)
	coded := make([]codedMessage, len(paired))
	for i, msg := range paired {
		if i < len(before) && before[i].reasons == reasons && same(before[i].msg, msg) {
			coded[i] = before[i]
		} else if coded[i].raw, err = m.message(msg, reasons); err != nil {
			return nil, 0, err
		}
		coded[i].msg, coded[i].reasons = msg, reasons
		if raw := coded[i].raw; len(raw) > 0 {
			out, size = append(out, raw), size+len(raw)+1
		}
	}
	m.coded.put(coded)
	return out, size, nil
}

// message encodes one message of a history; a tool message may be several, with commas between. None
// is for a message that says nothing.
func (m *Model) message(msg model.Message, reasons bool) ([]byte, error) {
	switch msg.Role {
	case model.RoleUser:
		return wire.Marshal(textMessage{Role: "user", Content: msg.Text})
	case model.RoleTool:
		var out [][]byte
		for _, res := range msg.Results {
			raw, err := wire.Marshal(toolMessage{Role: "tool", CallID: res.CallID, Content: res.Text})
			if err != nil {
				return nil, err
			}
			out = append(out, raw)
		}
		return bytes.Join(out, []byte(",")), nil
	case model.RoleAssistant:
		am, err := m.assistant(msg, reasons)
		if am == nil || err != nil {
			return nil, err
		}
		return wire.Marshal(am)
	}
	return nil, nil
}

// assistant is nil for a message that says nothing. reasons tells that some turn of the history
// had reasoning: a provider that wants it back then wants the field on every turn with calls.
func (m *Model) assistant(msg model.Message, reasons bool) (*assistantMessage, error) {
	if msg.Text == "" && len(msg.Calls) == 0 {
		return nil, nil
	}
	out := &assistantMessage{Role: "assistant"}
	if msg.Text != "" {
		out.Content = &msg.Text
	}
	for _, c := range msg.Calls {
		raw, err := callBody(c)
		if err != nil {
			return nil, err
		}
		out.Calls = append(out.Calls, raw)
	}
	var block reasoningBlock
	for _, raw := range msg.Reasoning {
		if b := blockOf(raw); !b.empty() {
			block = b
		}
	}
	switch m.o.Reasoning {
	case ReasoningContent:
		if len(msg.Calls) == 0 || !reasons {
			break
		}
		text := ""
		if block.Content != nil {
			text = *block.Content
		} else if block.Reasoning != nil {
			text = *block.Reasoning
		}
		out.Content2 = &text
	case ReasoningDetails:
		out.Details = block.Details
		if block.Reasoning != nil {
			raw, err := wire.Marshal(*block.Reasoning)
			if err != nil {
				return nil, fmt.Errorf("encoding reasoning: %w", err)
			}
			out.Reasoning = raw
		}
	case ReasoningOff:
	}
	return out, nil
}

// blockOf reads a reasoning block; one of another adapter comes out empty.
func blockOf(raw json.RawMessage) reasoningBlock {
	var b reasoningBlock
	if json.Unmarshal(raw, &b) != nil {
		return reasoningBlock{}
	}
	return b
}

// callBody is a call as it goes back: the fields we know, and the provider's own as they came.
func callBody(c model.Call) (json.RawMessage, error) {
	known, err := wire.Marshal(struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}{ID: c.ID, Type: "function", Function: struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}{Name: wire.SafeName(c.Name), Arguments: string(model.SentArguments(c))}})
	if err != nil {
		return nil, fmt.Errorf("encoding call: %w", err)
	}
	extra := bytes.TrimSpace(c.Extra)
	var fields map[string]json.RawMessage
	if len(extra) == 0 || json.Unmarshal(extra, &fields) != nil || len(fields) == 0 {
		return known, nil
	}
	for _, ours := range []string{"id", "type", "function", "index"} {
		delete(fields, ours)
	}
	if len(fields) == 0 {
		return known, nil
	}
	more, err := wire.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encoding call: %w", err)
	}
	return append(append(known[:len(known)-1], ','), more[1:]...), nil
}
