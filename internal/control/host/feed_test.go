package host_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
)

// What the process that carries a run appends reaches its followers from memory, what others write to the
// store by way of it: whoever writes, nobody misses a line, and the agent gets its mail.
func TestFollowersMissNothingWhoeverWrites(t *testing.T) {
	const sent = 20
	dir := t.TempDir()
	var run contract.Run
	other := open(t, host.Options{Dir: dir})
	s := open(t, host.Options{Dir: dir, Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		for got := 0; got < sent && ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if err := j.Session.Append(ctx, notice("a"), notice("b")); err != nil {
				return contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: contract.FailInternal, Message: err.Error()}}
			}
			mail, err := j.Session.Take(ctx)
			if err != nil {
				return contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: contract.FailInternal, Message: err.Error()}}
			}
			got += len(mail)
		}
		return contract.Ending{State: contract.Completed, Result: &contract.Result{Outcome: contract.OutcomeNoChanges}}
	})})
	run, err := s.Start(t.Context(), task())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var g errgroup.Group
	for _, pause := range []time.Duration{0, 0, time.Millisecond, 5 * time.Millisecond} {
		g.Go(func() error {
			next := int64(1)
			for e, err := range s.Events(ctx, run.ID, 0) {
				if err != nil {
					return err
				}
				if e.Seq != next {
					t.Errorf("event %d, expected %d", e.Seq, next)
				}
				next = e.Seq + 1
				time.Sleep(pause)
				if e.Ends() {
					return nil
				}
			}
			t.Errorf("the stream ended at %d without an end", next-1)
			return nil
		})
	}
	for i := range sent {
		from := []*host.Service{s, other}[i%2]
		if err := from.Send(ctx, run.ID, "more"); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Millisecond)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if end, err := s.Run(ctx, run.ID); err != nil || end.Status != contract.Completed {
		t.Errorf("%+v %v", end.Error, err)
	}
}
