package cli

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

type psOptions struct {
	*Factory
	All    bool
	Remote bool
	States []string
	Search string
	Limit  int
	Print  bool
	JSON   bool
	JQ     string
}

func newPsCmd(f *Factory, do func(context.Context, *psOptions) error) *cobra.Command {
	o := &psOptions{Factory: f}
	if do == nil {
		do = runPs
	}
	cmd := &cobra.Command{
		Use: "ps", Aliases: []string{"list", "ls"}, Short: "List runs", Args: args(0, 0),
		Example: "  rivumi ps\n  rivumi ps --all --state failed --json",
		RunE:    func(c *cobra.Command, _ []string) error { return do(c.Context(), o) },
	}
	p := cmd.Flags()
	p.BoolVarP(&o.All, "all", "a", false, "runs of all repositories")
	p.BoolVar(&o.Remote, "remote", false, "runs of the control plane")
	p.StringArrayVar(&o.States, "state", nil, "only runs in `STATE` (repeat)")
	p.StringVar(&o.Search, "search", "", "only runs whose id, name or task holds `TEXT`")
	p.IntVarP(&o.Limit, "limit", "L", 30, "at most `N` runs, 0 for all")
	p.BoolVarP(&o.Print, "print", "p", false, "plain lines even on a terminal")
	addOutputFlags(p, &o.JSON, &o.JQ)
	return cmd
}

// runList is the JSON of `ps`.
type runList struct {
	Runs []contract.Run `json:"runs"`
}

func runPs(ctx context.Context, o *psOptions) error {
	filter := contract.Filter{Search: o.Search, Limit: max(0, o.Limit)}
	for _, s := range o.States {
		state := contract.State(s)
		if !state.Valid() {
			return usagef("queued, running, completed, failed or cancelled", "--state %q is not known", s)
		}
		filter.States = append(filter.States, state)
	}
	if dir, err := o.WorkDir(); err == nil && !o.All {
		filter.Repository = o.runsRoot(dir)
	}
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		if !o.Remote && o.drawable() && !o.Print && !o.JSON && o.JQ == "" {
			s := newStage(o.Factory)
			defer s.close()
			s.runs = runs
			return s.browse(ctx, filter)
		}
		list, err := o.list(ctx, runs, filter)
		if err != nil {
			return err
		}
		if o.JSON || o.JQ != "" {
			if list == nil {
				list = []contract.Run{}
			}
			return writeJSON(o.IO.Out, runList{list}, o.JQ)
		}
		printRuns(o, list)
		return nil
	})
}

// list gives the runs of this machine, or those of the control plane.
func (o *psOptions) list(ctx context.Context, runs *Runs, filter contract.Filter) ([]contract.Run, error) {
	if !o.Remote {
		return collect(ctx, runs, filter)
	}
	c, err := o.Config()
	if err != nil {
		return nil, err
	}
	p, err := o.remoteNamed(c, "")
	if err != nil {
		return nil, err
	}
	there, err := o.openRemote(p, "")
	if err != nil {
		return nil, err
	}
	defer there.Close()
	filter.Repository = "" // a control plane knows no folder of this machine
	list, err := collect(ctx, there, filter)
	return list, remoteFailure(err)
}

func printRuns(o *psOptions, list []contract.Run) {
	if len(list) == 0 {
		o.IO.Note("no runs here")
		o.IO.Next(`rivumi run "what to do"`, "rivumi ps --all", "rivumi demo")
		return
	}
	w := tabwriter.NewWriter(o.IO.Out, 2, 8, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tNAME\tSTATE\tAGE\tCHANGES\tTASK")
	for _, r := range list {
		changes := "-"
		if r.Result != nil {
			changes = fmt.Sprintf("%d", len(r.Result.ChangedFiles))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", short(r), firstOf(clean(r.Name), "-"), stateText(r),
			age(o.Now().Sub(r.CreatedAt.Time)), changes, view.Clip(view.OneLine(r.Instruction), 60))
	}
	w.Flush()
	o.IO.Next("rivumi show "+short(list[0]), "rivumi attach "+short(list[0]))
}

func stateText(r contract.Run) string {
	switch {
	case r.PendingApprovals > 0 && !r.Status.Terminal():
		return "asking"
	case r.CancelRequested && !r.Status.Terminal():
		return "stopping"
	case r.Status == contract.Completed && r.Result != nil && r.Result.Outcome == contract.OutcomeVerified:
		return "verified"
	case r.Error != nil && r.Status == contract.Failed:
		return string(r.Error.Code)
	}
	return string(r.Status)
}

// age writes how long ago something was, in one unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// noServer refuses what needs a control plane.
func noServer(what string) error {
	return usagef("runs work on this machine without one: leave --remote out", "%s: no control plane is configured", what)
}
