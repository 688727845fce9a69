package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rivumi/rivumi/internal/contract"
)

// Undone is what [Undo] did.
type Undone struct {
	Reverted []string // files that are as they were before the apply
	Kept     []string // files that were changed since and stay as they are
}

const receiptName = "receipt.json"

// save writes the receipt into its folder, whole or not at all.
func (r *Receipt) save() error {
	b, err := json.MarshalIndent(r.names(rawName), "", "  ")
	if err != nil {
		return fmt.Errorf("encode receipt: %w", err)
	}
	tmp := filepath.Join(r.Dir, receiptName+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("write receipt: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(r.Dir, receiptName)); err != nil {
		return fmt.Errorf("write receipt: %w", err)
	}
	return nil
}

// ReadReceipt reads the receipt of an apply from its folder, KindNotFound when there is none. One
// in state applying belongs to an apply that was cut off: [Undo] puts its files back.
func ReadReceipt(dir string) (Receipt, error) {
	var r Receipt
	b, err := os.ReadFile(filepath.Join(dir, receiptName))
	if errors.Is(err, os.ErrNotExist) {
		return r, contract.Errorf(contract.KindNotFound, "nothing was applied from this run")
	}
	if err != nil {
		return r, fmt.Errorf("read receipt: %w", err)
	}
	if err := json.Unmarshal(b, &r); err != nil || r.Version != 1 {
		return r, contract.Errorf(contract.KindInvalid, "the receipt in %q is not one of this program", dir)
	}
	r = r.names(nameOf)
	r.Dir = dir
	return r, nil
}

// Undo puts back the files of an apply that nobody changed since; the others stay and are named.
// Commits and branches are not touched: an apply that made one is KindInvalid, with the git command that
// reverts it. An index that took the change is left as it is.
func Undo(ctx context.Context, repo *Repo, r Receipt) (Undone, error) {
	var u Undone
	switch {
	case r.Commit != "":
		return u, contract.Errorf(contract.KindInvalid, "the change is commit %s: git revert %s undoes it", r.Commit, r.Commit)
	case r.Root != repo.root:
		return u, contract.Errorf(contract.KindInvalid, "the receipt is of the checkout %q, not of %q", r.Root, repo.root)
	case r.State != ReceiptApplied && r.State != ReceiptApplying:
		return u, contract.Errorf(contract.KindConflict, "there is nothing to undo: the apply is %s", r.State)
	}
	if err := ctx.Err(); err != nil {
		return u, context.Cause(ctx)
	}
	src, err := openSource(repo.root)
	if err != nil {
		return u, err
	}
	defer src.close()
	wb := &writeBack{root: repo.root, format: repo.format}
	for _, f := range r.Files {
		switch {
		case isState(src, f.Path, f.After, repo.format):
			wb.files = append(wb.files, f)
			u.Reverted = append(u.Reverted, f.Path)
		case isState(src, f.Path, f.Before, repo.format):
			u.Reverted = append(u.Reverted, f.Path) // an apply that was cut off before it
		default:
			u.Kept = append(u.Kept, f.Path)
		}
	}
	if err := wb.each(filepath.Join(r.Dir, "before"), func(f AppliedFile) *HostState { return f.Before }); err != nil {
		return u, err
	}
	r.State = ReceiptUndone
	return u, r.save()
}
