package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

type undoOptions struct {
	*Factory
	Ref  string
	JSON bool
	JQ   string
}

func newUndoCmd(f *Factory, do func(context.Context, *undoOptions) error) *cobra.Command {
	o := &undoOptions{Factory: f}
	if do == nil {
		do = runUndo
	}
	cmd := &cobra.Command{
		Use: "undo RUN", Short: "Take an apply back; files you changed since stay", Args: args(0, 1),
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			return do(c.Context(), o)
		},
	}
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	return cmd
}

// undone is the JSON of `undo`.
type undone struct {
	Reverted []string `json:"reverted"`
	Kept     []string `json:"kept"`
}

func runUndo(ctx context.Context, o *undoOptions) error {
	return o.withResult(ctx, o.Ref, func(ctx context.Context, k *kept) error {
		receipt, err := o.lastApply(k.Run.ID)
		if err != nil {
			return err
		}
		repo, err := workspace.Discover(ctx, receipt.Root)
		if err != nil {
			return err
		}
		u, err := workspace.Undo(ctx, repo, receipt)
		if contract.KindOf(err) == contract.KindInvalid || contract.KindOf(err) == contract.KindConflict {
			return usagef("rivumi show "+short(k.Run), "%w", err)
		}
		if err != nil {
			return err
		}
		if o.JSON || o.JQ != "" {
			return writeJSON(o.IO.Out, undone{append([]string{}, u.Reverted...), append([]string{}, u.Kept...)}, o.JQ)
		}
		fmt.Fprintf(o.IO.Out, "took back %s\n", files(len(u.Reverted)))
		for _, p := range u.Reverted {
			fmt.Fprintf(o.IO.Out, "  %s\n", oneLine(p))
		}
		for _, p := range u.Kept {
			fmt.Fprintf(o.IO.Out, "  kept %s: it was changed since\n", oneLine(p))
		}
		o.IO.Next("git status", "rivumi apply "+short(k.Run))
		return nil
	})
}

// lastApply finds the newest apply of a run that changed the checkout and was not taken back.
func (o *undoOptions) lastApply(id contract.RunID) (workspace.Receipt, error) {
	dir, err := o.receiptDir(id)
	if err != nil {
		return workspace.Receipt{}, err
	}
	for _, n := range slices.Backward(receiptNumbers(dir)) {
		r, err := workspace.ReadReceipt(filepath.Join(dir, strconv.Itoa(n)))
		if contract.KindOf(err) == contract.KindNotFound {
			continue // it changed nothing
		}
		if err != nil {
			return r, err
		}
		if r.State == workspace.ReceiptApplied || r.State == workspace.ReceiptApplying {
			return r, nil
		}
	}
	return workspace.Receipt{}, usagef("rivumi apply "+id.Short(), "nothing of run %s is applied", id.Short())
}

func sortedInts(list []int) []int {
	slices.Sort(list)
	return list
}
