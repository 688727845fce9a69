package cli

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// memory is [contract.Runs] in memory, with logs that a test writes.
type memory struct {
	mu        sync.Mutex
	bell      chan struct{}
	list      []contract.Run // newest first
	logs      map[contract.RunID][]contract.Event
	decisions map[string]contract.Decision
	cancelled string
	sent      []string
	files     map[string]string
}

var _ contract.Runs = (*memory)(nil)

func newMemory() *memory {
	return &memory{bell: make(chan struct{}), logs: map[contract.RunID][]contract.Event{}, decisions: map[string]contract.Decision{}, files: map[string]string{}}
}

// add puts a run with its events; the terminal state comes from them.
func (m *memory) add(r contract.Run, payloads ...contract.Payload) contract.Run {
	m.mu.Lock()
	m.list = append([]contract.Run{r}, m.list...)
	m.mu.Unlock()
	m.tell(r.ID, payloads...)
	got, _ := m.Run(context.Background(), r.ID)
	return got
}

func (m *memory) tell(id contract.RunID, payloads ...contract.Payload) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.list, func(r contract.Run) bool { return r.ID == id })
	r := &m.list[i]
	for _, p := range payloads {
		var prev []byte
		if n := len(m.logs[id]); n > 0 {
			prev, _ = m.logs[id][n-1].Encode()
		}
		e := contract.NewEvent(1, p)
		r.LastSeq++
		e.Seq, e.RunID, e.Attempt, e.Time = r.LastSeq, id, 1, contract.At(time.Unix(1_700_000_000, 0))
		if _, err := e.Seal(prev); err != nil {
			panic(err)
		}
		m.logs[id] = append(m.logs[id], e)
		if end, ok := contract.EndedOf(e); ok {
			r.Status, r.Result, r.Error = end.State, end.Result, end.Error
		}
	}
	close(m.bell)
	m.bell = make(chan struct{})
}

func (m *memory) Start(context.Context, contract.Task) (contract.Run, error) {
	return contract.Run{}, contract.Errorf(contract.KindUnavailable, "no runs here")
}

func (m *memory) Run(_ context.Context, id contract.RunID) (contract.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.list {
		if r.ID == id {
			return r, nil
		}
	}
	return contract.Run{}, contract.Errorf(contract.KindRunNotFound, "run %q is not known here", string(id))
}

func (m *memory) Events(ctx context.Context, id contract.RunID, after int64) iter.Seq2[contract.Event, error] {
	return func(yield func(contract.Event, error) bool) {
		for {
			m.mu.Lock()
			more, log := m.bell, slices.Clone(m.logs[id][min(after, int64(len(m.logs[id]))):])
			m.mu.Unlock()
			for _, e := range log {
				if after = e.Seq; !yield(e, nil) || e.Ends() {
					return
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(contract.Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

func (m *memory) Decide(_ context.Context, id contract.RunID, approval string, d contract.Decision) error {
	m.mu.Lock()
	_, twice := m.decisions[approval]
	m.decisions[approval] = d
	m.mu.Unlock()
	if twice {
		return contract.Errorf(contract.KindApprovalDecided, "decided already")
	}
	m.tell(id, contract.ApprovalDecided{ID: approval, Decision: d})
	return nil
}

func (m *memory) Cancel(_ context.Context, _ contract.RunID, why string) error {
	m.cancelled = why
	return nil
}

func (m *memory) Send(_ context.Context, _ contract.RunID, text string) error {
	m.sent = append(m.sent, text)
	return nil
}

func (m *memory) Artifacts(context.Context, contract.RunID) ([]contract.Artifact, error) {
	var out []contract.Artifact
	for name, text := range m.files {
		out = append(out, contract.Artifact{Name: name, Bytes: int64(len(text)), SHA256: sha256Hex([]byte(text))})
	}
	return out, nil
}

func (m *memory) Artifact(_ context.Context, _ contract.RunID, name string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(m.files[name])), nil
}

func (m *memory) List(_ context.Context, f contract.Filter) iter.Seq2[contract.Run, error] {
	m.mu.Lock()
	list := slices.Clone(m.list)
	m.mu.Unlock()
	return func(yield func(contract.Run, error) bool) {
		n := 0
		for _, r := range list {
			if f.Repository != "" && r.Repository != f.Repository || len(f.States) > 0 && !slices.Contains(f.States, r.Status) {
				continue
			}
			if n++; !yield(r, nil) || n == f.Limit {
				return
			}
		}
	}
}

// runOn runs one command line over the runs of a test.
func runOn(t *testing.T, m *memory, args ...string) (code int, out, errOut string) {
	t.Helper()
	s, o, e := TestIO()
	return runWith(t, m, s, o, e, args...)
}

func runWith(t *testing.T, m *memory, s *IO, o, e *bytes.Buffer, args ...string) (code int, out, errOut string) {
	t.Helper()
	home := t.TempDir()
	f := &Factory{
		IO: s, Version: "test", Now: func() time.Time { return time.Unix(1_700_000_100, 0) },
		Getenv: func(n string) string {
			return map[string]string{"HOME": home, "USER": "ada", "RIVUMI_STATE_DIR": home + "/state"}[n]
		},
	}
	f.Runs = func(context.Context) (*Runs, error) { return &Runs{Runs: m, Close: func() error { return nil }}, nil }
	code = Run(t.Context(), f, append([]string{"-C", home}, args...))
	return code, o.String(), e.String()
}
