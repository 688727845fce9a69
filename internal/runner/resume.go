package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

// takeOver goes on in the workspace that the earlier run left. The folder stays where it is, since git's
// links in it are absolute; this run's folder gets a link to it, so that it can be gone on with from here
// in turn. Only one run may go on in a tree.
func (a *attempt) takeOver(ctx context.Context) error {
	if a.j.Prior == "" {
		return stop(contract.FailWorkspace, "the folder of the run to go on from is not known")
	}
	dir, err := a.claimPrior()
	if errors.Is(err, fs.ErrNotExist) {
		return a.remake(ctx)
	}
	if _, taken := errors.AsType[*stopped](err); taken && a.j.PriorPatch != nil {
		return a.remake(ctx) // a second run from the same point has a tree of its own
	}
	if err != nil {
		return workspaceFailed(ctx, err)
	}
	a.ws, err = workspace.Reopen(ctx, dir)
	if contract.KindOf(err) == contract.KindNotFound {
		return a.remake(ctx)
	}
	return workspaceFailed(ctx, err)
}

// makeAnew makes the tree of a run that goes on from one that did nothing in its tree.
func (a *attempt) makeAnew(ctx context.Context) error {
	o, err := a.options(ctx)
	if err != nil {
		return err
	}
	a.ws, err = workspace.Create(ctx, o)
	return workspaceFailed(ctx, err)
}

// remake makes the tree again from the base of the earlier run and its patch, where its workspace is
// gone or was never finished.
func (a *attempt) remake(ctx context.Context) error {
	if info, err := os.Lstat(a.folder(dirWorkspace)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := os.Remove(a.folder(dirWorkspace)); err != nil {
			return workspaceFailed(ctx, fmt.Errorf("let go of the workspace of the earlier run: %w", err))
		}
	}
	var ready contract.WorkspaceReady
	touched := false
	for _, e := range a.j.History {
		if p, ok := contract.As[contract.WorkspaceReady](e); ok {
			ready = p
		}
		touched = touched || e.Type == contract.TypeToolStarted
	}
	if !touched {
		return a.makeAnew(ctx)
	}
	r := a.j.Task.Repository
	if ready.BaseSHA == "" || r == nil || a.j.PriorPatch == nil {
		return &stopped{contract.Failure{
			Code: contract.FailWorkspace, Message: "the workspace of the run to go on from is gone", Hint: "apply its patch and start a new run",
		}}
	}
	patch, err := a.priorPatch(ctx)
	if err != nil {
		return workspaceFailed(ctx, err)
	}
	a.ws, err = rebuild(ctx, rebuilt{repository: r.Path, base: ready.BaseSHA, tree: ready.BaseTree, patch: patch, dir: a.j.Dir})
	return workspaceFailed(ctx, errors.Join(err, removeAll(a.folder(dirReceipt))))
}

func (a *attempt) priorPatch(ctx context.Context) ([]byte, error) {
	f, err := a.j.PriorPatch(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the patch of the earlier run: %w", err)
	}
	defer f.Close()
	patch, err := io.ReadAll(io.LimitReader(f, workspace.MaxPatchBytes+1))
	if err == nil && len(patch) > workspace.MaxPatchBytes {
		err = contract.Errorf(contract.KindTooLarge, "patch is larger than %d bytes", workspace.MaxPatchBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("read the patch of the earlier run: %w", err)
	}
	return patch, nil
}
