// Package wire is what both model adapters share: a bounded HTTP exchange with two idle clocks, a
// reader of server-sent events, the parsing of providers' errors, and base addresses.
package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rivumi/rivumi/internal/model"
)

// Bounds of one answer, in bytes.
const (
	MaxEvent  = 8 << 20
	MaxAnswer = 64 << 20
)

// Event is one server-sent event. Type is "" where the stream named none.
type Event struct {
	Type string
	Data []byte
	Open bool // the input ended before the event's empty line, so it may be a part
}

// EventReader reads server-sent events: line ends LF, CRLF and CR in any mixture, one byte-order
// mark, comments, data of several lines. An event without its closing empty line counts only when
// the input ended cleanly. It is for one goroutine.
type EventReader struct {
	in     *bufio.Reader
	begun  bool
	skipLF bool // the last line ended in CR; a LF right after it belongs to it
	line   []byte
}

// NewEventReader reads from r.
func NewEventReader(r io.Reader) *EventReader {
	return &EventReader{in: bufio.NewReaderSize(r, 32<<10)}
}

// Next gives the next event that has data. The data stays valid. At the end of the input it gives
// io.EOF, for an event above [MaxEvent] a *model.Error of kind ErrTooBig, else the reader's error.
func (r *EventReader) Next() (Event, error) {
	var e Event
	hasData := false
	for {
		line, err := r.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return Event{}, err
		}
		if err != nil && len(line) == 0 {
			if hasData {
				e.Open = true
				return e, nil
			}
			return Event{}, io.EOF
		}
		if len(line) == 0 {
			if hasData {
				return e, nil
			}
			e = Event{}
			continue
		}
		field, value := splitField(line)
		switch string(field) {
		case "data":
			if hasData {
				e.Data = append(e.Data, '\n')
			}
			e.Data = append(e.Data, value...)
			hasData = true
			if len(e.Data) > MaxEvent {
				return Event{}, tooBig("one event of the stream")
			}
		case "event":
			e.Type = string(value)
		}
	}
}

func splitField(line []byte) (field, value []byte) {
	field, value, _ = bytes.Cut(line, []byte(":"))
	return field, bytes.TrimPrefix(value, []byte(" "))
}

// readLine gives a line without its end; with io.EOF what stood after the last end.
func (r *EventReader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	if !r.begun {
		r.begun = true
		if mark, err := r.in.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
			if _, err := r.in.Discard(3); err != nil {
				return nil, err
			}
		}
	}
	for {
		buf, err := r.in.Peek(1)
		if err != nil {
			return r.line, err
		}
		if r.skipLF {
			r.skipLF = false
			if buf[0] == '\n' {
				if _, err := r.in.Discard(1); err != nil {
					return nil, err
				}
				continue
			}
		}
		buf, err = r.in.Peek(r.in.Buffered())
		if err != nil {
			return nil, err
		}
		i := bytes.IndexAny(buf, "\r\n")
		if i < 0 {
			i = len(buf)
		}
		if len(r.line)+i > MaxEvent+64 {
			return nil, tooBig("one line of the stream")
		}
		r.line = append(r.line, buf[:i]...)
		ended := i < len(buf)
		if ended {
			r.skipLF = buf[i] == '\r'
			i++
		}
		if _, err := r.in.Discard(i); err != nil {
			return nil, err
		}
		if ended {
			return r.line, nil
		}
	}
}

func tooBig(what string) *model.Error {
	return &model.Error{Kind: model.ErrTooBig, Message: fmt.Sprintf("%s is larger than %d MiB", what, MaxEvent>>20)}
}
