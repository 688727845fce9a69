// Package modeltest is a suite of hostile providers: servers on the loopback that answer as real
// ones did when they misbehaved, and what an adapter must make of each. Two counts must stay 0 for
// every adapter: answers that ended badly and look like a success, and calls that were cut and may run.
package modeltest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/wire"
)

// Key is the provider key the suite's adapters are given; it must show up in no error.
const Key = "sk-hostile-suite-key-0123456789"

// Opener makes the adapter under test for a server.
type Opener func(baseURL string, o wire.Options) (model.Model, error)

// Reset resets the connection, as the last part of an answer.
const Reset = reset(1)

type reset int

// Answer is one HTTP answer: parts are strings to write and flush, durations to wait, or [Reset].
type Answer struct {
	Status  int // 0: 200
	Type    string
	Header  map[string]string
	Length  int // a false Content-Length
	Parts   []any
	ByByte  bool // write every part in single bytes
	Forever bool // repeat the parts until the client leaves
}

// Want is what must come out.
type Want struct {
	Kind     model.ErrorKind // "" is a success
	Status   int             // of an error, where it matters
	Message  string          // a part of the error's message
	Emitted  bool
	Text     string
	Calls    []string // `name {arguments}`, or `name BAD` for one that must not run
	Finish   model.Finish
	In, Out  int64 // usage, where it matters
	Unknown  bool  // no usage is known
	Attempts int   // requests; 0 is 1
	Reasoned bool  // a reasoning block is kept
}

// Case is one hostile provider.
type Case struct {
	Name    string
	Answers []Answer // the last one repeats
	Want    Want
	Idle    bool // run with short idle clocks
}

// server counts requests and plays a case.
type server struct {
	*httptest.Server
	asked atomic.Int64
	away  atomic.Int64 // requests to the origin a redirect names
}

func serve(t *testing.T, c Case) *server {
	t.Helper()
	s := &server{}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.away.Add(1) }))
	t.Cleanup(other.Close)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(s.asked.Add(1)) - 1
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		c.Answers[min(n, len(c.Answers)-1)].write(w, r, other.URL)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (a Answer) write(w http.ResponseWriter, r *http.Request, other string) {
	kind := a.Type
	if kind == "" {
		kind = "text/event-stream; charset=utf-8"
	}
	if kind != "-" {
		w.Header().Set("Content-Type", kind)
	} else {
		w.Header()["Content-Type"] = nil
	}
	for k, v := range a.Header {
		w.Header().Set(k, strings.ReplaceAll(v, "OTHER", other))
	}
	if a.Length > 0 {
		w.Header().Set("Content-Length", fmt.Sprint(a.Length))
	}
	if len(a.Parts) > 0 {
		if _, waits := a.Parts[0].(time.Duration); waits {
			if !hold(r, a.Parts[0].(time.Duration)) {
				return
			}
			a.Parts = a.Parts[1:]
		}
	}
	status := a.Status
	if status == 0 {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	flush(w)
	for again := true; again; again = a.Forever {
		for _, p := range a.Parts {
			if !a.part(w, r, p) {
				return
			}
		}
	}
}

func (a Answer) part(w http.ResponseWriter, r *http.Request, p any) bool {
	switch p := p.(type) {
	case string:
		pieces := []string{p}
		if a.ByByte {
			pieces = strings.Split(p, "")
			if !isASCII(p) {
				pieces = pieces[:0]
				for i := range len(p) {
					pieces = append(pieces, p[i:i+1])
				}
			}
		}
		for _, piece := range pieces {
			if _, err := io.WriteString(w, piece); err != nil {
				return false
			}
			flush(w)
		}
	case time.Duration:
		return hold(r, p)
	case reset:
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return false
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			if tcp.SetLinger(0) != nil {
				return false
			}
		}
		return conn.Close() != nil
	}
	return true
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 127 })
}

// flush cannot fail in a way the next write would not tell.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func hold(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// Tally counts the two things that must never happen, over a whole run of the suite.
type Tally struct {
	Cases, SilentSuccesses, ExecutableCutCalls atomic.Int64
}

// Run plays every case against the adapter, each as a parallel subtest, and gives the tally, which
// is complete when t's subtests are.
func Run(t *testing.T, cases []Case, open Opener) *Tally {
	tally := &Tally{}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			tally.Cases.Add(1)
			run(t, c, open, tally)
		})
	}
	return tally
}

// outcome is what an adapter made of a case.
type outcome struct {
	turn    *model.Turn
	err     *model.Error
	shown   string
	emitted bool
}

func run(t *testing.T, c Case, open Opener, tally *Tally) {
	s := serve(t, c)
	o := wire.Options{BytesIdle: 30 * time.Second, ProgressIdle: 30 * time.Second, HeaderTimeout: 30 * time.Second}
	if c.Idle {
		o = wire.Options{BytesIdle: 250 * time.Millisecond, ProgressIdle: 600 * time.Millisecond, HeaderTimeout: 250 * time.Millisecond}
	}
	m, err := open(s.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	if idle, ok := m.(interface{ CloseIdle() }); ok {
		t.Cleanup(idle.CloseIdle)
	}
	retrying := model.WithRetry(m, model.RetryOptions{Base: time.Millisecond, Max: 2 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := collect(t, ctx, retrying)
	if got.turn != nil && c.Want.Kind != "" {
		tally.SilentSuccesses.Add(1)
	}
	if got.turn != nil {
		for i, call := range got.turn.Calls {
			if call.Bad == "" && i < len(c.Want.Calls) && strings.HasSuffix(c.Want.Calls[i], " BAD") {
				tally.ExecutableCutCalls.Add(1)
			}
			if call.Bad == "" && !model.CompleteObject(string(call.Arguments)) {
				tally.ExecutableCutCalls.Add(1)
				t.Errorf("call %s may run with arguments %q", call.Name, call.Arguments)
			}
		}
	}
	c.Want.check(t, got)
	if asked := int(s.asked.Load()); asked != max(1, c.Want.Attempts) {
		t.Errorf("%d requests, want %d", asked, max(1, c.Want.Attempts))
	}
	if s.away.Load() != 0 {
		t.Error("a redirect to another origin was followed")
	}
}

func collect(t *testing.T, ctx context.Context, m model.Model) outcome {
	t.Helper()
	var got outcome
	var shown bytes.Buffer
	for c, err := range m.Stream(ctx, Request()) {
		if err != nil {
			e, ok := model.AsError(err)
			if !ok {
				t.Fatalf("an error without a kind: %v", err)
			}
			got.err = e
			continue
		}
		if got.err != nil || got.turn != nil {
			t.Fatal("chunks after the end")
		}
		switch c.Kind {
		case model.ChunkText:
			shown.WriteString(c.Text)
			got.emitted = true
		case model.ChunkReasoning, model.ChunkCall, model.ChunkArguments:
			got.emitted = true
		case model.ChunkEnd:
			got.turn = c.Turn
		case model.ChunkRetry:
			if got.emitted {
				t.Error("a retry after something was emitted")
			}
		}
	}
	if (got.err == nil) == (got.turn == nil) {
		t.Fatalf("turn %v and error %v", got.turn, got.err)
	}
	got.shown = shown.String()
	return got
}

// Request is what the suite asks.
func Request() model.Request {
	return model.Request{
		Model: "hostile", System: "You test.", MaxTokens: 500,
		Messages: []model.Message{{Role: model.RoleUser, Text: "go"}},
		Tools:    []model.Tool{{Name: "bash", Description: "runs", Parameters: []byte(`{"type":"object","properties":{"command":{"type":"string"}}}`)}},
	}
}

func (w Want) check(t *testing.T, got outcome) {
	t.Helper()
	if w.Kind != "" {
		w.checkError(t, got)
		return
	}
	if got.err != nil {
		t.Fatalf("error %v, want a turn", got.err)
	}
	turn := got.turn
	if turn.Text != w.Text {
		t.Errorf("text %.200q, want %.200q", turn.Text, w.Text)
	}
	if strings.TrimSpace(got.shown) != strings.TrimSpace(w.Text) {
		t.Errorf("streamed %.200q, want %.200q", got.shown, w.Text)
	}
	var calls []string
	ids := map[string]bool{}
	for _, c := range turn.Calls {
		line := c.Name + " " + string(c.Arguments)
		if c.Bad != "" {
			line = c.Name + " BAD"
		}
		calls = append(calls, line)
		if c.ID == "" || ids[c.ID] {
			t.Errorf("call id %q is empty or not unique", c.ID)
		}
		ids[c.ID] = true
	}
	if !slices.Equal(calls, w.Calls) {
		t.Errorf("calls %q, want %q", calls, w.Calls)
	}
	if w.Finish != "" && turn.Finish != w.Finish {
		t.Errorf("finish %q, want %q", turn.Finish, w.Finish)
	}
	if w.In != 0 && (turn.Usage.Input != w.In || turn.Usage.Output != w.Out || !turn.Usage.Known) {
		t.Errorf("usage %+v, want %d in and %d out", turn.Usage, w.In, w.Out)
	}
	if w.Unknown && turn.Usage.Known {
		t.Errorf("usage %+v, want it unknown", turn.Usage)
	}
	if w.Reasoned != (len(turn.Reasoning) > 0) {
		t.Errorf("%d reasoning blocks", len(turn.Reasoning))
	}
}

func (w Want) checkError(t *testing.T, got outcome) {
	t.Helper()
	if got.err == nil {
		t.Fatalf("SILENT SUCCESS: %+v, want an error of kind %s", got.turn, w.Kind)
	}
	e := got.err
	if e.Kind != w.Kind || w.Status != 0 && e.Status != w.Status {
		t.Errorf("error %v, want kind %s status %d", e, w.Kind, w.Status)
	}
	if e.Emitted != w.Emitted {
		t.Errorf("emitted %t, want %t (%v)", e.Emitted, w.Emitted, e)
	}
	if !strings.Contains(e.Error(), w.Message) {
		t.Errorf("error %q does not say %q", e.Error(), w.Message)
	}
	if strings.Contains(e.Error(), Key) {
		t.Errorf("the key is in the error %q", e.Error())
	}
	if n := len([]rune(e.Message)); n > 600 {
		t.Errorf("the message has %d characters", n)
	}
}
