package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
)

type approveOptions struct {
	*Factory
	Ref, ID             string
	Once, Session, Deny bool
	Cancel              bool
	Note                string
	JSON                bool
	JQ                  string
}

func newApproveCmd(f *Factory, do func(context.Context, *approveOptions) error) *cobra.Command {
	o := &approveOptions{Factory: f}
	if do == nil {
		do = runApprove
	}
	cmd := &cobra.Command{
		Use: "approve RUN [ID]", Short: "List what a run asks for, or answer it", Args: args(0, 2),
		Example: "  rivumi approve @last\n  rivumi approve @last apr_7k3m --allow-once",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref, o.ID = at(a, 0), at(a, 1)
			return do(c.Context(), o)
		},
	}
	p := cmd.Flags()
	p.BoolVar(&o.Once, "allow-once", false, "allow this one call")
	p.BoolVar(&o.Session, "allow-session", false, "allow calls of the shown scope in this run")
	p.BoolVar(&o.Deny, "deny", false, "deny it; the model is told")
	p.BoolVar(&o.Cancel, "cancel", false, "deny it and end the run")
	p.StringVar(&o.Note, "note", "", "tell the model `WHY`")
	addOutputFlags(p, &o.JSON, &o.JQ)
	cmd.MarkFlagsMutuallyExclusive("allow-once", "allow-session", "deny", "cancel")
	return cmd
}

// verdict gives the decision of the flags, "" for none.
func (o *approveOptions) verdict() contract.Verdict {
	switch {
	case o.Once:
		return contract.AllowOnce
	case o.Session:
		return contract.AllowSession
	case o.Deny:
		return contract.Deny
	case o.Cancel:
		return contract.CancelRun
	}
	return ""
}

// approvalList is the JSON of `approve RUN`.
type approvalList struct {
	Pending []contract.Approval `json:"pending"`
}

func runApprove(ctx context.Context, o *approveOptions) error {
	v := o.verdict()
	switch {
	case v != "" && o.ID == "":
		return usagef("rivumi approve RUN lists the ids", "ID is missing: a decision is for one shown approval")
	case v == "" && o.ID != "":
		return usagef("--allow-once, --allow-session, --deny or --cancel", "the decision is missing")
	}
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		r, err := o.findRun(ctx, runs, o.Ref)
		if err != nil {
			return err
		}
		pic, _, err := replay(ctx, runs, r)
		if err != nil {
			return err
		}
		if v == "" {
			return listApprovals(o, r, pic.Approvals)
		}
		return decide(ctx, o, runs, r, pic.Approvals)
	})
}

func listApprovals(o *approveOptions, r contract.Run, pending []contract.Approval) error {
	if o.JSON || o.JQ != "" {
		if pending == nil {
			pending = []contract.Approval{}
		}
		return writeJSON(o.IO.Out, approvalList{pending}, o.JQ)
	}
	if len(pending) == 0 {
		o.IO.Note("run %s asks for nothing", short(r))
		o.IO.Next("rivumi show " + short(r))
		return nil
	}
	for _, a := range pending {
		fmt.Fprintf(o.IO.Out, "%s  expires %s\n%s", a.ID, a.ExpiresAt.Format("15:04:05"), approvalText(a, false))
	}
	o.IO.Next(fmt.Sprintf("rivumi approve %s %s --allow-once", short(r), pending[0].ID), fmt.Sprintf("rivumi approve %s %s --deny", short(r), pending[0].ID))
	return nil
}

func decide(ctx context.Context, o *approveOptions, runs contract.Runs, r contract.Run, pending []contract.Approval) error {
	id := o.ID
	i := slices.IndexFunc(pending, func(a contract.Approval) bool {
		return a.ID == id || len(id) >= len("apr_")+minPrefix && strings.HasPrefix(a.ID, id)
	})
	if i >= 0 {
		id = pending[i].ID
	}
	err := runs.Decide(ctx, r.ID, id, contract.Decision{Verdict: o.verdict(), Note: o.Note, By: o.who(), At: contract.At(o.Now())})
	if err != nil {
		return err
	}
	o.IO.Note("%s: %s", id, verdictText(o.verdict()))
	o.IO.Next("rivumi attach " + short(r))
	return nil
}

// who names the person at this terminal in the log.
func (f *Factory) who() string { return firstOf(f.Getenv("USER"), f.Getenv("LOGNAME"), "local") }

// approvalText shows what would run, why it is asked and what a session would cover. Long diffs
// and scripts are cut unless whole is set, and say so.
func approvalText(a contract.Approval, whole bool) string {
	var b strings.Builder
	what := firstOf(a.Command.Script, quoteArgv(a.Command.Argv), a.Command.Diff)
	where := ""
	if a.Command.Path != "" {
		where = " " + a.Command.Path
	}
	fmt.Fprintf(&b, "  %s%s\n", oneLine(a.Title), oneLine(where))
	lines := strings.Split(strings.TrimRight(clean(what), "\n"), "\n")
	const most = 20
	for i, l := range lines {
		if i == most && !whole {
			fmt.Fprintf(&b, "    (%d more lines; v shows all)\n", len(lines)-most)
			break
		}
		fmt.Fprintf(&b, "    %s\n", l)
	}
	if a.Command.Cwd != "" {
		fmt.Fprintf(&b, "  in       %s\n", oneLine(a.Command.Cwd))
	}
	fmt.Fprintf(&b, "  because  %s\n", oneLine(a.Reason))
	if a.Risk.Level != "" {
		fmt.Fprintf(&b, "  risk     %s%s\n", oneLine(a.Risk.Level), suffix(": ", oneLine(strings.Join(a.Risk.Why, "; "))))
	}
	if a.SessionScope.Pattern != "" {
		fmt.Fprintf(&b, "  session  %s%s\n", oneLine(a.SessionScope.Pattern), suffix("  ", oneLine(a.SessionScope.Explain)))
	}
	return b.String()
}
