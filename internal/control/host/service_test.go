package host_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/control/store/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func TestRunGoesFromStartToItsTerminalEvent(t *testing.T) {
	s := open(t, host.Options{Store: mem.New(), Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		if err := j.Session.Append(ctx, contract.NewEvent(1, contract.StepStarted{Step: 1, Max: 5})); err != nil {
			t.Error(err)
		}
		return done(ctx, j)
	})})
	run, err := s.Start(t.Context(), task())
	if err != nil {
		t.Fatal(err)
	}
	var types []contract.EventType
	for e, err := range s.Events(t.Context(), run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
	}
	t.Log(types)
	if len(types) != 4 || types[3] != contract.TypeRunCompleted {
		t.Errorf("events: %v", types)
	}
}
