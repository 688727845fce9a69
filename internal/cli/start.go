package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

// carried is a run that this process carries out from its start to its end.
type carried struct {
	f       *Factory
	p       *planned
	begin   func(ctx context.Context, l *Local) (contract.Run, error)
	started func(r contract.Run) // called once the run is stored
	done    func(r contract.Run) // called when it has ended
	asks    bool

	plan func(ctx context.Context, quiet *Factory, prompt string) (*planned, error) // for a screen without a run
}

// startRun carries out a planned run here, or hands it to a process of its own.
func startRun(ctx context.Context, o *runOptions, p *planned) error {
	if p.Detach {
		return detach(ctx, o.Factory, p)
	}
	c := &carried{f: o.Factory, p: p, begin: p.start, asks: o.IO.Asks()}
	if p.Screen {
		return c.onScreen(ctx)
	}
	return c.run(ctx)
}

// start stores the run that is asked for: a new one, or one that goes on from another.
func (p *planned) start(ctx context.Context, l *Local) (contract.Run, error) {
	if p.From != "" {
		return l.ResumeAs(ctx, p.From, p.Prompt, &p.Task)
	}
	return l.Start(ctx, p.Task)
}

// run opens the service, starts the run, shows it to its end and tells of it.
func (c *carried) run(ctx context.Context) error {
	st := newStopper(ctx, c.f.IO)
	defer st.close()
	local, err := c.open(st.ctx)
	if err != nil {
		return st.explain(err)
	}
	r, err := c.begin(st.ctx, local)
	if err != nil {
		return st.explain(errors.Join(err, closeService(ctx, local)))
	}
	st.started(local, r.ID)
	if c.started != nil {
		c.started(r)
	}
	err = c.watch(st.ctx, local, r)
	if errors.Is(err, errLeave) {
		return err // the process ends now; what still runs ends with it and is found as interrupted
	}
	if err == nil {
		r, err = c.finish(ctx, local, r)
	}
	if err == nil && c.done != nil {
		c.done(r)
	}
	if cerr := closeService(ctx, local); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return ended(r.ExitCode())
}

// open opens the service and looks at the repository beside it, so that a folder no run can start
// from is refused before anything is stored.
func (c *carried) open(ctx context.Context) (*Local, error) {
	ex, err := c.f.newExecutor(ctx, c.p.Config)
	if err != nil {
		return nil, err
	}
	var local *Local
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		local, err = c.f.openService(ctx, ex)
		return err
	})
	if rep := c.p.Task.Repository; rep != nil && c.p.From == "" {
		g.Go(func() error { return checkRepository(gctx, rep) })
	}
	if err := g.Wait(); err != nil {
		if local != nil {
			err = errors.Join(err, closeService(ctx, local))
		}
		return nil, err
	}
	ex.local = local
	return local, nil
}

func checkRepository(ctx context.Context, rep *contract.Repository) error {
	if rep.Base == "" && headIsBorn(repositoryRoot(rep.Path)) {
		return nil // the runner looks closer
	}
	repo, err := workspace.Discover(ctx, rep.Path)
	if err == nil && rep.Base != "" {
		_, _, err = repo.Resolve(ctx, rep.Base)
	}
	switch contract.KindOf(err) {
	case contract.KindNotFound:
		return usagef("run it inside a git repository, or try rivumi demo", "%w", err)
	case contract.KindInvalid:
		return usagef("a run starts from a commit: git add -A && git commit", "%w", err)
	}
	return err
}

// watch shows the run in the asked form until it ends.
func (c *carried) watch(ctx context.Context, local *Local, r contract.Run) error {
	p := newPrinter(c.f.IO)
	w := &watcher{f: c.f, runs: local, id: r.ID, asks: c.asks, policy: c.p.Task.Approval}
	if c.p.Output == "stream-json" {
		w.show = func(e contract.Event) error { return streamEvent(c.f.IO, e, c.p.JQ) }
	} else {
		w.show = func(e contract.Event) error {
			p.event(e)
			return nil
		}
	}
	return w.follow(ctx, 0)
}

// finish reads the end of the run, prints its result and does what was asked for afterwards.
func (c *carried) finish(ctx context.Context, local *Local, r contract.Run) (contract.Run, error) {
	ctx = context.WithoutCancel(ctx)
	r, err := local.Run(ctx, r.ID)
	if err != nil {
		return r, err
	}
	if c.p.Bundle != "" {
		if err := exportRun(ctx, local, r, c.p.Bundle, false); err != nil {
			return r, err
		}
	}
	switch c.p.Output {
	case "json":
		err = writeJSON(c.f.IO.Out, r, c.p.JQ)
	case "stream-json":
	default:
		writeSummary(c.f.IO.Out, r, c.f.IO.Quiet || !c.f.IO.OutTTY)
	}
	if err != nil {
		return r, err
	}
	if r.Error != nil && r.Error.Hint != "" {
		fmt.Fprintf(c.f.IO.Err, "rivumi: hint: %s\n", oneLine(r.Error.Hint))
	}
	return r, c.tidy(ctx, local, r)
}

// tidy bounds the disk that worktrees of ended runs take, and with --ephemeral removes all of the
// run.
func (c *carried) tidy(ctx context.Context, local *Local, r contract.Run) error {
	if c.p.Ephemeral {
		if err := local.removeTree(ctx, r.ID); err != nil {
			return err
		}
		return local.Remove(ctx, r.ID)
	}
	if c.p.Keep {
		if err := os.WriteFile(filepath.Join(local.runDir(r.ID), keepMark), nil, 0o600); err != nil {
			return fmt.Errorf("keep the worktree: %w", err)
		}
		c.f.IO.Note("the worktree is %s", local.treeDir(r.ID))
	}
	if err := local.tidyTrees(ctx); err != nil {
		c.f.IO.Warn("old worktrees stay: %v", err)
	}
	if !c.p.NoNext {
		c.f.IO.Next(nextCommands(r)...)
	}
	return nil
}
