package host_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/control/store/mem"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// play is an executor made of a function.
type play func(ctx context.Context, j host.Job) contract.Ending

func (p play) Execute(ctx context.Context, j host.Job) contract.Ending { return p(ctx, j) }

func task() contract.Task {
	return contract.Task{
		Instruction: "say hello", Model: "scripted/one", AllowedPaths: []string{"**"},
		Repository: &contract.Repository{Path: "/src"},
		Limits:     contract.Limits{MaxSteps: 5, WallTimeSeconds: 60},
		Approval:   contract.ApprovalPolicy{Policy: contract.PolicyAsk, TimeoutSeconds: 30},
	}
}

func open(t testing.TB, opt host.Options) *host.Service {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	s, err := host.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeService(t, s) })
	return s
}

func closeService(t testing.TB, s *host.Service) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func done(context.Context, host.Job) contract.Ending {
	return contract.Ending{State: contract.Completed, Result: &contract.Result{Outcome: contract.OutcomeNoChanges, Summary: "hello"}}
}

func start(t testing.TB, s contract.Starter) contract.Run {
	t.Helper()
	run, err := s.Start(t.Context(), task())
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func follow(t testing.TB, s contract.Watcher, id contract.RunID, after int64) (out []contract.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for e, err := range s.Events(ctx, id, after) {
		if err != nil {
			t.Fatalf("events: %v", err)
		}
		out = append(out, e)
	}
	return out
}

func notice(text string) contract.Event {
	return contract.NewEvent(1, contract.Notice{Level: "info", Code: "said", Text: text})
}

func TestAnExecutorThatDoesNotStopIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	s := open(t, host.Options{Store: mem.New(), Executor: play(func(context.Context, host.Job) contract.Ending {
		<-release
		return contract.Ending{State: contract.Completed}
	})}.WithGrace(50*time.Millisecond))
	defer close(release)
	run := start(t, s)
	if err := s.Cancel(t.Context(), run.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	all := follow(t, s, run.ID, 0)
	if last := all[len(all)-1]; last.Type != contract.TypeRunCancelled {
		t.Errorf("ended with %s", last.Type)
	}
}

func TestStreamedTextIsGatheredAndKeepsItsOrder(t *testing.T) {
	s := open(t, host.Options{Store: mem.New(), Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		put := func(p contract.Payload) {
			if err := j.Session.Append(ctx, contract.NewEvent(1, p)); err != nil {
				t.Error(err)
			}
		}
		for range 100 {
			put(contract.ModelDelta{Text: "a"})
		}
		put(contract.ModelDelta{Reasoning: "hm"})
		put(contract.ModelDelta{Text: "b"})
		put(contract.ModelMessage{Text: "done"})
		put(contract.ToolOutput{CallID: "c1", Stream: "stdout", Text: "x"})
		put(contract.ToolOutput{CallID: "c1", Stream: "stderr", Text: "y"})
		return done(ctx, j) // what is held goes along with the end
	})})
	run := start(t, s)
	text, deltas := "", 0
	var order []contract.EventType
	for _, e := range follow(t, s, run.ID, 0)[2:] {
		order = append(order, e.Type)
		if d, ok := contract.As[contract.ModelDelta](e); ok {
			deltas++
			text += d.Text + d.Reasoning
		}
		if o, ok := contract.As[contract.ToolOutput](e); ok {
			text += o.Text
		}
	}
	if want := strings.Repeat("a", 100) + "hmb" + "xy"; text != want {
		t.Errorf("text %q, want %q", text, want)
	}
	if deltas < 3 || deltas > 40 || order[deltas] != contract.TypeModelMessage || len(order) != deltas+4 {
		t.Errorf("%d deltas in %v", deltas, order)
	}
}

func TestHeldTextIsStoredWithoutFurtherEvents(t *testing.T) {
	release := make(chan struct{})
	s := open(t, host.Options{Store: mem.New(), Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		if err := j.Session.Append(ctx, contract.NewEvent(1, contract.ModelDelta{Text: "thinking"})); err != nil {
			t.Error(err)
		}
		<-release
		return done(ctx, j)
	})})
	run := start(t, s)
	for e, err := range s.Events(t.Context(), run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == contract.TypeModelDelta {
			close(release) // seen while the executor is silent
		}
	}
}

func TestTheSecretIsKeptAndGuarded(t *testing.T) {
	dir := t.TempDir()
	first := open(t, host.Options{Dir: dir, Executor: play(done)})
	run := start(t, first)
	follow(t, first, run.ID, 0)
	second := open(t, host.Options{Dir: dir})
	if _, err := second.Run(t.Context(), run.ID); err != nil {
		t.Errorf("another service on the directory: %v", err)
	}
	path := filepath.Join(dir, "secret")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("secret: %v, %v", info, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := host.Open(t.Context(), host.Options{Dir: dir}); contract.KindOf(err) != contract.KindForbidden {
		t.Errorf("opened %v with a secret that others can read: %v", s, err)
	}
}

func TestAServiceWithoutExecutorStartsNothing(t *testing.T) {
	s := open(t, host.Options{Store: mem.New()})
	if _, err := s.Start(t.Context(), task()); contract.KindOf(err) != contract.KindUnavailable {
		t.Errorf("start: %v", err)
	}
}

func TestManyRunsShareTheRoom(t *testing.T) {
	var now, most atomic.Int64
	s := open(t, host.Options{MaxRuns: 3, Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		for n := now.Add(1); ; {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		for range 5 {
			if err := j.Session.Append(ctx, notice("x")); err != nil {
				t.Error(err)
			}
		}
		now.Add(-1)
		return done(ctx, j)
	})})
	var ids []contract.RunID
	for range 20 {
		ids = append(ids, start(t, s).ID)
	}
	for _, id := range ids {
		if n := len(follow(t, s, id, 0)); n != 8 {
			t.Errorf("%d events", n)
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d at once", most.Load())
	}
}

func TestAResumedRunNamesItsOrigin(t *testing.T) {
	s := open(t, host.Options{Store: mem.New(), Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		m, err := j.Session.Take(ctx)
		if err != nil || j.Run.Attempt == 2 && (len(m) != 1 || m[0].Text != "and now?") {
			t.Errorf("messages of attempt %d: %v, %v", j.Run.Attempt, m, err)
		}
		return done(ctx, j)
	})})
	first := start(t, s)
	follow(t, s, first.ID, 0)
	second, err := s.Resume(t.Context(), first.ID, "and now?")
	if err != nil {
		t.Fatal(err)
	}
	from := contract.RunID("")
	for _, e := range follow(t, s, second.ID, 0) {
		if r, ok := contract.As[contract.RunResumed](e); ok {
			from = r.From
		}
	}
	if from != first.ID || second.ID == first.ID {
		t.Errorf("resumed %s from %s", second.ID, from)
	}
}

// playDir is an executor that looks at the run's folder and ends.
type playDir func(dir string)

func (p playDir) Execute(ctx context.Context, j host.Job) contract.Ending {
	p(j.Dir)
	return done(ctx, j)
}
