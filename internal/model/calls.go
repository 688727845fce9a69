package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxCalls bounds the tool calls of one turn.
const MaxCalls = 128

// RawCall is a tool call as it came over the wire, its pieces joined.
type RawCall struct {
	ID        string
	Name      string
	Arguments string
	Extra     json.RawMessage
}

// SafeCalls turns the joined calls of an answer to r into calls that are safe to hand on: ids
// are made non-empty and unique in the turn and against r's history, and a call whose arguments
// are not one complete JSON object, or that a limit may have cut, is marked bad. The notes say
// what was mended. cut says that the answer did not end on its own; only the last call is hit by it.
func SafeCalls(r Request, raw []RawCall, cut bool) (calls []Call, notes []string) {
	used, turn := map[string]bool{}, 1
	for _, m := range r.Messages {
		if m.Role == RoleAssistant {
			turn++
		}
		for _, c := range m.Calls {
			used[c.ID] = true
		}
	}
	for i, rc := range raw {
		c := Call{ID: rc.ID, Name: rc.Name, Extra: rc.Extra}
		if !plain(c.ID, 256) {
			if c.ID != "" {
				notes = append(notes, "unusable call id replaced")
			}
			c.ID = fmt.Sprintf("call_%d_%d", turn, i+1)
		}
		if used[c.ID] {
			notes = append(notes, "duplicate call id")
			c.ID = freshID(used, c.ID)
		}
		used[c.ID] = true
		c.Arguments, c.Bad = checkArguments(rc.Arguments)
		switch {
		case !plain(c.Name, 128):
			c.Bad = "the call has no usable tool name"
		case cut && i == len(raw)-1:
			c.Bad = "the answer was cut off, so this call may be incomplete"
		}
		if c.Bad != "" {
			c.Arguments = quote(rc.Arguments)
		}
		calls = append(calls, c)
	}
	return calls, notes
}

func freshID(used map[string]bool, id string) string {
	for n := 2; ; n++ {
		if next := fmt.Sprintf("%s_%d", id, n); !used[next] {
			return next
		}
	}
}

// CompleteObject reports whether s is one complete JSON object.
func CompleteObject(s string) bool {
	s = strings.TrimSpace(s)
	return strings.HasPrefix(s, "{") && utf8.ValidString(s) && json.Valid([]byte(s))
}

func checkArguments(s string) (args json.RawMessage, bad string) {
	s = strings.TrimSpace(s)
	switch {
	case s == "":
		return json.RawMessage("{}"), ""
	case CompleteObject(s):
		return json.RawMessage(s), ""
	case utf8.ValidString(s) && json.Valid([]byte(s)):
		return nil, "the arguments are not a JSON object"
	}
	return nil, "the arguments are not complete JSON"
}

func quote(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return json.RawMessage(`""`)
	}
	return b
}

// plain reports whether s is 1 to limit printable ASCII characters without spaces.
func plain(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Pair gives the history with exactly one result for every call, in call order and directly after
// the message that made the calls, as every provider demands. A missing result is answered with an
// error result; results nobody asked for and second results are left out. The input is not changed.
func Pair(messages []Message) []Message {
	out := make([]Message, 0, len(messages))
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if m.Role == RoleTool {
			continue // its assistant message took what belongs to it
		}
		out = append(out, m)
		if m.Role != RoleAssistant || len(m.Calls) == 0 {
			continue
		}
		end := i + 1
		for end < len(messages) && messages[end].Role != RoleAssistant {
			end++
		}
		answers := Message{Role: RoleTool, Results: make([]Result, 0, len(m.Calls))}
		for _, c := range m.Calls {
			res, ok := resultOf(messages[i+1:end], c.ID)
			if !ok {
				res = Result{CallID: c.ID, Text: "no result: the call was interrupted and its effects are unknown", IsError: true}
			}
			answers.Results = append(answers.Results, res)
		}
		out = append(out, answers)
	}
	return out
}

// resultOf gives the first result of a call.
func resultOf(messages []Message, id string) (Result, bool) {
	for i := range messages {
		for _, res := range messages[i].Results {
			if res.CallID == id {
				return res, true
			}
		}
	}
	return Result{}, false
}

// SentArguments is the JSON object that stands for a call's arguments in a later request: the
// arguments themselves, or for a bad call an object that quotes at most 2,000 bytes of what came.
func SentArguments(c Call) json.RawMessage {
	if c.Bad == "" && CompleteObject(string(c.Arguments)) {
		return c.Arguments
	}
	var text string
	if err := json.Unmarshal(c.Arguments, &text); err != nil {
		text = string(c.Arguments)
	}
	if len(text) > 2000 {
		text = strings.ToValidUTF8(text[:2000], "")
	}
	return append(append(json.RawMessage(`{"invalid_arguments":`), quote(text)...), '}')
}
