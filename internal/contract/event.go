package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// EventVersion is the version of the event schema this program writes.
const EventVersion = 1

// MaxEventBytes bounds one encoded event; longer text is cut and kept as an artifact.
const MaxEventBytes = 256 << 10

// EventType names what an event tells.
type EventType string

// Event is one line of a run's log. Seq starts at 1 and rises by exactly 1. Prev is the
// hash of the line before as stored, so that a reader can verify the chain.
type Event struct {
	V       int             `json:"v"`
	Seq     int64           `json:"seq"`
	RunID   RunID           `json:"runId"`
	Attempt int             `json:"attempt"`
	Time    Time            `json:"time"`
	Type    EventType       `json:"type"`
	Step    int             `json:"step,omitempty"`
	Prev    string          `json:"prev"`
	Data    json.RawMessage `json:"data"`
}

// Payload is the typed data of an event; every type of data.go implements it.
type Payload interface{ EventType() EventType }

// NewEvent makes an event that has no place in a log yet: the owner of the log gives it
// version, number, run, attempt, time and chain hash by [Event.Seal].
func NewEvent(step int, p Payload) Event {
	return Event{Type: p.EventType(), Step: step, Data: MarshalJSON(p)}
}

// As decodes the data of an event into the payload type T; ok is false when the event is of
// another type or its data does not decode.
func As[T Payload](e Event) (p T, ok bool) {
	if e.Type != p.EventType() {
		return p, false
	}
	return p, json.Unmarshal(e.Data, &p) == nil
}

// Ends reports whether the event is the terminal one, the last of its log.
func (e Event) Ends() bool {
	return e.Type == TypeRunCompleted || e.Type == TypeRunFailed || e.Type == TypeRunCancelled
}

// Seal puts the event behind the line prev (nil for the first) and gives its stored line,
// without a line break. The event's Seq, RunID, Attempt and Time must be set.
func (e *Event) Seal(prev []byte) ([]byte, error) {
	e.V, e.Prev = EventVersion, ChainHash(prev)
	line, err := e.Encode()
	if err != nil {
		return nil, err
	}
	if len(line) > MaxEventBytes {
		return nil, Errorf(KindTooLarge, "event %s is %d bytes, more than %d", e.Type, len(line), MaxEventBytes)
	}
	return line, nil
}

// Encode gives the event as one line of JSON without a line break.
func (e Event) Encode() ([]byte, error) {
	if len(e.Data) == 0 {
		e.Data = json.RawMessage("{}")
	}
	return marshal(e)
}

// DecodeEvent reads one stored line. Unknown fields are kept out, not refused: an older
// program may read a newer log.
func DecodeEvent(line []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, Errorf(KindInvalid, "decode event: %w", err)
	}
	if e.Seq < 1 || e.Type == "" {
		return Event{}, Errorf(KindInvalid, "decode event: no seq or type")
	}
	return e, nil
}

// ChainHash is the chain value of a stored line: the first 16 bytes of its SHA-256 in hex,
// "" for no line.
func ChainHash(line []byte) string {
	if len(line) == 0 {
		return ""
	}
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:16])
}

// MarshalJSON encodes a value of this package without escaping <, > and &. It panics on a value
// that JSON cannot hold, which a type of this package never is.
func MarshalJSON(v any) json.RawMessage {
	b, err := marshal(v)
	if err != nil {
		panic("contract: encode: " + err.Error())
	}
	return b
}

func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
