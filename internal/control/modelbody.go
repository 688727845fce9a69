package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/rivumi/rivumi/internal/contract"
)

// The keys a model request may have. Everything else is refused: what a provider does with a key
// that nobody here knows (store, fetch, charge) cannot be bounded.
var (
	chatKeys = []string{
		"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "max_tokens", "max_completion_tokens",
		"stream", "stream_options", "temperature", "top_p", "stop", "seed", "reasoning_effort", "prompt_cache_key",
	}
	messagesKeys = []string{
		"model", "system", "messages", "tools", "tool_choice", "max_tokens", "stream", "stop_sequences",
		"temperature", "top_p", "top_k", "thinking", "output_config", "cache_control",
	}
)

// MaxModelMessages bounds the history of one model request.
const MaxModelMessages = 20_000

// member is one key of a request with its value as it came; order is kept, for prompt caches.
type member struct {
	key   string
	value json.RawMessage
}

// modelBody is a validated model request.
type modelBody struct {
	wire      Wire
	members   []member
	maxTokens int
	streaming bool
}

// readModelBody validates a model request: known keys only, none twice, the model of the token,
// messages and tools as lists of objects, and numbers in their ranges.
func readModelBody(w Wire, raw []byte, model string) (modelBody, error) {
	if _, err := contract.Decode[map[string]json.RawMessage](raw); err != nil {
		return modelBody{}, err
	}
	b := modelBody{wire: w, members: members(raw)}
	known := chatKeys
	if w == WireMessages {
		known = messagesKeys
	}
	var refusals []contract.Refusal
	refuse := func(field, code, detail string) {
		refusals = append(refusals, contract.Refusal{Field: field, Code: code, Detail: detail})
	}
	for _, m := range b.members {
		if !slices.Contains(known, m.key) {
			refuse(short(m.key, 64), string(contract.KindUnknownField), "unknown field")
			continue
		}
		if why := b.check(m, model); why != "" {
			refuse(m.key, "invalid_value", why)
		}
	}
	for _, need := range []string{"model", "messages"} {
		if b.get(need) == nil {
			refuse(need, "required", "must be given")
		}
	}
	return b, contract.Refuse(refusals)
}

// check looks at one known member and keeps what the reservation needs.
func (b *modelBody) check(m member, model string) string {
	switch m.key {
	case "model":
		var s string
		if json.Unmarshal(m.value, &s) != nil || s != model {
			return "must be the model of the run"
		}
	case "messages":
		return checkMessages(m.value)
	case "tools":
		var list []map[string]json.RawMessage
		if json.Unmarshal(m.value, &list) != nil {
			return "must be a list of objects"
		}
		return checkTools(b.wire, list)
	case "max_tokens", "max_completion_tokens":
		n, err := strconv.Atoi(string(m.value))
		if err != nil || n < 1 {
			return "must be a whole number of 1 or more"
		}
		if b.maxTokens == 0 || n < b.maxTokens {
			b.maxTokens = n
		}
	case "stream":
		if json.Unmarshal(m.value, &b.streaming) != nil || bytes.Equal(m.value, []byte("null")) {
			return "must be true or false"
		}
	}
	return ""
}

var modelRoles = []string{"system", "developer", "user", "assistant", "tool"}

func checkMessages(raw json.RawMessage) string {
	var list []struct {
		Role string `json:"role"`
	}
	if json.Unmarshal(raw, &list) != nil || list == nil {
		return "must be a list of objects"
	}
	if len(list) == 0 || len(list) > MaxModelMessages {
		return fmt.Sprintf("must have 1 to %d entries", MaxModelMessages)
	}
	for i, m := range list {
		if !slices.Contains(modelRoles, m.Role) {
			return fmt.Sprintf("[%d].role must be one of the wire's", i)
		}
	}
	return ""
}

// checkTools lets client tools through only: a tool that the provider runs itself would reach the
// network past every rule of the run.
func checkTools(w Wire, list []map[string]json.RawMessage) string {
	for i, t := range list {
		kind, given := t["type"]
		switch {
		case w == WireChat && string(kind) != `"function"`:
			return fmt.Sprintf("[%d].type must be function", i)
		case w == WireMessages && given && string(kind) != `"custom"`:
			return fmt.Sprintf("[%d].type must be custom", i)
		}
	}
	return ""
}

func (b *modelBody) get(key string) json.RawMessage {
	for _, m := range b.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// rewrite gives the request with its output bounded and streaming as allowed. Every other byte of
// a value stays, so that a provider's prompt cache still knows the prefix.
func (b *modelBody) rewrite(maxTokens int, streaming bool) []byte {
	var out []member
	bounded, streamed := false, false
	for _, m := range b.members {
		switch m.key {
		case "max_tokens", "max_completion_tokens":
			bounded = true
			if maxTokens > 0 {
				m.value = json.RawMessage(strconv.Itoa(maxTokens))
			}
		case "stream":
			streamed = true
			m.value = json.RawMessage(strconv.FormatBool(streaming))
		case "stream_options":
			if !streaming {
				continue
			}
		}
		out = append(out, m)
	}
	if !bounded && maxTokens > 0 {
		out = append(out, member{"max_tokens", json.RawMessage(strconv.Itoa(maxTokens))})
	}
	if !streamed {
		out = append(out, member{"stream", json.RawMessage(strconv.FormatBool(streaming))})
	}
	return join(out)
}

func join(list []member) []byte {
	var buf bytes.Buffer
	for i, m := range list {
		if i == 0 {
			buf.WriteByte('{')
		} else {
			buf.WriteByte(',')
		}
		buf.Write(contract.MarshalJSON(m.key))
		buf.WriteByte(':')
		buf.Write(m.value)
	}
	buf.WriteByte('}')
	return buf.Bytes()
}

// members splits a JSON object that was decoded strictly before, in order.
func members(raw []byte) []member {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff"))))
	var out []member
	if _, err := dec.Token(); err != nil {
		return nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		name, _ := key.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil
		}
		out = append(out, member{key: name, value: value})
	}
	return out
}
