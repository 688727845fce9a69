package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/token"
)

// plane is a control plane that keeps the rules of the internal routes, and can be away.
type plane struct {
	mu     sync.Mutex
	events []contract.Event
	next   int64
	lose   int // answers that are lost after the request took effect
	away   int // connections that are refused
	cancel bool
	mail   []contract.Message
	asked  map[string]contract.Approval
	ended  *control.Report
	stored map[string]string
}

func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var out any
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events"):
		var b control.Batch
		_ = json.Unmarshal(body, &b)
		if known := p.next - b.FirstClientSeq; known < int64(len(b.Events)) {
			p.events = append(p.events, b.Events[known:]...)
			p.next = b.FirstClientSeq + int64(len(b.Events))
		}
		out = control.Appended{NextClientSeq: p.next, CancelRequested: p.cancel}
	case strings.HasSuffix(r.URL.Path, "/heartbeat"):
		out, p.mail = control.Pulse{CancelRequested: p.cancel, Messages: p.mail}, nil
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/approvals"):
		var a contract.Approval
		_ = json.Unmarshal(body, &a)
		a.ID = "apr_" + a.CallID
		if _, there := p.asked[a.ID]; !there {
			p.asked[a.ID] = a
		}
		out = p.asked[a.ID]
	case strings.Contains(r.URL.Path, "/approvals/"):
		out = p.asked[filepath.Base(r.URL.Path)]
	case r.Method == http.MethodPut:
		name := filepath.Base(r.URL.Path)
		p.stored[name] = string(body)
		out = contract.Artifact{Name: name, Bytes: int64(len(body))}
	case strings.HasSuffix(r.URL.Path, "/result"):
		p.ended = &control.Report{}
		_ = json.Unmarshal(body, p.ended)
	}
	if r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/heartbeat") && p.lose > 0 {
		p.lose--
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(contract.MarshalJSON(out))
}

func begin(t *testing.T, p *plane) (*Session, context.Context) {
	t.Helper()
	p.next, p.asked, p.stored = 1, map[string]contract.Approval{}, map[string]string{}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)
	o := Order{Run: contract.Run{ID: "run_x", Attempt: 1}, Tokens: map[token.Audience]string{token.Events: "e", token.Approvals: "a"}}
	s, ctx := Open(t.Context(), o, func(ctx context.Context) (net.Conn, error) {
		p.mu.Lock()
		refused := p.away > 0
		p.away--
		p.mu.Unlock()
		if refused {
			return nil, errors.New("connection refused")
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", srv.Listener.Addr().String())
	})
	t.Cleanup(s.Close)
	return s, ctx
}

func note(text string) contract.Event {
	return contract.NewEvent(1, contract.Notice{Level: "info", Code: "said", Text: text})
}

func TestCX05AppendsSurviveLostAnswersAndAbsence(t *testing.T) {
	p := &plane{lose: 2, away: 3}
	s, ctx := begin(t, p)
	for _, text := range []string{"a", "b", "c"} {
		if err := s.Append(ctx, note(text), note(text+text)); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.events) != 6 {
		t.Fatalf("%d events are stored, 6 were appended", len(p.events))
	}
	for i, want := range []string{"a", "aa", "b", "bb", "c", "cc"} {
		if n, _ := contract.As[contract.Notice](p.events[i]); n.Text != want {
			t.Errorf("event %d is %q, want %q", i, n.Text, want)
		}
	}
}

func TestStreamedTextIsHeldAndComesBeforeWhatFollows(t *testing.T) {
	p := &plane{}
	s, ctx := begin(t, p)
	if err := s.Append(ctx, contract.NewEvent(1, contract.ModelDelta{Text: "x"})); err != nil {
		t.Fatal(err)
	}
	if err := s.Report(ctx, contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: contract.FailChecks}}); err != nil {
		t.Fatal(err)
	}
	if len(p.events) != 1 || p.ended == nil || p.ended.ExitCode != contract.ExitChecks || p.ended.RunID != "run_x" {
		t.Errorf("%d events, report %+v", len(p.events), p.ended)
	}
}

func TestAQuestionIsAskedOnceAndAnswered(t *testing.T) {
	p := &plane{lose: 1}
	s, ctx := begin(t, p)
	time.AfterFunc(200*time.Millisecond, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for id, a := range p.asked {
			a.Decision, a.DecidedBy = contract.AllowOnce, "ada"
			p.asked[id] = a
		}
	})
	d, err := s.Ask(ctx, contract.Approval{CallID: "c1"})
	if err != nil || d.Verdict != contract.AllowOnce || d.By != "ada" || len(p.asked) != 1 {
		t.Errorf("%+v %v, %d questions", d, err, len(p.asked))
	}
}

func TestCancelAndMessagesComeWithTheHeartbeat(t *testing.T) {
	p := &plane{mail: []contract.Message{{ID: "m1", Text: "hello"}}}
	s, ctx := begin(t, p)
	var got []contract.Message
	for end := time.Now().Add(20 * time.Second); len(got) == 0 && time.Now().Before(end); {
		more, err := s.Take(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, more...)
	}
	if len(got) != 1 || got[0].Text != "hello" {
		t.Fatalf("%+v", got)
	}
	p.mu.Lock()
	p.cancel = true
	p.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the cancel did not arrive")
	}
	if !errors.Is(context.Cause(ctx), ErrCancel) {
		t.Error(context.Cause(ctx))
	}
}

func TestAnArtifactIsSentAgainWhole(t *testing.T) {
	p := &plane{lose: 2}
	s, ctx := begin(t, p)
	text := strings.Repeat("patch\n", 10_000)
	a, err := s.PutArtifact(ctx, "patch.diff", "text/plain", strings.NewReader(text))
	if err != nil || a.Bytes != int64(len(text)) || p.stored["patch.diff"] != text {
		t.Errorf("%+v %v", a, err)
	}
}

func TestSE02ASecretFileIsTakenOnlyWhereItIsSafe(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte("secret"), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := write("good", 0o600)
	if b, err := TakeFile(good); err != nil || string(b) != "secret" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := os.Lstat(good); !os.IsNotExist(err) {
		t.Error("the file is still there")
	}
	open := write("open", 0o644)
	two := write("two", 0o600)
	link := filepath.Join(dir, "link")
	for _, err := range []error{os.Link(two, two+"-again"), os.Symlink(write("target", 0o600), link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{open, two, link, dir, "/dev/null"} {
		if _, err := TakeFile(p); err == nil {
			t.Errorf("%s was taken", p)
		}
		if _, err := os.Lstat(p); err != nil {
			t.Errorf("%s is gone", p)
		}
	}
}

func TestAnOrderIsReadWholeOrNotAtAll(t *testing.T) {
	o := Order{
		Run:    contract.Run{ID: "run_00000000000000000000000000", Attempt: 1},
		Task:   contract.Task{Limits: contract.Limits{WallTimeSeconds: 1}},
		Tokens: map[token.Audience]string{token.Model: "m", token.Events: "e", token.Approvals: "a"},
	}
	if got, err := ReadOrder(strings.NewReader(string(o.Encode()))); err != nil || got.Tokens[token.Model] != "m" {
		t.Errorf("%+v %v", got, err)
	}
	short := o
	short.Tokens = map[token.Audience]string{token.Model: "m"}
	for _, bad := range []string{"", "{}", string(short.Encode()), string(o.Encode()) + "{}", strings.Replace(string(o.Encode()), "{", `{"more":1,`, 1)} {
		if _, err := ReadOrder(strings.NewReader(bad)); err == nil {
			t.Errorf("%.80q was read", bad)
		}
	}
}
