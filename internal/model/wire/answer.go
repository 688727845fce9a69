package wire

import (
	"encoding/json"
	"strings"

	"github.com/rivumi/rivumi/internal/model"
)

// Emitter hands chunks to the consumer of a stream. White space before the first visible text is
// kept back, so that an answer of only white space counts as nothing emitted.
type Emitter struct {
	Yield   func(model.Chunk, error) bool
	Emitted bool
	Left    bool // the consumer broke out; nothing may be yielded any more
	blank   string
}

// Text emits a piece of the answer's text.
func (e *Emitter) Text(s string) {
	if e.blank != "" || !e.Emitted {
		if strings.TrimSpace(s) == "" {
			e.blank += s
			return
		}
		s, e.blank = e.blank+s, ""
	}
	e.Show(model.ChunkText, s)
}

// Show emits one chunk; an empty text is not shown.
func (e *Emitter) Show(kind model.ChunkKind, s string) {
	if e.Left || s == "" {
		return
	}
	e.Emitted = true
	e.Left = !e.Yield(model.Chunk{Kind: kind, Text: s}, nil)
}

// Fail ends the stream with an error.
func (e *Emitter) Fail(err *model.Error) {
	if e.Left {
		return
	}
	e.Left = true
	err.Emitted = err.Emitted || e.Emitted
	e.Yield(model.Chunk{}, err)
}

// Answer is what an adapter has gathered of a turn.
type Answer struct {
	Text      strings.Builder
	Reasoned  bool // some reasoning came
	Reasoning []json.RawMessage
	Calls     []model.RawCall
	Finish    model.Finish
	Cut       bool // the finish does not vouch for the last call
	Usage     model.Usage
	Model     string
	Notes     []string
}

// Note remembers once what was mended.
func (a *Answer) Note(text string) {
	for _, n := range a.Notes {
		if n == text {
			return
		}
	}
	a.Notes = append(a.Notes, text)
}

// End checks the whole answer and emits it as the last chunk. An answer without text, calls or a
// reason for that is an error of kind ErrEmpty; one that ran into the token limit before anything
// was said is ErrContext, or ErrEmpty with code "length" where reasoning took the tokens.
func (a *Answer) End(r model.Request, e *Emitter) {
	text := a.Text.String()
	if len(a.Calls) > model.MaxCalls {
		e.Fail(&model.Error{Kind: model.ErrTooBig, Message: "the answer has more than 128 tool calls"})
		return
	}
	if a.Finish == model.FinishLength {
		a.Cut = true
	}
	if strings.TrimSpace(text) == "" && len(a.Calls) == 0 {
		switch a.Finish {
		case model.FinishFilter, model.FinishRefusal, model.FinishPause:
		case model.FinishLength:
			if a.Reasoned {
				e.Fail(&model.Error{Kind: model.ErrEmpty, Code: "length", Message: "the token limit of the answer was used up by reasoning; raise it or lower the effort"})
				return
			}
			e.Fail(&model.Error{Kind: model.ErrContext, Code: "length", Message: "the answer hit its length limit before any text; the model's context is probably too small for the prompt"})
			return
		case model.FinishStop, model.FinishCalls:
			e.Fail(&model.Error{Kind: model.ErrEmpty, Message: "the model's reply was empty"})
			return
		}
	}
	calls, notes := model.SafeCalls(r, a.Calls, a.Cut)
	for _, n := range notes {
		a.Note(n)
	}
	switch {
	case len(calls) > 0 && a.Finish == model.FinishStop:
		a.Finish = model.FinishCalls
	case len(calls) == 0 && a.Finish == model.FinishCalls:
		a.Finish = model.FinishStop
		a.Note("the finish reason promised calls and none came")
	}
	if a.Finish == model.FinishLength && len(text) < 200 && len(calls) == 0 && !a.Reasoned {
		a.Note("the answer was cut after a few words: the model's context may be too small")
	}
	if e.Left {
		return
	}
	turn := model.Turn{
		Text: text, Reasoning: a.Reasoning, Calls: calls, Finish: a.Finish, Usage: a.Usage, Model: Excerpt(a.Model, 200), Notes: a.Notes,
	}
	e.Left = true
	e.Yield(model.Chunk{Kind: model.ChunkEnd, Turn: &turn}, nil)
}

// Marshal is json.Marshal without the escapes meant for HTML.
func Marshal(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// SafeName makes a tool name that every provider takes back in a history.
func SafeName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	if safe == "" {
		return "invalid"
	}
	return safe[:min(len(safe), 64)]
}
