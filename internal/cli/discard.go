package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/runner"
)

type discardOptions struct {
	*Factory
	Refs       []string
	KeepBundle bool
}

func newDiscardCmd(f *Factory, do func(context.Context, *discardOptions) error) *cobra.Command {
	o := &discardOptions{Factory: f}
	if do == nil {
		do = runDiscard
	}
	cmd := &cobra.Command{
		Use: "discard RUN...", Aliases: []string{"rm"}, Short: "Throw a run away: its worktree and its record", Args: args(0, -1),
		Long: "Removes the worktree, the log and the bundle of finished runs. Your checkout is not touched; what was\n" +
			"applied stays applied.",
		RunE: func(c *cobra.Command, a []string) error {
			o.Refs = a
			return do(c.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.KeepBundle, "keep-bundle", false, "remove the worktree only")
	return cmd
}

func runDiscard(ctx context.Context, o *discardOptions) error {
	if len(o.Refs) == 0 {
		o.Refs = []string{""}
	}
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		for _, ref := range o.Refs {
			r, err := o.findRun(ctx, runs, ref)
			if err != nil {
				if dir := o.importDir(ref); dir != "" {
					err = os.RemoveAll(dir)
				}
				if err != nil {
					return err
				}
				continue
			}
			if runs.isRemote(r.ID) {
				return usagef("the control plane's operator keeps or removes its runs", "run %s is at a control plane", short(r))
			}
			if err := o.discard(ctx, runs.Local, r, o.KeepBundle); err != nil {
				return err
			}
		}
		o.IO.Next("rivumi ps", `rivumi run "what to do"`)
		return nil
	})
}

// importDir is the folder of an imported bundle, "" for none.
func (o *discardOptions) importDir(ref string) string {
	k := o.imported(ref)
	if k == nil {
		return ""
	}
	dir, err := o.importsDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, string(k.Run.ID))
}

// discard removes a run's worktree, and its record unless only the worktree is to go.
func (f *Factory) discard(ctx context.Context, local *Local, r contract.Run, worktreeOnly bool) error {
	if !r.Status.Terminal() {
		return usagef("rivumi cancel "+short(r)+" --wait ends it", "run %s is %s", short(r), r.Status)
	}
	if other := goneOnBy(local, r.ID); other != "" {
		return usagef("rivumi discard "+other.Short()+", then this one", "run %s goes on in the worktree of run %s", other.Short(), short(r))
	}
	if err := local.removeTree(ctx, r.ID); err != nil {
		return err
	}
	if worktreeOnly {
		f.IO.Note("removed the worktree of run %s; its record stays", short(r))
		return nil
	}
	if err := local.Remove(ctx, r.ID); err != nil {
		return err
	}
	if dir, err := f.receiptDir(r.ID); err == nil {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove receipts: %w", err)
		}
	}
	f.IO.Note("discarded run %s", short(r))
	return nil
}

// goneOnBy gives the run that went on in the worktree of a run, "" for none.
func goneOnBy(local *Local, id contract.RunID) contract.RunID {
	if by := runner.TakenBy(local.runDir(id)); by != "" {
		return contract.RunID(filepath.Base(by))
	}
	return ""
}

// removeTree removes the worktree of a run. One that another run went on with is only let go of, and
// what it went on with stays until it is gone: that is KindConflict.
func (l *Local) removeTree(ctx context.Context, id contract.RunID) error {
	return runner.RemoveWorkspace(ctx, l.runDir(id))
}

// keepTrees is how many worktrees of ended runs stay, so that they can be gone on with.
const keepTrees = 10

// keepMark in a run's folder says that its worktree was asked to be kept.
const keepMark = "keep"

// tidyTrees removes the worktrees of the oldest ended runs, so that disk use stays bounded. Their
// records and bundles stay.
func (l *Local) tidyTrees(ctx context.Context) error {
	names, err := os.ReadDir(filepath.Join(l.Dir, "runs"))
	if err != nil {
		return fmt.Errorf("list worktrees: %w", err)
	}
	have := map[contract.RunID]bool{}
	for _, n := range names {
		id := contract.RunID(n.Name())
		if _, err := os.Lstat(l.workspaceDir(id)); err != nil {
			continue
		}
		if _, err := os.Lstat(filepath.Join(l.runDir(id), keepMark)); err != nil {
			have[id] = true
		}
	}
	if len(have) <= keepTrees {
		return nil
	}
	ended := []contract.State{contract.Completed, contract.Failed, contract.Cancelled}
	seen := 0
	for r, err := range l.List(ctx, contract.Filter{States: ended}) {
		if err != nil {
			return err
		}
		if !have[r.ID] {
			continue
		}
		if seen++; seen > keepTrees {
			if err := l.removeTree(ctx, r.ID); err != nil && contract.KindOf(err) != contract.KindConflict {
				return err
			}
		}
	}
	return nil
}

type pruneOptions struct {
	*Factory
	Before string
	DryRun bool
}

func newPruneCmd(f *Factory, do func(context.Context, *pruneOptions) error) *cobra.Command {
	o := &pruneOptions{Factory: f}
	if do == nil {
		do = runPrune
	}
	cmd := &cobra.Command{
		Use: "prune", Short: "Throw old finished runs away", Args: args(0, 0),
		Example: "  rivumi prune --before 2w --dry-run",
		RunE:    func(c *cobra.Command, _ []string) error { return do(c.Context(), o) },
	}
	cmd.Flags().StringVar(&o.Before, "before", "2w", "`AGE` runs that ended longer ago, such as 36h, 10d, 2w")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "only say which")
	return cmd
}

func runPrune(ctx context.Context, o *pruneOptions) error {
	limit, err := parseAge(o.Before)
	if err != nil {
		return err
	}
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		ended := []contract.State{contract.Completed, contract.Failed, contract.Cancelled}
		list, err := collect(ctx, runs, contract.Filter{States: ended})
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(r contract.Run) bool {
			return r.EndedAt == nil || o.Now().Sub(r.EndedAt.Time) < limit
		})
		slices.SortFunc(list, func(a, b contract.Run) int { return b.EndedAt.Compare(a.EndedAt.Time) }) // who goes on from another goes first
		for _, r := range list {
			if by := goneOnBy(runs.Local, r.ID); by != "" && !slices.ContainsFunc(list, func(o contract.Run) bool { return o.ID == by }) {
				o.IO.Note("run %s stays: run %s goes on in its worktree", short(r), by.Short())
				continue
			}
			fmt.Fprintf(o.IO.Out, "%s  %s  %s\n", short(r), r.Status, clip(oneLine(r.Instruction), 60))
			if o.DryRun {
				continue
			}
			if err := o.discard(ctx, runs.Local, r, false); err != nil {
				return err
			}
		}
		if o.DryRun {
			o.IO.Note("%d would go; nothing was removed", len(list))
		}
		o.IO.Next("rivumi ps --all")
		return nil
	})
}

// parseAge reads a duration that may be in days or weeks.
func parseAge(s string) (time.Duration, error) {
	for unit, d := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			if v, err := strconv.Atoi(n); err == nil && v >= 0 && v < 10_000 {
				return time.Duration(v) * d, nil
			}
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return d, nil
	}
	return 0, usagef("36h, 10d or 2w", "--before %q is not an age", s)
}
