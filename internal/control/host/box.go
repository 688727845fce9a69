package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/remote/worker"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/token"
)

const (
	boxCloseTime = 20 * time.Second // to end and remove a box
	boxExitTime  = 10 * time.Second // between the report of a box and its end
)

// BoxOptions say how runs are carried out in boxes.
type BoxOptions struct {
	Launcher sandbox.Launcher
	Argv     []string // the same for every run: no word of a caller ever stands in it
	Env      []string
	Tier     sandbox.Tier // how strong the launcher's boxes are
	Limits   sandbox.Limits
	// Image gives the image of a task; nil is the launcher's own.
	Image func(t contract.Task) (string, error)
	// Model says what a box is told of its model.
	Model func(t contract.Task) (worker.Model, error)
	// Rules holds what a box reports against what it sent, before the run ends. Nil leaves it to the core.
	Rules func(ctx context.Context, j Job, e contract.Ending) contract.Ending
}

// Boxes is the [Executor] that carries each run out in a box of its own: one contained worker, with
// tokens of this run only and a channel over which nothing else can be reached. It is bound to its
// service before the first run.
type Boxes struct {
	opt BoxOptions
	s   *Service
}

// NewBoxes makes the executor. [Options.Executor] takes it; [Open] binds it.
func NewBoxes(opt BoxOptions) *Boxes { return &Boxes{opt: opt} }

// bind gives the executor its service.
func (b *Boxes) bind(s *Service) { b.s = s }

// Execute implements [Executor].
func (b *Boxes) Execute(ctx context.Context, j Job) contract.Ending {
	x := &boxed{b: b, j: j, dir: filepath.Join(j.Dir, "box"), reports: make(chan contract.Ending, 1)}
	e := x.run(ctx)
	if e.State == contract.Running {
		return e // left alive for the next service
	}
	if b.opt.Rules != nil {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), boxCloseTime)
		defer cancel()
		if ctx.Err() == nil {
			rctx = ctx
		}
		e = b.opt.Rules(rctx, j, e)
	}
	return x.cleaned(e)
}

// boxed is one run in its box.
type boxed struct {
	b       *Boxes
	j       Job
	dir     string // of the box, in the run's folder
	reports chan contract.Ending
	told    sync.Once
	box     sandbox.Box
	dirty   error // what could not be cleaned up
}

// run carries the box from its start to its end.
func (x *boxed) run(ctx context.Context) contract.Ending {
	if floor := sandbox.Tier(x.j.Task.Sandbox.MinTier); !x.b.opt.Tier.AtLeast(floor) {
		return x.startFailed(ctx, &sandbox.Error{Code: sandbox.ErrTier, What: fmt.Sprintf("the boxes here are %s, the task asks for %s", x.b.opt.Tier, floor)})
	}
	channel, err := x.open(ctx)
	if err != nil {
		return x.startFailed(ctx, err)
	}
	if x.box, err = x.start(ctx); err != nil {
		x.dirty = errors.Join(x.dirty, channel.close())
		return x.startFailed(ctx, err)
	}
	e := x.wait(ctx)
	x.dirty = errors.Join(x.dirty, channel.close())
	if e.State == contract.Running {
		return e
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), boxCloseTime)
	defer cancel()
	x.dirty = errors.Join(x.dirty, x.box.Close(cctx))
	return e
}

// startFailed says why there is no box.
func (x *boxed) startFailed(ctx context.Context, err error) contract.Ending {
	if cause := context.Cause(ctx); cause != nil {
		return stoppedBy(cause)
	}
	x.b.s.log.Warn("start box", "run", x.j.Run.ID, "error", err)
	f := contract.Failure{Code: contract.FailSandboxStart, Message: clipLine(err.Error())}
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		f.Hint = e.Hint
	}
	return contract.Ending{State: contract.Failed, Error: &f}
}

// stoppedBy is the end of a run whose context ended before its box reported one.
func stoppedBy(cause error) contract.Ending {
	switch {
	case errors.Is(cause, ErrCancelRequested):
		return contract.Ending{State: contract.Cancelled, Error: &contract.Failure{Code: contract.FailCancelled, Message: "cancelled"}}
	case errors.Is(cause, ErrWallTime):
		return failed(contract.FailWallTime, "the wall time of the run is over")
	}
	return failed(contract.FailInterrupted, "the service shut down")
}

// start launches the box, or takes over the one that an earlier service left.
func (x *boxed) start(ctx context.Context) (sandbox.Box, error) {
	if x.j.Adopted {
		a, ok := x.b.opt.Launcher.(sandbox.Adopter)
		if !ok {
			return nil, &sandbox.Error{Code: sandbox.ErrLost, What: "boxes cannot be taken over here"}
		}
		return a.Adopt(ctx, string(x.j.Run.ID))
	}
	spec := sandbox.LaunchSpec{
		Run: string(x.j.Run.ID), Argv: x.b.opt.Argv, Env: x.b.opt.Env, Limits: x.b.opt.Limits,
		Source: filepath.Join(x.dir, "source"), Channel: filepath.Join(x.dir, "channel"), Scratch: filepath.Join(x.dir, "scratch"),
	}
	var err error
	if x.b.opt.Image != nil {
		if spec.Image, err = x.b.opt.Image(x.j.Task); err != nil {
			return nil, err
		}
	}
	if spec.Stdin, err = x.order(ctx); err != nil {
		return nil, err
	}
	return x.b.opt.Launcher.Launch(ctx, spec)
}

// order mints the tokens of the attempt, opens its model capability, and writes both down for the box.
func (x *boxed) order(ctx context.Context) ([]byte, error) {
	m, err := x.b.opt.Model(x.j.Task)
	if err != nil {
		return nil, err
	}
	var tokens map[token.Audience]string
	err = x.b.s.update(ctx, x.j.Run.ID, func(tx control.Tx, env control.Env) error {
		if tokens, err = x.b.s.core.Tokens(env, x.j.Run, 0); err != nil {
			return err
		}
		return x.b.s.core.Activate(tx, env, x.j.Run.Attempt, control.Grant{})
	})
	if err != nil {
		return nil, fmt.Errorf("give the box its tokens: %w", err)
	}
	return worker.Order{Run: x.j.Run, Task: x.j.Task, Tokens: tokens, Model: m, Tier: x.b.opt.Tier}.Encode(), nil
}

// wait waits for the report of the box and then for its end, within the grace that the run has.
func (x *boxed) wait(ctx context.Context) contract.Ending {
	wctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	type ended struct {
		exit sandbox.Exit
		err  error
	}
	gone := make(chan ended, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		exit, err := x.box.Wait(wctx)
		gone <- ended{exit, err}
	})
	var over <-chan time.Time
	stopping := ctx.Done()
	for {
		select {
		case e := <-x.reports:
			select {
			case <-gone:
			case <-time.After(boxExitTime): // it has said all that counts
			case <-ctx.Done():
			}
			return e
		case g := <-gone:
			select {
			case e := <-x.reports:
				return e
			default:
			}
			return x.lost(ctx, g.exit, g.err)
		case <-stopping:
			stopping = nil
			if errors.Is(context.Cause(ctx), ErrShutdown) && x.canLeave() {
				return contract.Ending{State: contract.Running}
			}
			over = time.After(x.b.s.opt.grace * 7 / 10) // the rest of the grace is for cleaning up
		case <-over:
			return stoppedBy(context.Cause(ctx))
		}
	}
}

// canLeave reports whether the box may outlive this service.
func (x *boxed) canLeave() bool {
	_, ok := x.b.opt.Launcher.(sandbox.Adopter)
	return ok
}

// lost is the end of a run whose box ended without a report.
func (x *boxed) lost(ctx context.Context, exit sandbox.Exit, err error) contract.Ending {
	if cause := context.Cause(ctx); cause != nil {
		return stoppedBy(cause)
	}
	code, why := contract.FailSandboxLost, fmt.Sprintf("the box ended with exit code %d and no report", exit.Code)
	switch {
	case err != nil:
		why = "the box is gone: " + err.Error()
	case exit.Memory:
		code, why = contract.FailMemory, "the box used more memory than it may"
	}
	if tail := strings.TrimSpace(x.box.Tail()); tail != "" {
		why += ": " + tail
	}
	return failed(code, clipLine(why))
}

// cleaned ends the clean-up and reports what of it failed: a run whose box may still be there did not
// complete.
func (x *boxed) cleaned(e contract.Ending) contract.Ending {
	err := errors.Join(x.dirty, os.RemoveAll(x.dir))
	if err == nil {
		return e
	}
	x.b.s.log.Error("clean up box", "run", x.j.Run.ID, "error", err)
	if e.State == contract.Completed {
		e = contract.Ending{State: contract.Failed, Result: e.Result, Error: &contract.Failure{
			Code: contract.FailSandboxCleanup, Message: "the box could not be removed", Hint: "the operator's log says why",
		}}
		if e.Result != nil {
			r := *e.Result
			r.Outcome = ""
			e.Result = &r
		}
		return e
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.b.s.life), pulseEvery)
	defer cancel()
	n := contract.Notice{Level: "error", Code: string(contract.FailSandboxCleanup), Text: "the box could not be removed"}
	if err := x.j.Session.Append(ctx, contract.NewEvent(0, n)); err != nil {
		x.b.s.log.Warn("tell of the clean-up", "run", x.j.Run.ID, "error", err)
	}
	return e
}

// clipLine makes one bounded line of untrusted text.
func clipLine(s string) string {
	s = strings.Join(strings.Fields(contract.CleanText(s)), " ")
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "") + "…"
	}
	return s
}
