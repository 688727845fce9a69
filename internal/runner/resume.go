package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

// fileTaken is where the folder of a run says which run went on in its workspace.
const fileTaken = "workspace.taken"

// takeOver goes on in the workspace that the earlier run left. The folder stays where it is, since git's
// links in it are absolute; this run's folder gets a link to it, so that it can be gone on with from here
// in turn. Only one run may go on in a tree.
func (a *attempt) takeOver(ctx context.Context) error {
	if a.j.Prior == "" {
		return stop(contract.FailWorkspace, "the folder of the run to go on from is not known")
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(a.j.Prior, dirWorkspace))
	if errors.Is(err, fs.ErrNotExist) {
		return a.remake(ctx)
	}
	if err != nil {
		return workspaceFailed(ctx, fmt.Errorf("find the workspace of the earlier run: %w", err))
	}
	if dir != a.folder(dirWorkspace) {
		if err := a.claim(dir); err != nil {
			return workspaceFailed(ctx, err)
		}
	}
	a.ws, err = workspace.Reopen(ctx, dir)
	if contract.KindOf(err) == contract.KindNotFound {
		return a.remake(ctx)
	}
	return workspaceFailed(ctx, err)
}

// remake makes the tree again from the base of the earlier run and its patch, where its workspace is
// gone or was never finished.
func (a *attempt) remake(ctx context.Context) error {
	var ready contract.WorkspaceReady
	for _, e := range a.j.History {
		if p, ok := contract.As[contract.WorkspaceReady](e); ok {
			ready = p
		}
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

// TakenBy gives the folder of the run that went on in the workspace of the run in dir, "" for none or
// one that is gone. Such a workspace must not be removed while that run is there: it is its tree.
func TakenBy(dir string) string {
	taker, err := os.ReadFile(filepath.Join(dir, fileTaken))
	if err != nil {
		return ""
	}
	other := strings.TrimSpace(string(taker))
	if _, err := os.Lstat(filepath.Join(other, dirWorkspace)); err != nil {
		return ""
	}
	return other
}

// claim links dir into this run's folder, unless another run that is still there has done so.
func (a *attempt) claim(dir string) error {
	link, note := a.folder(dirWorkspace), filepath.Join(a.j.Prior, fileTaken)
	if _, err := os.Lstat(note); err == nil {
		if other := TakenBy(a.j.Prior); other != "" && other != a.j.Dir {
			return stop(contract.FailWorkspace, "run %s already went on in this workspace; resume that one", filepath.Base(other))
		}
		if err := os.Remove(note); err != nil { // of a run that is gone
			return fmt.Errorf("take the workspace over: %w", err)
		}
	}
	if err := os.Symlink(dir, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("take the workspace over: %w", err)
	}
	f, err := os.OpenFile(note, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return errors.Join(stop(contract.FailWorkspace, "another run goes on in this workspace"), os.Remove(link))
	}
	if err != nil {
		return fmt.Errorf("take the workspace over: %w", err)
	}
	_, err = f.WriteString(a.j.Dir + "\n")
	return errors.Join(err, f.Close())
}
