package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/runner"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/docker"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

// maxChain bounds how many runs back the history of a resumed run goes.
const maxChain = 64

// executor carries out the runs of the service with the runner.
type executor struct {
	runner *runner.Runner
	local  *Local // set before any run starts
}

// newExecutor wires the runner: sandbox, models, signer, secrets, caches.
func (f *Factory) newExecutor(ctx context.Context, c *config.Config) (*executor, error) {
	dir, err := f.StateDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	signer, err := bundle.OpenSigner(dir)
	if err != nil {
		return nil, err
	}
	models, err := f.models(ctx, c)
	if err != nil {
		return nil, err
	}
	return &executor{runner: runner.New(runner.Config{
		Sandbox: f.place, Model: models.setup, Signer: signer, Secrets: models.secrets(),
		SystemFile: filepath.Join(filepath.Dir(f.UserConfigFile()), "SYSTEM.md"),
		CacheDir:   filepath.Join(dir, "bases"), Now: f.Now,
		Causes: runner.Causes{Cancel: host.ErrCancelRequested, WallTime: host.ErrWallTime, Shutdown: host.ErrShutdown},
	})}, nil
}

// place finds the sandbox that a task asks for on this machine.
func (f *Factory) place(_ context.Context, t contract.Task) (runner.Place, error) {
	switch t.Sandbox.Mode {
	case contract.SandboxDocker:
		o := docker.Options{Image: t.Sandbox.Image}
		if sandbox.Tier(t.Sandbox.MinTier) == sandbox.TierGVisor {
			o.Runtime = docker.GVisor
		}
		return runner.Place{Opener: docker.New(o)}, nil
	case contract.SandboxNone:
		return runner.Place{Opener: proc.New(proc.Options{Want: sandbox.TierNone})}, nil
	case "", contract.SandboxAuto, contract.SandboxReadOnly, contract.SandboxWorkspace:
	}
	o := proc.Options{Proof: f.proven()}
	if c, err := f.Config(); err == nil && c.String("caches") != "off" {
		o.Caches = sandbox.UserCaches(f.Getenv)
	}
	return runner.Place{Opener: proc.New(o), Overlay: true}, nil
}

// Execute implements [host.Executor].
func (e *executor) Execute(ctx context.Context, j host.Job) contract.Ending {
	job := runner.Job{Run: j.Run, Task: j.Task, Session: j.Session, Dir: j.Dir}
	if err := e.prior(ctx, &job); err != nil {
		return contract.Ending{State: contract.Failed, Error: &contract.Failure{
			Code: contract.FailInternal, Message: oneLine(fmt.Sprintf("read the run it goes on from: %v", err)),
		}}
	}
	return e.runner.Run(ctx, job)
}

// prior finds the run that this one goes on from, and its whole history, oldest first.
func (e *executor) prior(ctx context.Context, job *runner.Job) error {
	from, err := fromOf(job.Session.Log(ctx))
	if err != nil || from == "" {
		return err
	}
	job.Prior = e.local.runDir(from)
	job.PriorPatch = func(ctx context.Context) (io.ReadCloser, error) { return e.patchOf(ctx, from) }
	var logs [][]contract.Event
	for id := from; id != "" && len(logs) < maxChain; {
		log, err := collectLog(ctx, e.local, id)
		if err != nil {
			return err
		}
		logs = append(logs, log)
		if id, err = fromOf(sequence(log)); err != nil {
			return err
		}
	}
	slices.Reverse(logs)
	job.History = slices.Concat(logs...)
	return nil
}

// patchOf opens the patch that an ended run left.
func (e *executor) patchOf(ctx context.Context, id contract.RunID) (io.ReadCloser, error) {
	r, err := e.local.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.Result == nil || r.Result.Patch == nil || r.Error != nil && r.Error.Code == contract.FailResult {
		return nil, contract.Errorf(contract.KindNotFound, "run %s left no patch to go on from", short(r))
	}
	return e.local.Artifact(ctx, id, r.Result.Patch.Artifact)
}

// fromOf reads the start of a log for the run it goes on from.
func fromOf(log func(func(contract.Event, error) bool)) (contract.RunID, error) {
	for e, err := range log {
		if err != nil {
			return "", err
		}
		if d, ok := contract.As[contract.RunResumed](e); ok {
			return d.From, nil
		}
		if e.Seq > 2 {
			break
		}
	}
	return "", nil
}

func sequence(log []contract.Event) func(func(contract.Event, error) bool) {
	return func(yield func(contract.Event, error) bool) {
		for _, e := range log {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// collectLog reads the whole log of an ended run.
func collectLog(ctx context.Context, runs contract.Watcher, id contract.RunID) ([]contract.Event, error) {
	var log []contract.Event
	for e, err := range runs.Events(ctx, id, 0) {
		if err != nil {
			return nil, err
		}
		log = append(log, e)
	}
	return log, nil
}
