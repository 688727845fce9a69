package control

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// memory is the records of one run, with transactions that roll back.
type memory struct {
	records map[string][]byte
	puts    int // writes of the transaction under way
	gets    int
}

func newMemory() *memory { return &memory{records: map[string][]byte{}} }

func (m *memory) Get(key string) ([]byte, bool, error) {
	m.gets++
	v, ok := m.records[key]
	return v, ok, nil
}

func (m *memory) Put(key string, value []byte) error {
	m.puts++
	m.records[key] = slices.Clone(value)
	return nil
}

func (m *memory) Delete(key string) error {
	delete(m.records, key)
	return nil
}

func (m *memory) List(prefix, after string, limit int) iter.Seq2[Record, error] {
	var keys []string
	for k := range m.records {
		if strings.HasPrefix(k, prefix) && k > after {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	if limit > 0 {
		keys = keys[:min(limit, len(keys))]
	}
	return func(yield func(Record, error) bool) {
		for _, k := range keys {
			if !yield(Record{Key: k, Value: m.records[k]}, nil) {
				return
			}
		}
	}
}

// do runs a decision as a transaction: what it wrote is gone when it fails.
func (m *memory) do(f func(Tx) error) error {
	saved := maps.Clone(m.records)
	m.puts, m.gets = 0, 0
	err := f(m)
	if err != nil {
		m.records = saved
	}
	return err
}

// failer is what testing.T, testing.B and rapid.T have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a core with one run's records and a clock that only the test moves.
type world struct {
	t    failer
	core *Core
	m    *memory
	now  time.Time
	n    uint64
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var secret = []byte("0123456789abcdef0123456789abcdef")

func testConfig(p contract.Profile) Config {
	return Config{
		Profile: p, Models: []string{"good"}, Secret: secret, Version: "test",
		Checks: []contract.Check{{"git", "diff", "--check"}, {"python3", "-m", "pytest", "-q"}, {"go", "vet", "./..."}},
		Hosts:  []string{"proxy.example"}, GitHosts: []string{"git.example"},
		Prices: map[string]Price{"good": {Input: 3, Output: 15}},
	}
}

func newWorld(t failer, cfg Config) *world {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, core: c, m: newMemory(), now: epoch}
}

// env gives the moment and fresh bytes, the same in every run of the test.
func (w *world) env() Env {
	w.n++
	e := Env{Now: w.now}
	x := w.n*0x9e3779b97f4a7c15 + 1
	for i := range e.Entropy {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		e.Entropy[i] = byte(x >> 32)
	}
	return e
}

func text(s string) *string { return &s }

func validTask() contract.Task {
	return contract.Task{
		Instruction: "fix the bug", Model: "good",
		Files:        []contract.File{{Path: "src/a.py", Content: text("x = 1\n")}},
		AllowedPaths: []string{"src/**"},
		Checks:       []contract.Check{{"git", "diff", "--check"}},
		Limits:       contract.Limits{MaxSteps: 4, WallTimeSeconds: 100},
		Approval:     contract.ApprovalPolicy{Policy: contract.PolicyAsk, TimeoutSeconds: 60},
	}
}

func provenEnding() contract.Ending {
	return contract.Ending{State: contract.Completed, Result: &contract.Result{
		Outcome: contract.OutcomeVerified, Summary: "done",
		ChangedFiles: []contract.FileChange{{Path: "src/a.py", Status: "modified", Additions: 1, Mode: "100644"}},
		Checks:       []contract.CheckResult{{Argv: contract.Check{"git", "diff", "--check"}, Passed: true, Phase: "final"}},
		Patch:        &contract.PatchRef{Artifact: "patch.diff", SHA256: strings.Repeat("a", 64), Bytes: 10},
	}}
}

// must fails the test on an error.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// wants fails the test unless the error has the kind.
func (w *world) wants(err error, k contract.Kind) {
	w.t.Helper()
	if contract.KindOf(err) != k {
		w.t.Fatalf("error is %v (%s), want kind %s", err, contract.KindOf(err), k)
	}
}

func (w *world) create(t contract.Task) contract.Run {
	w.t.Helper()
	var run contract.Run
	w.must(w.m.do(func(tx Tx) (err error) {
		run, err = w.core.Create(tx, w.env(), "alice", t)
		return err
	}))
	return run
}

func (w *world) claim() contract.Run {
	w.t.Helper()
	var run contract.Run
	w.must(w.m.do(func(tx Tx) (err error) {
		run, err = w.core.Claim(tx, w.env(), "test", time.Minute)
		return err
	}))
	return run
}

func (w *world) append(attempt int, events ...contract.Event) error {
	return w.m.do(func(tx Tx) error {
		_, err := w.core.Append(tx, w.env(), attempt, events...)
		return err
	})
}

func (w *world) finish(attempt int, e contract.Ending) (contract.Run, error) {
	var run contract.Run
	err := w.m.do(func(tx Tx) (err error) {
		run, err = w.core.Finish(tx, w.env(), attempt, e)
		return err
	})
	return run, err
}

func (w *world) read() contract.Run {
	w.t.Helper()
	run, err := w.core.Read(w.m)
	w.must(err)
	return run
}

// log gives every kept event, decoded, and checks the chain from the first kept line on.
func (w *world) log() []contract.Event {
	w.t.Helper()
	lines, err := w.core.Events(w.m, 0, 1<<20)
	w.must(err)
	var out []contract.Event
	for i, l := range lines {
		e, err := contract.DecodeEvent(l)
		w.must(err)
		if i > 0 {
			if e.Seq != out[i-1].Seq+1 {
				w.t.Fatalf("event %d follows %d", e.Seq, out[i-1].Seq)
			}
			if out[i-1].Type != contract.TypeLogGap && e.Prev != contract.ChainHash(lines[i-1]) {
				w.t.Fatalf("chain breaks at event %d", e.Seq)
			}
		}
		out = append(out, e)
	}
	return out
}

func types(events []contract.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, string(e.Type))
	}
	return out
}
