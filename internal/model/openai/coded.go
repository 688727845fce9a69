package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/rivumi/rivumi/internal/model"
)

// codedMessage is a message with what it was encoded to.
type codedMessage struct {
	msg     model.Message
	reasons bool // as in [Model.assistant]
	raw     []byte
}

// codedHistory keeps the encoded messages of the last request. Whoever encodes takes it, so that of
// two requests at once one starts anew.
type codedHistory struct {
	mu   sync.Mutex
	list []codedMessage
}

func (h *codedHistory) take() []codedMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.list
	h.list = nil
	return list
}

func (h *codedHistory) put(list []codedMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = list
}

// same reports whether two messages are the same in everything that is encoded; what a request was given
// is never changed in place. Texts that share their
// memory, as those of a growing history do, cost nothing to compare.
func same(a, b model.Message) bool {
	return a.Role == b.Role && a.Text == b.Text && slices.Equal(a.Results, b.Results) &&
		slices.EqualFunc(a.Calls, b.Calls, func(x, y model.Call) bool {
			return x.ID == y.ID && x.Name == y.Name && x.Bad == y.Bad && bytes.Equal(x.Arguments, y.Arguments) && bytes.Equal(x.Extra, y.Extra)
		}) &&
		slices.EqualFunc(a.Reasoning, b.Reasoning, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
}
