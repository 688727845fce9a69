package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

// fileTaken is where the folder of a run says which run went on in its workspace.
const fileTaken = "workspace.taken"

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

// RemoveWorkspace removes the tree of the ended run whose folder is dir. A run that went on in the tree of
// another only lets go of it. A tree that another run went on in is KindConflict and stays: that
// one is to be removed first.
func RemoveWorkspace(ctx context.Context, dir string) error {
	unlock, err := lockFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if other := TakenBy(dir); other != "" {
		return contract.Errorf(contract.KindConflict, "run %s goes on in the worktree of this one", filepath.Base(other))
	}
	ws := filepath.Join(dir, dirWorkspace)
	info, err := os.Lstat(ws)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("remove worktree: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return os.Remove(ws)
	}
	return workspace.Discard(ctx, ws)
}

// lockFolder keeps another process from removing a run's workspace, or from going on in it, until the
// lock is given back. It waits for one that does.
func lockFolder(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the run: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the folder of the run: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil // the lock ends with it
}

// claimPrior finds the workspace of the earlier run and claims it, fs.ErrNotExist where it is gone.
func (a *attempt) claimPrior() (string, error) {
	unlock, err := lockFolder(a.j.Prior)
	if err != nil {
		return "", err
	}
	defer unlock()
	dir, err := filepath.EvalSymlinks(filepath.Join(a.j.Prior, dirWorkspace))
	if err != nil {
		return "", fmt.Errorf("find the workspace of the earlier run: %w", err)
	}
	if dir != a.folder(dirWorkspace) {
		err = a.claim(dir)
	}
	return dir, err
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
