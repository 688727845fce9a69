package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/wire"
)

// answer gathers one turn.
type answer struct {
	wire.Answer
	reply   *wire.Reply
	out     *wire.Emitter
	request model.Request

	blocks  map[int]*block
	order   []int
	stopped bool // message_stop came
}

type block struct {
	kind      string
	id, name  string
	input     json.RawMessage // from the start event, used where no pieces came
	pieces    strings.Builder // input, thinking or nothing
	signature string
	raw       json.RawMessage // the start event's block, for redacted thinking
	closed    bool
}

type eventBody struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Message *messageReply   `json:"message"`
	Block   json.RawMessage `json:"content_block"`
	Delta   *deltaBody      `json:"delta"`
	Usage   *usageBody      `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type deltaBody struct {
	Type      string  `json:"type"`
	Text      string  `json:"text"`
	JSON      string  `json:"partial_json"`
	Thinking  string  `json:"thinking"`
	Signature string  `json:"signature"`
	Stop      *string `json:"stop_reason"`
}

type messageReply struct {
	Type    string            `json:"type"`
	Model   string            `json:"model"`
	Content []json.RawMessage `json:"content"`
	Stop    *string           `json:"stop_reason"`
	Usage   *usageBody        `json:"usage"`
	Error   json.RawMessage   `json:"error"`
}

type usageBody struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}

type blockBody struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// event takes one event and reports whether it was the last. Unknown events are left aside.
func (a *answer) event(data []byte, e wire.Event) (stopped bool, failed *model.Error) {
	var b eventBody
	if err := json.Unmarshal(data, &b); err != nil {
		if e.Open {
			return false, &model.Error{Kind: model.ErrTruncated, Message: "the stream ended inside an event"}
		}
		return false, &model.Error{Kind: model.ErrProtocol, Message: "an event of the stream cannot be read: " + wire.Excerpt(string(data), 120)}
	}
	if b.Type == "error" || !isNull(b.Error) || b.Type == "" && e.Type == "error" {
		return false, a.reply.Fault(model.ErrStream, data)
	}
	switch b.Type {
	case "message_start":
		if b.Message != nil {
			a.Model = b.Message.Model
			a.use(b.Message.Usage)
		}
	case "content_block_start":
		return false, a.start(b.Index, b.Block)
	case "content_block_delta":
		return false, a.delta(b.Index, b.Delta)
	case "content_block_stop":
		if blk := a.blocks[b.Index]; blk != nil {
			blk.closed = true
		}
	case "message_delta":
		a.use(b.Usage)
		if b.Delta != nil && b.Delta.Stop != nil {
			a.stop(*b.Delta.Stop)
		}
	case "message_stop":
		a.stopped = true
		return true, nil
	}
	return false, nil
}

// use overwrites the counts that an event has: they are running totals.
func (a *answer) use(u *usageBody) {
	if u == nil {
		return
	}
	for _, f := range []struct {
		from *int64
		to   *int64
	}{{u.Input, &a.Usage.Input}, {u.Output, &a.Usage.Output}, {u.CacheRead, &a.Usage.CacheRead}, {u.CacheWrite, &a.Usage.CacheWrite}} {
		if f.from != nil {
			*f.to, a.Usage.Known = max(0, *f.from), true
		}
	}
}

func (a *answer) stop(reason string) {
	a.reply.Hurry()
	switch reason {
	case "end_turn", "stop_sequence":
		a.Finish = model.FinishStop
	case "tool_use":
		a.Finish = model.FinishCalls
	case "max_tokens":
		a.Finish = model.FinishLength
	case "model_context_window_exceeded":
		a.Finish = model.FinishLength
		a.Note("the context of the model is full")
	case "pause_turn":
		a.Finish = model.FinishPause
	case "refusal":
		a.Finish, a.Cut = model.FinishRefusal, true
	default:
		a.Finish, a.Cut = model.FinishStop, true
		a.Note("unknown stop reason " + wire.Excerpt(reason, 40))
	}
}

func (a *answer) start(index int, raw json.RawMessage) *model.Error {
	var b blockBody
	if err := json.Unmarshal(raw, &b); err != nil {
		return &model.Error{Kind: model.ErrProtocol, Message: "a content block cannot be read"}
	}
	if len(a.order) == 4*model.MaxCalls {
		return &model.Error{Kind: model.ErrTooBig, Message: "the answer has too many content blocks"}
	}
	if a.blocks[index] != nil {
		return &model.Error{Kind: model.ErrProtocol, Code: "ambiguous_calls", Message: fmt.Sprintf("content block %d began twice", index)}
	}
	blk := &block{kind: b.Type, id: b.ID, name: b.Name, signature: b.Signature}
	a.blocks[index] = blk
	a.order = append(a.order, index)
	a.reply.Progress()
	switch b.Type {
	case "text":
		a.say(b.Text)
	case "thinking":
		a.Reasoned = true
		blk.pieces.WriteString(b.Thinking)
		a.out.Show(model.ChunkReasoning, b.Thinking)
	case "redacted_thinking":
		a.Reasoned = true
		blk.raw = slices.Clone(raw)
	case "tool_use":
		if !isNull(b.Input) && string(bytes.TrimSpace(b.Input)) != "{}" {
			blk.input = slices.Clone(b.Input)
		}
		a.out.Show(model.ChunkCall, b.Name)
	default:
		a.Note("a content block of an unknown type was left aside")
	}
	return nil
}

func (a *answer) delta(index int, d *deltaBody) *model.Error {
	blk := a.blocks[index]
	if blk == nil {
		return &model.Error{Kind: model.ErrProtocol, Message: fmt.Sprintf("a piece of content block %d came before its start", index)}
	}
	if d == nil {
		return nil
	}
	switch d.Type {
	case "text_delta":
		a.say(d.Text)
	case "thinking_delta":
		blk.pieces.WriteString(d.Thinking)
		a.out.Show(model.ChunkReasoning, d.Thinking)
	case "signature_delta":
		blk.signature += d.Signature
	case "input_json_delta":
		if blk.kind == "tool_use" {
			blk.pieces.WriteString(d.JSON)
			a.out.Show(model.ChunkArguments, d.JSON)
		}
	default:
		return nil
	}
	a.reply.Progress()
	return nil
}

func (a *answer) say(text string) {
	if text == "" {
		return
	}
	a.Text.WriteString(text)
	a.out.Text(text)
}

// whole takes an answer that came as one JSON document.
func (a *answer) whole(data []byte) {
	doc := bytes.TrimSpace(data)
	if bytes.HasPrefix(doc, []byte("[")) {
		a.out.Fail(a.reply.Fault(model.ErrStatus, doc))
		return
	}
	var m messageReply
	err := json.Unmarshal(doc, &m)
	switch {
	case err != nil && !json.Valid(doc):
		a.out.Fail(&model.Error{Kind: model.ErrTruncated, Message: "the answer is not complete JSON"})
		return
	case err == nil && (m.Type == "error" || !isNull(m.Error)):
		e := a.reply.Fault(model.ErrStatus, doc)
		if e.Status == 0 {
			e.Status = 200
		}
		a.out.Fail(e)
		return
	case err != nil || m.Content == nil:
		a.out.Fail(&model.Error{Kind: model.ErrProtocol, Message: "the answer is JSON, but not a message: " + wire.Excerpt(string(doc), 120)})
		return
	}
	a.Model = m.Model
	a.use(m.Usage)
	for i, raw := range m.Content {
		if failed := a.start(i, raw); failed != nil {
			a.out.Fail(failed)
			return
		}
		a.blocks[i].raw, a.blocks[i].closed = slices.Clone(raw), true
	}
	if m.Stop != nil {
		a.stop(*m.Stop)
	}
	a.stopped = true
	a.end()
}

// end closes the turn, where it really ended.
func (a *answer) end() {
	if !a.stopped && a.Finish == "" {
		a.out.Fail(&model.Error{Kind: model.ErrTruncated, Message: "the stream ended early, without an end mark"})
		return
	}
	if !a.stopped {
		a.Note("the stream ended without message_stop")
	}
	if a.Finish == "" {
		a.Finish, a.Cut = model.FinishStop, true
		a.Note("no stop reason")
	}
	for _, i := range a.order {
		blk := a.blocks[i]
		switch blk.kind {
		case "tool_use":
			a.Calls = append(a.Calls, blk.call())
			if !blk.closed {
				a.Cut = true
				a.Note("a tool call was not closed")
			}
		case "thinking", "redacted_thinking":
			if raw := blk.thinking(); raw != nil {
				a.Reasoning = append(a.Reasoning, raw)
			}
		}
	}
	a.End(a.request, a.out)
}

func (b *block) call() model.RawCall {
	raw := model.RawCall{ID: b.id, Name: b.name, Arguments: b.pieces.String()}
	if raw.Arguments == "" && len(b.input) > 0 {
		raw.Arguments = string(b.input)
	}
	return raw
}

// thinking gives the block as it must go back.
func (b *block) thinking() json.RawMessage {
	if len(b.raw) > 0 {
		return b.raw
	}
	if b.kind != "thinking" {
		return nil
	}
	raw, err := wire.Marshal(struct {
		Type      string `json:"type"`
		Thinking  string `json:"thinking"`
		Signature string `json:"signature"`
	}{Type: "thinking", Thinking: b.pieces.String(), Signature: b.signature})
	if err != nil { // strings always marshal
		return nil
	}
	return raw
}
