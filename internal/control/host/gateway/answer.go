package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/model/wire"
)

// Writer takes the answer of a call. Begin is called once, before the first Write; an error of Write
// means that the caller has gone.
type Writer = interface {
	Begin(status int, header map[string]string)
	Write(p []byte) (int, error)
}

// errorBytes bounds a provider's error document, and errorText what of it is passed on.
const (
	errorBytes = 256 << 10
	errorText  = 2000
)

// whole reads an answer in one piece and passes it on when it is JSON. What it used is in the
// outcome; the answer is kept there for a repeated call.
func (g *Gateway) whole(call control.ForwardModel, body io.Reader, w Writer) (control.Outcome, error) {
	out := control.Outcome{CallID: call.CallID}
	b, err := io.ReadAll(io.LimitReader(body, call.MaxBytes+1))
	switch {
	case err != nil:
		return out, contract.Errorf(contract.KindUpstream, "the model's answer broke off")
	case int64(len(b)) > call.MaxBytes:
		return out, tooLong(call)
	}
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' || !json.Valid(b) {
		return out, contract.Errorf(contract.KindUpstream, "the model's answer is not a JSON object")
	}
	b = g.secrets.Bytes(b)
	var u usage
	u.take(b)
	out.Usage, out.Answer = u.total(), b
	w.Begin(http.StatusOK, map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store"})
	_, _ = w.Write(b) // a caller who has gone asks again with the same call id
	return out, nil
}

// stream passes an answer on event by event. An event that is not JSON, or an answer above its
// bound, ends it with an error event of the wire: the caller then knows that it is not whole.
func (g *Gateway) stream(call control.ForwardModel, body io.Reader, w Writer) (control.Outcome, error) {
	s := &passing{g: g, call: call, w: w}
	events := wire.NewEventReader(body)
	first, err := events.Next()
	if err != nil {
		return control.Outcome{CallID: call.CallID}, contract.Errorf(contract.KindUpstream, "the model's answer is not a stream of events")
	}
	w.Begin(http.StatusOK, map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no",
	})
	for e := first; ; {
		if why := s.pass(e); why != "" {
			s.fail(why)
			break
		}
		if s.gone || s.ended {
			break
		}
		if e, err = events.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			s.fail("the model's answer broke off")
			break
		}
	}
	out := control.Outcome{CallID: call.CallID}
	if s.ended {
		out.Usage = s.used.total()
		if !s.long {
			out.Answer = s.kept
		}
	}
	return out, nil
}

// passing is a streamed answer on its way.
type passing struct {
	g     *Gateway
	call  control.ForwardModel
	w     Writer
	used  usage
	total int64
	kept  []byte // what was passed, for a repeated call
	long  bool   // too much of it to keep
	ended bool   // the end of the wire was seen
	gone  bool   // the caller has gone
}

// pass checks and forwards one event and says what is wrong with it, "" for nothing.
func (s *passing) pass(e wire.Event) string {
	done := string(e.Data) == "[DONE]"
	if !done && (len(e.Data) == 0 || e.Data[0] != '{' || !json.Valid(e.Data)) {
		return "an event of the model's answer is not a JSON object"
	}
	if e.Open && !done {
		return "the model's answer broke off"
	}
	data := e.Data
	if !done {
		s.used.take(data)
		data = s.g.secrets.Bytes(oneLine(data))
	}
	var frame []byte
	if e.Type != "" && word(e.Type) {
		frame = append(append(append(frame, "event: "...), e.Type...), '\n')
	}
	frame = append(append(append(frame, "data: "...), data...), "\n\n"...)
	if s.total += int64(len(frame)); s.total > s.call.MaxBytes {
		return "the model's answer is longer than is allowed"
	}
	if s.long = s.long || len(s.kept)+len(frame) > control.MaxKeptAnswer; !s.long {
		s.kept = append(s.kept, frame...)
	}
	if _, err := s.w.Write(frame); err != nil {
		s.gone = true
	}
	s.ended = done || s.call.Wire == control.WireMessages && e.Type == "message_stop"
	return ""
}

// fail tells the caller inside the stream.
func (s *passing) fail(why string) {
	doc := contract.MarshalJSON(map[string]any{"type": "error", "error": map[string]string{"type": "upstream_error", "message": why}})
	frame := "data: " + string(doc) + "\n\n"
	if s.call.Wire == control.WireMessages {
		frame = "event: error\n" + frame
	}
	if _, err := s.w.Write([]byte(frame)); err != nil {
		s.gone = true
	}
}

// oneLine takes the line breaks out that a JSON text may have between its tokens.
func oneLine(data []byte) []byte {
	if !bytes.ContainsAny(data, "\r\n") {
		return data
	}
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return []byte("{}") // not reached: the caller has checked it
	}
	return b.Bytes()
}

func word(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return len(s) <= 64
}

// refused passes a provider's refusal on: its status where a client can act on it, and its words
// without secrets. A redirect is never followed, and what is wrong with the operator's key is no
// business of a run.
func (g *Gateway) refused(resp *http.Response, body io.Reader, w Writer) error {
	status := resp.StatusCode
	switch {
	case status < 400:
		return contract.Errorf(contract.KindUpstream, "the model's provider answered %d, which is not taken", status)
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return contract.Errorf(contract.KindUpstream, "the model's provider refused the operator's key (%d)", status)
	}
	b, err := io.ReadAll(io.LimitReader(body, errorBytes))
	if err != nil {
		b = nil
	}
	told := wire.ParseError(status, resp.Header, b)
	text := g.secrets.String(wire.Excerpt(told.Message, errorText))
	if text == "" {
		text = "the model's provider answered " + strconv.Itoa(status)
	}
	kind := "upstream_error"
	if word(told.Code) && told.Code != "" {
		kind = told.Code
	}
	header := map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store"}
	if after := told.RetryAfter; after > 0 {
		header["Retry-After"] = strconv.Itoa(int(after.Round(time.Second).Seconds()))
	}
	w.Begin(status, header)
	_, _ = w.Write(contract.MarshalJSON(map[string]any{ // the caller may have gone
		"type": "error", "error": map[string]any{"type": kind, "code": kind, "message": text},
	}))
	return nil
}

// rename gives the request the provider's own name of the model; every other byte stays.
func rename(body []byte, model string) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if _, err := dec.Token(); err != nil {
		return nil, contract.Errorf(contract.KindInvalid, "the request is not a JSON object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, contract.Errorf(contract.KindInvalid, "the request is not a JSON object")
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, contract.Errorf(contract.KindInvalid, "the request is not a JSON object")
		}
		if key == "model" {
			begin := dec.InputOffset() - int64(len(value))
			out := append([]byte(nil), body[:begin]...)
			out = append(out, contract.MarshalJSON(model)...)
			return append(out, body[dec.InputOffset():]...), nil
		}
	}
	return nil, contract.Errorf(contract.KindInvalid, "the request names no model")
}

// idleReader gives an upstream so much time between two pieces, and ends the call otherwise.
type idleReader struct {
	r      io.Reader
	idle   time.Duration
	cancel context.CancelFunc
	timer  *time.Timer
}

// Read implements [io.Reader].
func (i *idleReader) Read(p []byte) (int, error) {
	if i.timer == nil {
		i.timer = time.AfterFunc(i.idle, i.cancel)
	} else {
		i.timer.Reset(i.idle)
	}
	n, err := i.r.Read(p)
	i.timer.Stop()
	return n, err
}

func (i *idleReader) stop() {
	if i.timer != nil {
		i.timer.Stop()
	}
}
