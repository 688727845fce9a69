package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/rivumi/rivumi/internal/contract"
)

// errLeave ends the program at once, without waiting for the run.
var errLeave error = &failure{
	contract.ExitInterrupt, errors.New("left at once; the run is kept as interrupted"), "rivumi resume @last goes on from there",
}

// stopper turns signals into the end of a run. The first asks it to stop, with an answer on the
// screen at once; the second leaves. It owns one goroutine, which ends with close.
type stopper struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	io     *IO
	sigs   chan os.Signal
	done   sync.WaitGroup

	mu    sync.Mutex
	runs  contract.Steerer // nil until a run is there
	id    contract.RunID
	code  int // exit code of the signal that came first, 0 for none
	calls sync.WaitGroup
}

func newStopper(ctx context.Context, s *IO) *stopper {
	st := &stopper{io: s, sigs: make(chan os.Signal, 8)}
	st.ctx, st.cancel = context.WithCancelCause(ctx)
	signal.Notify(st.sigs, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	st.done.Go(func() {
		for sig := range st.sigs {
			st.signalled(sig)
		}
	})
	return st
}

// started says which run the signals are for from now on.
func (st *stopper) started(runs contract.Steerer, id contract.RunID) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.runs, st.id = runs, id
}

func (st *stopper) signalled(sig os.Signal) {
	st.mu.Lock()
	defer st.mu.Unlock()
	why, code := "interrupted at the terminal", contract.ExitInterrupt
	if sig != os.Interrupt {
		why, code = contract.ReasonTerminated, contract.ExitTerminate
	}
	first := st.code == 0
	if first {
		st.code = code
	}
	if st.runs == nil {
		st.cancel(context.Canceled)
		return
	}
	if !first {
		st.cancel(errLeave)
		return
	}
	st.io.Note("stopping; the work so far is kept. Once more leaves at once")
	runs, id := st.runs, st.id
	st.calls.Go(func() {
		if err := runs.Cancel(context.WithoutCancel(st.ctx), id, why); err != nil {
			st.io.Warn("the run could not be asked to stop: %v", err)
			st.cancel(errLeave)
		}
	})
}

// explain gives an error that a signal caused before any run was there the exit code of the signal.
func (st *stopper) explain(err error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.code == 0 {
		return err
	}
	return &failure{st.code, errors.New("interrupted before the run started"), "nothing was kept"}
}

// close stops the handling of signals and waits for what it started, unless the program leaves.
func (st *stopper) close() {
	signal.Stop(st.sigs)
	close(st.sigs)
	st.done.Wait()
	if !errors.Is(context.Cause(st.ctx), errLeave) {
		st.calls.Wait()
	}
	st.cancel(nil)
}
