package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/wire"
)

// functionPiece is the function part of a call's fragment. Some servers send arguments as an object.
type functionPiece struct {
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

func (f functionPiece) text() string {
	if isNull(f.Arguments) {
		return ""
	}
	if s, ok := stringOf(f.Arguments); ok {
		return s
	}
	return string(f.Arguments)
}

type fragment struct {
	Index    *int           `json:"index"`
	ID       *string        `json:"id"`
	Function *functionPiece `json:"function"`
}

type openCall struct {
	index int // -1 where the server sends none
	id    string
	name  string
	args  strings.Builder
	extra map[string]json.RawMessage

	closed bool // its arguments were whole when the next call began at its index
}

func (c *openCall) complete() bool { return model.CompleteObject(c.args.String()) }

// joiner puts the fragments of tool calls together. A fragment belongs to the call its index names,
// and where a new id or a new head shows up on a used index, to a new call there. What cannot be told
// apart is an error: a merged call could run something nobody asked for.
type joiner struct{ calls []*openCall }

// add takes one element of tool_calls and tells show the name of a call that began and its piece.
func (j *joiner) add(raw json.RawMessage, show func(name, piece string)) *model.Error {
	var f fragment
	if err := json.Unmarshal(raw, &f); err != nil {
		return &model.Error{Kind: model.ErrProtocol, Message: "a tool call of the answer cannot be read: " + wire.Excerpt(string(raw), 120)}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return &model.Error{Kind: model.ErrProtocol, Message: "a tool call of the answer is not an object"}
	}
	id, name, piece := "", "", ""
	if f.ID != nil {
		id = *f.ID
	}
	if f.Function != nil {
		name, piece = f.Function.Name, f.Function.text()
	}
	c, failed := j.target(f.Index, id, name, piece)
	if failed != nil {
		return failed
	}
	began := ""
	if c.name == "" && name != "" {
		c.name, began = name, name
	}
	if c.id == "" {
		c.id = id
	}
	c.args.WriteString(piece)
	c.keep(fields)
	show(began, piece)
	return nil
}

// keep remembers the fields of a call that we do not know.
func (c *openCall) keep(fields map[string]json.RawMessage) {
	for k, v := range fields {
		if k == "index" || k == "id" || k == "type" || k == "function" || isNull(v) {
			continue
		}
		if c.extra == nil {
			c.extra = map[string]json.RawMessage{}
		}
		c.extra[k] = slices.Clone(v)
	}
}

// target finds or opens the call a fragment belongs to.
func (j *joiner) target(index *int, id, name, piece string) (*openCall, *model.Error) {
	at := -1
	if index != nil {
		at = *index
	}
	same := j.at(at)
	if len(same) == 0 {
		if id == "" && name == "" && len(j.calls) > 0 && at < 0 {
			return j.ambiguous(len(j.calls), piece)
		}
		return j.open(at, id)
	}
	last := same[len(same)-1]
	if id != "" {
		for i := len(same) - 1; i >= 0; i-- {
			again := name != "" && head(piece) && same[i].complete() // a whole new call under a used id
			if same[i].id == id && !again {
				return same[i], nil
			}
		}
		if last.id == "" && last.args.Len() == 0 && (last.name == "" || name == "" || last.name == name) {
			return last, nil // the head's id came late
		}
		return j.open(at, id)
	}
	if name != "" {
		return j.named(at, name, piece, same)
	}
	if len(same) > 1 && !same[len(same)-2].closed {
		return j.ambiguous(len(same), piece)
	}
	return last, nil
}

// named places a fragment with a name and no id: a new head, or a name that comes late or is
// repeated with every fragment.
func (j *joiner) named(at int, name, piece string, same []*openCall) (*openCall, *model.Error) {
	last := same[len(same)-1]
	begins := piece == "" || head(piece)
	switch {
	case last.name == "":
		return last, nil
	case last.args.Len() == 0 && last.name == name && at < 0:
		return nil, ambiguousCalls()
	case last.args.Len() == 0 && last.name == name:
		return last, nil
	case last.args.Len() == 0 || begins && last.complete():
		return j.open(at, "")
	case last.name == name && (at >= 0 || len(same) == 1):
		return last, nil
	}
	return nil, ambiguousCalls()
}

// head reports whether a piece looks like the beginning of an arguments object.
func head(piece string) bool { return strings.HasPrefix(strings.TrimSpace(piece), "{") }

func ambiguousCalls() *model.Error {
	return &model.Error{Kind: model.ErrProtocol, Code: "ambiguous_calls", Message: "the fragments of several tool calls cannot be told apart"}
}

// ambiguous is the error for a piece that could belong to more than one of n open calls; an empty
// piece harms nobody and goes to the last.
func (j *joiner) ambiguous(n int, piece string) (*openCall, *model.Error) {
	if n == 1 || strings.TrimSpace(piece) == "" {
		return j.calls[len(j.calls)-1], nil
	}
	return nil, ambiguousCalls()
}

func (j *joiner) at(index int) []*openCall {
	var same []*openCall
	for _, c := range j.calls {
		if c.index == index {
			same = append(same, c)
		}
	}
	return same
}

func (j *joiner) open(index int, id string) (*openCall, *model.Error) {
	if len(j.calls) == model.MaxCalls {
		return nil, &model.Error{Kind: model.ErrTooBig, Message: fmt.Sprintf("the answer has more than %d tool calls", model.MaxCalls)}
	}
	if same := j.at(index); len(same) > 0 {
		last := same[len(same)-1]
		last.closed = last.complete()
	}
	c := &openCall{index: index, id: id}
	j.calls = append(j.calls, c)
	return c, nil
}

// result gives the calls in the order they began.
func (j *joiner) result(note func(string)) ([]model.RawCall, *model.Error) {
	var out []model.RawCall
	for _, c := range j.calls {
		if c.name == "" && c.args.Len() == 0 {
			note("an empty tool call was left out")
			continue
		}
		raw := model.RawCall{ID: c.id, Name: c.name, Arguments: c.args.String()}
		if len(c.extra) > 0 {
			extra, err := wire.Marshal(c.extra)
			if err != nil {
				return nil, &model.Error{Kind: model.ErrProtocol, Err: err}
			}
			raw.Extra = extra
		}
		out = append(out, raw)
	}
	return out, nil
}
