package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rivumi/rivumi/internal/contract"
)

// Remove removes the workspace's folder and all that is in it. Nothing else knows of the tree: the
// user's repository has no worktree, ref or lock of it. It is safe to call twice.
func (w *Workspace) Remove(ctx context.Context) error { return Discard(ctx, w.dir) }

// Discard removes the workspace in dir, finished or not, if rivumi recorded it as its own;
// anything else is KindNotFound and stays as it is. A folder that is gone is fine.
func Discard(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if _, err := os.Lstat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if _, err := readRecord(dir); err != nil {
		return err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	record := filepath.Base(layout{dir}.record())
	for _, n := range names {
		if n.Name() == record {
			continue // goes last, so that an interrupted removal can be taken up again
		}
		if err := removeTree(filepath.Join(dir, n.Name())); err != nil {
			return fmt.Errorf("remove workspace: %w", err)
		}
	}
	if err := os.Remove(layout{dir}.record()); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	if err := os.Remove(dir); err != nil {
		return fmt.Errorf("remove workspace: %w", err)
	}
	return nil
}

// Prune looks at the folders directly below parent and discards the workspaces among them that
// keep does not want, each at the path parent/NAME/sub. It gives the folders it removed. What
// rivumi did not record is not touched.
func Prune(ctx context.Context, parent, sub string, keep func(name string) bool) ([]string, error) {
	names, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	var removed []string
	for _, n := range names {
		dir := filepath.Join(parent, n.Name(), sub)
		if !n.IsDir() || keep(n.Name()) {
			continue
		}
		if _, err := readRecord(dir); err != nil {
			if contract.KindOf(err) == contract.KindNotFound {
				continue
			}
			return removed, err
		}
		if err := Discard(ctx, dir); err != nil {
			return removed, err
		}
		removed = append(removed, dir)
	}
	return removed, nil
}
