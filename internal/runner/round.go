package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/workspace"
)

// checkRound is one round of checks on one state of the tree.
type checkRound struct {
	snap workspace.Snapshot
	runs []checkRun
}

// passed reports whether every check did.
func (r *checkRound) passed() bool {
	for _, c := range r.runs {
		if !c.result.Passed {
			return false
		}
	}
	return true
}

// sessionClose bounds the end of a sandbox session.
const sessionClose = 5 * time.Second

// check is the agent's hook when the model says that it is done: all checks, on a clean checkout of the
// start plus the patch, in a place and a home of their own. A run that is over its limits gets no
// further round, but its owner ends it, not this.
func (a *attempt) check(ctx context.Context, round int) ([]contract.CheckFinished, error) {
	if len(a.j.Task.Checks) == 0 {
		return nil, nil
	}
	snap, err := a.ws.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("take the tree for the checks: %w", err)
	}
	r := &checkRound{snap: snap}
	dir := filepath.Join(a.folder(dirChecks), strconv.Itoa(round))
	finished, err := a.runChecks(ctx, r, dir)
	err = errors.Join(err, removeAll(dir))
	if err != nil {
		return nil, err
	}
	a.rounds = append(a.rounds, r)
	return finished, nil
}

// runChecks runs the checks in dir, which is made and left behind.
func (a *attempt) runChecks(ctx context.Context, r *checkRound, dir string) (finished []contract.CheckFinished, err error) {
	place, err := a.openChecks(ctx, r.snap, dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sessionClose)
		defer cancel()
		if cerr := place.Close(ctx); cerr != nil {
			a.warn(ctx, string(contract.FailSandboxCleanup), "the sandbox of the checks could not be ended cleanly: %s", cerr)
		}
	}()
	for i, argv := range a.j.Task.Checks {
		if err := a.log.Append(ctx, contract.NewEvent(0, contract.CheckStarted{Argv: argv, Phase: phaseFinal})); err != nil {
			return nil, err
		}
		c, err := runCheck(ctx, place, argv, max(a.left(), time.Second))
		if err != nil {
			return nil, err
		}
		c.output = []byte(contract.CleanText(a.c.Secrets.String(string(c.output))))
		if c.result.Phase = phaseFinal; !c.result.Passed && a.step < a.j.Task.Limits.MaxSteps {
			c.result.Phase = phaseFeedback
		}
		f, err := storeCheck(ctx, a.out, i+1, &c)
		if err != nil {
			return nil, err
		}
		if hint := a.ignoredHint(); !c.result.Passed && hint != "" && r.passed() {
			f.Tail += "\n[these checks ran without files that git ignores: " + hint + "]"
		}
		r.runs = append(r.runs, c)
		finished = append(finished, f)
		if err := a.log.Append(ctx, contract.NewEvent(0, f)); err != nil {
			return nil, err
		}
	}
	return finished, nil
}

// openChecks lays down the clean tree and opens a session on it: as a layer over the base tree where the
// workspace has layers too, else as a checkout of its own.
func (a *attempt) openChecks(ctx context.Context, snap workspace.Snapshot, dir string) (sandbox.Session, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the checks: %w", err)
	}
	layers, ok, err := a.ws.CheckoutLayers(ctx, snap, filepath.Join(dir, "layers"))
	if err != nil {
		return nil, fmt.Errorf("lay down a clean tree for the checks: %w", err)
	}
	tree := filepath.Join(dir, "tree")
	if ok {
		if err := os.Mkdir(tree, 0o755); err != nil {
			return nil, fmt.Errorf("make the folder of the checks: %w", err)
		}
		place, err := a.openClean(ctx, dir, &sandbox.Overlay{Lower: layers.Lower, Upper: layers.Upper, Work: layers.Work})
		if e, is := errors.AsType[*sandbox.Error](err); !is || e.Code != sandbox.ErrOverlay {
			return place, err
		}
	}
	if err := a.ws.Checkout(ctx, snap, tree); err != nil {
		return nil, fmt.Errorf("lay down a clean tree for the checks: %w", err)
	}
	return a.openClean(ctx, dir, nil)
}

// openClean opens the session of the checks on the tree in dir.
func (a *attempt) openClean(ctx context.Context, dir string, over *sandbox.Overlay) (sandbox.Session, error) {
	spec, err := a.spec(filepath.Join(dir, dirScratch), false)
	if err != nil {
		return nil, err
	}
	spec.Tree, spec.Overlay = filepath.Join(dir, "tree"), over
	place, err := a.place.Opener.Open(ctx, spec)
	if err != nil {
		return nil, startFailed(err)
	}
	return place, nil
}

// removeAll removes a folder of ours, also where something in it was made unreadable.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return errors.Join(os.Chmod(p, 0o700), ignoreDenied(err))
		}
		return ignoreDenied(err)
	})
	return errors.Join(ignoreDenied(err), os.RemoveAll(dir))
}

func ignoreDenied(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return nil
	}
	return err
}
