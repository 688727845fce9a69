package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/policy"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

func TestMain(m *testing.M) {
	if handled, code := proc.Main(os.Args); handled {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// reply is one scripted answer: a turn, or an error after some text.
type reply struct {
	text   string
	turn   *model.Turn
	err    *model.Error
	silent bool // never answers
}

// script answers request after request and keeps every request as its bytes.
type script struct {
	mu       sync.Mutex
	t        testing.TB
	replies  []reply
	again    bool // the last reply repeats for ever
	requests []model.Request
	good     []bool        // which of them got a whole answer
	asked    chan struct{} // closed at the first request
	maxBytes int           // a larger request is refused as too long; 0: any
}

func (s *script) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		s.strict(r)
		s.mu.Lock()
		s.requests = append(s.requests, r)
		if s.asked != nil && len(s.requests) == 1 {
			close(s.asked)
		}
		var next reply
		tooLong := s.maxBytes > 0 && len(bytesOf(r)) > s.maxBytes
		if !tooLong && len(s.replies) > 0 {
			next = s.replies[0]
			if len(s.replies) > 1 || !s.again {
				s.replies = s.replies[1:]
			}
		}
		s.good = append(s.good, next.turn != nil)
		s.mu.Unlock()
		switch {
		case tooLong:
			yield(model.Chunk{}, &model.Error{Kind: model.ErrContext, Status: 400, Message: "too long"})
		case next.silent:
			<-ctx.Done()
			yield(model.Chunk{}, &model.Error{Kind: model.ErrCanceled, Err: context.Cause(ctx)})
		case next.err != nil:
			if next.text != "" && !yield(model.Chunk{Kind: model.ChunkText, Text: next.text}, nil) {
				return
			}
			yield(model.Chunk{}, next.err)
		case next.turn == nil:
			yield(model.Chunk{}, &model.Error{Kind: model.ErrTransport, Message: "the script is over"})
		default:
			if next.turn.Text != "" && !yield(model.Chunk{Kind: model.ChunkText, Text: next.turn.Text}, nil) {
				return
			}
			yield(model.Chunk{Kind: model.ChunkEnd, Turn: next.turn}, nil)
		}
	}
}

// strict fails the test for a request that a strict provider would refuse.
func (s *script) strict(r model.Request) {
	for i, m := range r.Messages {
		for _, c := range m.Calls {
			if !json.Valid(c.Arguments) {
				s.t.Errorf("message %d: arguments %q are not JSON", i, c.Arguments)
			}
		}
		if len(m.Calls) > 0 {
			if i+1 >= len(r.Messages) || r.Messages[i+1].Role != model.RoleTool || len(r.Messages[i+1].Results) != len(m.Calls) {
				s.t.Errorf("message %d: its %d calls have not exactly one result each", i, len(m.Calls))
				continue
			}
			for k, c := range m.Calls {
				if got := r.Messages[i+1].Results[k]; got.CallID != c.ID || !contract.IsClean(got.Text) || got.Text == "" {
					s.t.Errorf("message %d: result %d is for %q with text %q", i, k, got.CallID, got.Text)
				}
			}
		}
		if i > 0 && m.Role == r.Messages[i-1].Role {
			s.t.Errorf("messages %d and %d have the same role %s", i-1, i, m.Role)
		}
		if m.Role == model.RoleTool && (i == 0 || len(r.Messages[i-1].Calls) == 0) {
			s.t.Errorf("message %d has orphan results", i)
		}
	}
}

func bytesOf(r model.Request) string { return string(contract.MarshalJSON(r)) }

func says(text string) reply {
	return reply{turn: &model.Turn{Text: text, Finish: model.FinishStop, Usage: model.Usage{Input: 10, Output: 5, Known: true}}}
}

// calls is an answer with calls given as name and arguments, one after the other.
func calls(pairs ...string) reply {
	t := &model.Turn{Finish: model.FinishCalls, Usage: model.Usage{Input: 10, Output: 5, Known: true}}
	for i := 0; i < len(pairs); i += 2 {
		t.Calls = append(t.Calls, model.Call{ID: fmt.Sprintf("call_%d", i/2), Name: pairs[i], Arguments: json.RawMessage(pairs[i+1])})
	}
	return reply{turn: t}
}

func bash(script string) string {
	return string(contract.MarshalJSON(map[string]string{"command": script}))
}

func editArgs(p, old, repl string) string {
	return string(contract.MarshalJSON(map[string]string{"path": p, "old": old, "new": repl}))
}

func writeArgs(p, content string) string {
	return string(contract.MarshalJSON(map[string]string{"path": p, "content": content}))
}

// journal is a log in memory that seals what it is given, as the owner of a run does.
type journal struct {
	mu      sync.Mutex
	events  []contract.Event
	appends int
	prev    []byte
	fail    error
	before  func(e contract.Event)
}

func (j *journal) Append(_ context.Context, events ...contract.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.fail != nil {
		return j.fail
	}
	j.appends++
	for _, e := range events {
		if j.before != nil {
			j.before(e)
		}
		e.Seq, e.RunID, e.Attempt, e.Time = int64(len(j.events)+1), "run_x", 1, contract.At(time.Now())
		line, err := e.Seal(j.prev)
		if err != nil {
			return err
		}
		back, err := contract.DecodeEvent(line)
		if err != nil {
			return err
		}
		j.events, j.prev = append(j.events, back), line
	}
	return nil
}

func (j *journal) all() []contract.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events)
}

func payloads[T contract.Payload](events []contract.Event) []T {
	var out []T
	for _, e := range events {
		if p, ok := contract.As[T](e); ok {
			out = append(out, p)
		}
	}
	return out
}

func (j *journal) types() string {
	var out []string
	for _, e := range j.all() {
		out = append(out, string(e.Type))
	}
	return strings.Join(out, " ")
}

// tree is the agent's Files over a real folder.
type tree struct{ root *os.Root }

func (f tree) Read(p string) ([]byte, fs.FileMode, error) {
	st, err := f.root.Stat(p)
	if err != nil {
		return nil, 0, err
	}
	data, err := f.root.ReadFile(p)
	return data, st.Mode(), err
}

func (f tree) Write(p string, data []byte) error {
	mode := fs.FileMode(0o644)
	if st, err := f.root.Stat(p); err == nil {
		mode = st.Mode().Perm()
	}
	if dir := path.Dir(p); dir != "." {
		if err := f.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return f.root.WriteFile(p, data, mode)
}

// gateFunc answers approvals.
type gateFunc func(ctx context.Context, a contract.Approval) (contract.Decision, error)

func (g gateFunc) Ask(ctx context.Context, a contract.Approval) (contract.Decision, error) {
	return g(ctx, a)
}

type mailbox struct {
	mu   sync.Mutex
	mail []contract.Message
}

func (m *mailbox) send(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mail = append(m.mail, contract.Message{ID: fmt.Sprintf("msg_%s", text), Text: text})
}

func (m *mailbox) Take(context.Context) ([]contract.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.mail
	m.mail = nil
	return out, nil
}

// world is one run with everything real but the model.
type world struct {
	t     *testing.T
	dir   string
	log   *journal
	model *script
	c     agent.Config
	put   map[string]string
}

func newWorld(t *testing.T, replies ...reply) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), log: &journal{}, model: &script{t: t, replies: replies}, put: map[string]string{}}
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	scratch := t.TempDir()
	session, err := proc.New(proc.Options{Want: sandbox.TierNone}).Open(t.Context(), sandbox.Spec{
		Tree: w.dir, Env: sandbox.BaseEnv(scratch, nil), Scratch: scratch,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close(context.WithoutCancel(t.Context())) })
	w.c = agent.Config{
		Run: "run_x", Task: contract.Task{Instruction: "Do it.", Limits: contract.Limits{MaxSteps: 20, WallTimeSeconds: 600}, Approval: contract.ApprovalPolicy{Policy: contract.PolicyAllowAll}},
		Model: w.model, ModelName: "m", Commander: session, Files: tree{root}, Sink: w.log,
		Gate: gateFunc(func(context.Context, contract.Approval) (contract.Decision, error) {
			return contract.Decision{}, errors.New("nobody expected a question")
		}),
		PutArtifact: func(_ context.Context, name, _ string, r io.Reader) (contract.Artifact, error) {
			b, err := io.ReadAll(r)
			w.put[name] = string(b)
			return contract.Artifact{Name: name}, err
		},
	}
	w.policy(contract.PolicyAllowAll)
	return w
}

// next makes the world new for another run in the same place, which is much cheaper than another place.
func (w *world) next(replies ...reply) {
	w.t.Helper()
	names, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range names {
		if err := os.RemoveAll(w.dir + "/" + n.Name()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.log, w.model, w.put = &journal{}, &script{t: w.t, replies: replies}, map[string]string{}
	w.c.Sink, w.c.Model, w.c.Mailbox, w.c.Check, w.c.History = w.log, w.model, nil, nil, nil
}

func (w *world) policy(p contract.Policy) {
	w.t.Helper()
	judge, err := policy.New(policy.Config{Policy: p})
	if err != nil {
		w.t.Fatal(err)
	}
	w.c.Judge, w.c.Task.Approval.Policy = judge, p
}

func (w *world) file(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(w.dir+"/"+name, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) content(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.dir + "/" + name)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// run runs the agent and checks what must hold of every log.
func (w *world) run(ctx context.Context) agent.Result {
	w.t.Helper()
	r, err := agent.Run(ctx, w.c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.invariants()
	return r
}

func (w *world) end(want agent.End) agent.Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute) // so that a run that hangs says how
	defer cancel()
	r := w.run(ctx)
	if r.End != want {
		w.t.Fatalf("the run ended %s (%+v), want %s\n%s", r.End, r.Failure, want, w.log.types())
	}
	return r
}

// invariants: each call of a message has exactly one result, in order, and starts after its message.
func (w *world) invariants() {
	w.t.Helper()
	var open []string
	for _, e := range slices.Concat(w.c.History, w.log.all()) {
		switch p := decoded(e).(type) {
		case contract.ModelMessage:
			if len(open) > 0 {
				w.t.Errorf("event %d: a message while %v have no result", e.Seq, open)
			}
			for _, c := range p.ToolCalls {
				open = append(open, c.ID)
			}
		case contract.ToolStarted:
			if len(open) == 0 || open[0] != p.CallID {
				w.t.Errorf("event %d: %s starts while %v are open", e.Seq, p.CallID, open)
			}
		case contract.ToolResult:
			if len(open) == 0 || open[0] != p.CallID {
				w.t.Errorf("event %d: result of %s while %v are open", e.Seq, p.CallID, open)
				continue
			}
			open = open[1:]
		}
	}
	if len(open) > 0 {
		w.t.Errorf("calls without a result: %v", open)
	}
}

func decoded(e contract.Event) any {
	if p, ok := contract.As[contract.ModelMessage](e); ok {
		return p
	}
	if p, ok := contract.As[contract.ToolStarted](e); ok {
		return p
	}
	if p, ok := contract.As[contract.ToolResult](e); ok {
		return p
	}
	return nil
}

func (w *world) results() []contract.ToolResult { return payloads[contract.ToolResult](w.log.all()) }

// same fails unless both requests are equal but for the extra messages of the later one.
func prefixOf(t *testing.T, early, late model.Request) {
	t.Helper()
	if early.System != late.System || !reflect.DeepEqual(early.Tools, late.Tools) {
		t.Error("system prompt or tools changed")
	}
	for i, m := range early.Messages {
		if i < len(late.Messages) && !reflect.DeepEqual(m, late.Messages[i]) {
			t.Errorf("message %d was %+v and is %+v", i, m, late.Messages[i])
		}
	}
}
