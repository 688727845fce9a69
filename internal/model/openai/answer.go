package openai

import (
	"bytes"
	"encoding/json"
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

	calls     joiner
	finished  bool // a finish reason came
	done      bool // [DONE] came
	refused   strings.Builder
	block     reasoningBlock
	content   strings.Builder // reasoning_content
	reasoning strings.Builder
	details   []map[string]json.RawMessage
}

type chunkBody struct {
	Object  string          `json:"object"`
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Choices []choiceBody    `json:"choices"`
	Usage   *usageBody      `json:"usage"`
	Groq    *struct {
		Usage *usageBody `json:"usage"`
	} `json:"x_groq"`
}

type choiceBody struct {
	Index   int         `json:"index"`
	Delta   *deltaBody  `json:"delta"`
	Message *deltaBody  `json:"message"`
	Finish  *string     `json:"finish_reason"`
	Error   *faultField `json:"error"`
}

// faultField keeps an error object's JSON; null leaves the pointer nil.
type faultField struct{ raw json.RawMessage }

// UnmarshalJSON implements json.Unmarshaler.
func (f *faultField) UnmarshalJSON(data []byte) error {
	f.raw = append(f.raw[:0], data...)
	return nil
}

type deltaBody struct {
	Content   json.RawMessage   `json:"content"`
	Refusal   *string           `json:"refusal"`
	Reasoned  *string           `json:"reasoning_content"`
	Reasoning json.RawMessage   `json:"reasoning"`
	Details   []json.RawMessage `json:"reasoning_details"`
	Calls     []json.RawMessage `json:"tool_calls"`
	Function  *functionPiece    `json:"function_call"`
}

type usageBody struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	CacheHit   int64 `json:"prompt_cache_hit_tokens"` // DeepSeek
	PromptInfo *struct {
		Cached int64 `json:"cached_tokens"`
		Writes int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionInfo *struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// chunk takes one event's JSON. open says that the event may have been cut by the stream's end.
func (a *answer) chunk(data []byte, open bool) *model.Error {
	var c chunkBody
	if err := json.Unmarshal(data, &c); err != nil {
		if open {
			return &model.Error{Kind: model.ErrTruncated, Message: "the stream ended inside an event"}
		}
		// An error whose other fields have odd types is still an error.
		var f struct {
			Error json.RawMessage `json:"error"`
		}
		if json.Unmarshal(data, &f) == nil && !isNull(f.Error) {
			return a.reply.Fault(model.ErrStream, data)
		}
		return &model.Error{Kind: model.ErrProtocol, Message: "an event of the stream is not a chat completion chunk: " + wire.Excerpt(string(data), 120)}
	}
	if !isNull(c.Error) || c.Object == "error" {
		return a.reply.Fault(model.ErrStream, data)
	}
	return a.take(c)
}

func (a *answer) take(c chunkBody) *model.Error {
	if c.Model != "" {
		a.Model = c.Model
	}
	a.use(c.Usage)
	if c.Groq != nil {
		a.use(c.Groq.Usage)
	}
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			a.Note("a second choice was left aside")
			continue
		}
		if ch.Error != nil {
			return a.reply.Fault(model.ErrStream, append(append([]byte(`{"error":`), ch.Error.raw...), '}'))
		}
		for _, d := range []*deltaBody{ch.Delta, ch.Message} {
			if d == nil {
				continue
			}
			if err := a.delta(d); err != nil {
				return err
			}
		}
		if ch.Finish != nil && *ch.Finish != "" {
			if err := a.finish(*ch.Finish); err != nil {
				return err
			}
		}
	}
	return nil
}

// use overwrites the usage: some servers send a running total with every chunk.
func (a *answer) use(u *usageBody) {
	if u == nil {
		return
	}
	cached := u.CacheHit
	var writes, reasoning int64
	if u.PromptInfo != nil {
		cached, writes = max(cached, u.PromptInfo.Cached), u.PromptInfo.Writes
	}
	if u.CompletionInfo != nil {
		reasoning = u.CompletionInfo.Reasoning
	}
	a.Usage = model.Usage{
		Input: max(0, u.Prompt-cached-writes), Output: max(0, u.Completion), CacheRead: max(0, cached), CacheWrite: max(0, writes),
		Reasoning: max(0, reasoning), Known: true,
	}
}

func (a *answer) finish(word string) *model.Error {
	a.finished = true
	a.reply.Hurry()
	switch strings.ToLower(word) {
	case "stop", "end_turn", "eos", "stop_sequence":
		a.Finish = model.FinishStop
	case "tool_calls", "function_call", "tool_use":
		a.Finish = model.FinishCalls
	case "length", "max_tokens", "model_length":
		a.Finish = model.FinishLength
	case "content_filter", "safety", "sensitive", "recitation":
		a.Finish, a.Cut = model.FinishFilter, true
	case "error", "abort", "cancelled", "network_error", "malformed_function_call":
		return &model.Error{Kind: model.ErrStream, Status: 502, Code: wire.Excerpt(word, 40), Message: "the provider ended the answer with the reason " + wire.Excerpt(word, 40)}
	case "insufficient_system_resource":
		return &model.Error{Kind: model.ErrStream, Status: 503, Code: word, Message: "the provider ran out of resources"}
	default:
		a.Finish, a.Cut = model.FinishStop, true
		a.Note("unknown finish reason " + wire.Excerpt(word, 40))
	}
	return nil
}

func (a *answer) delta(d *deltaBody) *model.Error {
	if d.Reasoned != nil {
		a.content.WriteString(*d.Reasoned)
		a.block.Content = d.Reasoned
		a.think(*d.Reasoned)
	}
	if text, ok := stringOf(d.Reasoning); ok {
		a.reasoning.WriteString(text)
		a.block.Reasoning = &text
		if d.Reasoned == nil {
			a.think(text)
		}
	}
	for _, raw := range d.Details {
		a.detail(raw)
	}
	if err := a.say(d.Content); err != nil {
		return err
	}
	if d.Refusal != nil && *d.Refusal != "" {
		a.refused.WriteString(*d.Refusal)
		a.reply.Progress()
		a.out.Text(*d.Refusal)
	}
	pieces := d.Calls
	if d.Function != nil {
		raw, err := wire.Marshal(map[string]any{"index": 0, "function": d.Function})
		if err != nil {
			return &model.Error{Kind: model.ErrProtocol, Err: err}
		}
		pieces = append(pieces, raw)
	}
	for _, raw := range pieces {
		if isNull(raw) {
			continue
		}
		if err := a.calls.add(raw, a.showCall); err != nil {
			return err
		}
		a.reply.Progress()
	}
	return nil
}

func (a *answer) showCall(name, piece string) {
	a.out.Show(model.ChunkCall, name)
	a.out.Show(model.ChunkArguments, piece)
}

func (a *answer) think(s string) {
	if s == "" {
		return
	}
	a.Reasoned = true
	a.reply.Progress()
	a.out.Show(model.ChunkReasoning, s)
}

// say takes content: a string, null, or a list of parts.
func (a *answer) say(raw json.RawMessage) *model.Error {
	if isNull(raw) {
		return nil
	}
	text, ok := stringOf(raw)
	if !ok {
		var parts []struct {
			Type     string          `json:"type"`
			Text     string          `json:"text"`
			Thinking json.RawMessage `json:"thinking"`
		}
		if json.Unmarshal(raw, &parts) != nil {
			return &model.Error{Kind: model.ErrProtocol, Message: "the content of the answer is neither text nor a list of parts"}
		}
		for _, p := range parts {
			switch p.Type {
			case "text", "output_text":
				text += p.Text
			case "thinking":
				a.Reasoned = true
			default:
				a.Note("a content part of an unknown type was left aside")
			}
		}
	}
	if text == "" {
		return nil
	}
	a.Text.WriteString(text)
	a.reply.Progress()
	a.out.Text(text)
	return nil
}

func stringOf(raw json.RawMessage) (string, bool) {
	var s string
	if isNull(raw) || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

// detail joins the pieces of one reasoning detail: same index and type as the last one.
func (a *answer) detail(raw json.RawMessage) {
	var d map[string]json.RawMessage
	if json.Unmarshal(raw, &d) != nil {
		return
	}
	a.reply.Progress()
	a.Reasoned = true
	if n := len(a.details); n > 0 {
		last := a.details[n-1]
		if bytes.Equal(last["index"], d["index"]) && bytes.Equal(last["type"], d["type"]) && (len(d["index"]) > 0 || isText(d)) {
			for k, v := range d {
				old, was := stringOf(last[k])
				piece, is := stringOf(v)
				switch {
				case was && is && (k == "text" || k == "summary" || k == "data"):
					if joined, err := wire.Marshal(old + piece); err == nil {
						last[k] = joined
					}
				case !isNull(v):
					last[k] = v
				}
			}
			return
		}
	}
	a.details = append(a.details, d)
}

func isText(d map[string]json.RawMessage) bool {
	_, ok := stringOf(d["text"])
	return ok
}

// whole takes an answer that came as one JSON document.
func (a *answer) whole(data []byte) {
	var c chunkBody
	doc := bytes.TrimSpace(data)
	if bytes.HasPrefix(doc, []byte("[")) {
		a.out.Fail(a.reply.Fault(model.ErrStatus, doc))
		return
	}
	err := json.Unmarshal(doc, &c)
	switch {
	case err == nil && (!isNull(c.Error) || c.Object == "error"):
		a.out.Fail(a.inside(doc))
		return
	case err != nil && !json.Valid(doc):
		a.out.Fail(&model.Error{Kind: model.ErrTruncated, Message: "the answer is not complete JSON"})
		return
	case err != nil || c.Choices == nil && !bytes.Contains(doc, []byte(`"choices"`)):
		a.out.Fail(&model.Error{Kind: model.ErrProtocol, Message: "the answer is JSON, but not a chat completion: " + wire.Excerpt(string(doc), 120)})
		return
	}
	if failed := a.take(c); failed != nil {
		a.out.Fail(failed)
		return
	}
	a.end(true, true)
}

// inside is an error object in a 200. A route the server does not know gets advice.
func (a *answer) inside(doc []byte) *model.Error {
	e := a.reply.Fault(model.ErrStatus, doc)
	if strings.Contains(strings.ToLower(e.Message), "unexpected endpoint") {
		e.Message += " (the base address probably needs /v1 at its end)"
		e.Code = "bad_url"
	}
	if e.Status == 0 {
		e.Status = 200
	}
	return e
}

// end closes the turn. marked says that an end mark came; complete that the document was whole.
func (a *answer) end(marked, complete bool) {
	calls, err := a.calls.result(a.Note)
	if err != nil {
		a.out.Fail(err)
		return
	}
	a.Calls = calls
	if !a.finished {
		switch {
		case !marked:
			a.out.Fail(&model.Error{Kind: model.ErrTruncated, Message: "the stream ended early, without an end mark"})
			return
		case len(calls) > 0 && !complete:
			// A proxy may write the end mark of a stream that was cut behind it.
			a.out.Fail(&model.Error{Kind: model.ErrTruncated, Message: "the stream ended inside a tool call, without a finish reason"})
			return
		}
		a.Finish = model.FinishStop
		a.Note("no finish reason")
	}
	if a.refused.Len() > 0 {
		a.Text.WriteString(a.refused.String())
		a.Finish, a.Cut = model.FinishRefusal, true
	}
	a.keepReasoning()
	a.End(a.request, a.out)
}

func (a *answer) keepReasoning() {
	b := a.block
	if b.Content != nil {
		text := a.content.String()
		b.Content = &text
	}
	if b.Reasoning != nil {
		text := a.reasoning.String()
		b.Reasoning = &text
	}
	if len(a.details) > 0 {
		if raw, err := wire.Marshal(a.details); err == nil {
			b.Details = raw
		}
	}
	if b.empty() {
		return
	}
	if raw, err := wire.Marshal(b); err == nil {
		a.Reasoning = append(a.Reasoning, raw)
	}
}
