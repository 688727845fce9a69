package host

import (
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

const (
	holdFor   = 40 * time.Millisecond // how long streamed text may wait for company
	holdBytes = 1 << 10               // how much of it is stored at once
)

// held is streamed text that has not reached the log: neighbours of one kind become one event.
type held struct {
	events []contract.Event
	size   int // bytes of their data
}

// add takes the events if all of them are streamed text, and says whether it did.
func (h *held) add(events []contract.Event) bool {
	for _, e := range events {
		if e.Type != contract.TypeModelDelta && e.Type != contract.TypeToolOutput {
			return false
		}
	}
	for _, e := range events {
		h.size += len(e.Data)
		if n := len(h.events); n == 0 || !join(&h.events[n-1], e) {
			h.events = append(h.events, e)
		}
	}
	return true
}

// take gives what is held and forgets it.
func (h *held) take() []contract.Event {
	events := h.events
	h.events, h.size = nil, 0
	return events
}

// maxJoined bounds a joined event, well below the bound of an event.
const maxJoined = 32 << 10

// join puts the text of e behind that of last where both continue one stream.
func join(last *contract.Event, e contract.Event) bool {
	if last.Type != e.Type || last.Step != e.Step || len(last.Data)+len(e.Data) > maxJoined {
		return false
	}
	if e.Type == contract.TypeModelDelta {
		was, ok := contract.As[contract.ModelDelta](*last)
		is, ok2 := contract.As[contract.ModelDelta](e)
		// Reasoning behind text would change the order in which they were said.
		if !ok || !ok2 || (was.Text == "") != (is.Text == "") || (was.Reasoning == "") != (is.Reasoning == "") {
			return false
		}
		was.Text += is.Text
		was.Reasoning += is.Reasoning
		last.Data = contract.MarshalJSON(was)
		return true
	}
	was, ok := contract.As[contract.ToolOutput](*last)
	is, ok2 := contract.As[contract.ToolOutput](e)
	if !ok || !ok2 || was.CallID != is.CallID || was.Stream != is.Stream {
		return false
	}
	was.Text += is.Text
	last.Data = contract.MarshalJSON(was)
	return true
}
