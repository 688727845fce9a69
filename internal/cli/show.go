package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

type showOptions struct {
	*Factory
	Ref  string
	JSON bool
	JQ   string
}

func newShowCmd(f *Factory, do func(context.Context, *showOptions) error) *cobra.Command {
	o := &showOptions{Factory: f}
	if do == nil {
		do = runShow
	}
	cmd := &cobra.Command{
		Use: "show RUN", Short: "Show a run: task, state, limits used, checks, cost", Args: args(0, 1),
		Example: "  rivumi show @last\n  rivumi show @last --jq .result.outcome",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			return do(c.Context(), o)
		},
	}
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	return cmd
}

// at gives an argument, "" where there is none.
func at(a []string, i int) string {
	if i < len(a) {
		return a[i]
	}
	return ""
}

func runShow(ctx context.Context, o *showOptions) error {
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		r, err := o.findRun(ctx, runs, o.Ref)
		if err != nil {
			return err
		}
		if o.JSON || o.JQ != "" {
			return writeJSON(o.IO.Out, r, o.JQ)
		}
		pic, task, err := replay(ctx, runs, r)
		if err != nil {
			return err
		}
		printRun(o.IO.Out, r, pic, task)
		if r.Status.Terminal() {
			o.IO.Next(nextCommands(r)...)
		} else {
			o.IO.Next("rivumi attach "+short(r), "rivumi cancel "+short(r))
		}
		return nil
	})
}

// replay folds what is stored of a run, without following it.
func replay(ctx context.Context, runs contract.Watcher, r contract.Run) (view.Picture, contract.Task, error) {
	var pic view.Picture
	var task contract.Task
	if r.LastSeq == 0 {
		return pic, task, nil
	}
	for e, err := range runs.Events(ctx, r.ID, 0) {
		if err != nil {
			return pic, task, err
		}
		if d, ok := contract.As[contract.RunQueued](e); ok {
			task = d.Task
		}
		pic = view.Fold(pic, e)
		if e.Seq >= r.LastSeq {
			break
		}
	}
	return pic, task, nil
}

func printRun(w io.Writer, r contract.Run, pic view.Picture, task contract.Task) {
	field := func(name, format string, a ...any) { fmt.Fprintf(w, "%-10s %s\n", name, fmt.Sprintf(format, a...)) }
	field("run", "%s%s", r.ID, suffix("  ", r.Name))
	field("state", "%s", stateLine(r, pic))
	if r.Error != nil {
		field("why", "%s: %s", r.Error.Code, oneLine(r.Error.Message))
		if r.Error.Hint != "" {
			field("hint", "%s", oneLine(r.Error.Hint))
		}
	}
	field("task", "%s", indentBy(strings.TrimSpace(clean(r.Instruction)), 11))
	field("model", "%s", clean(r.Model))
	if r.Repository != "" {
		field("where", "%s @ %s%s", clean(r.Repository), clean(view.Commit(r.BaseSHA)), dirtyText(pic.Header.Dirty))
	}
	if r.Sandbox != "" {
		field("sandbox", "%s, network %s", clean(r.Sandbox), firstOf(clean(pic.Header.Network), "none"))
	}
	field("approve", "%s", task.Approval.Policy)
	if len(task.AllowedPaths) > 0 {
		field("paths", "%s", clean(strings.Join(task.AllowedPaths, " ")))
	}
	field("used", "%s", usageText(r))
	field("limits", "%s", limitsText(r.Limits))
	field("time", "%s", timesText(r))
	for _, a := range pic.Approvals {
		field("asks", "%s  %s", a.ID, oneLine(a.Title))
	}
	for _, c := range task.Checks {
		field("check", "%s: %s", oneLine(quoteArgv(c)), checkState(r, c))
	}
	if r.Result != nil {
		field("changed", "%s", view.Changes(r.Result.ChangedFiles))
		for _, f := range r.Result.ChangedFiles {
			field("", "%s %s%s", view.Letter(f), oneLine(f.Path), sizes(f))
		}
		if r.Result.Summary != "" {
			field("said", "%s", indentBy(clean(strings.TrimSpace(r.Result.Summary)), 11))
		}
	}
}

func suffix(sep, s string) string {
	if s == "" {
		return ""
	}
	return sep + clean(s)
}

func stateLine(r contract.Run, pic view.Picture) string {
	if r.Status.Terminal() {
		return fmt.Sprintf("%s (exit %d)", verdictOf(r), r.ExitCode())
	}
	s := string(r.Status)
	if pic.Waiting != view.WaitNothing {
		s += ", waits for " + string(pic.Waiting)
	}
	return s
}

func limitsText(l contract.Limits) string {
	s := fmt.Sprintf("%d steps, %s, %d model requests", l.MaxSteps, view.Length(time.Duration(l.WallTimeSeconds)*time.Second), l.ModelRequests())
	if l.MaxOutputTokens > 0 {
		s += ", " + view.Tokens(l.MaxOutputTokens) + " output tokens"
	}
	if l.MaxCostUSD > 0 {
		s += ", " + view.Cost(l.MaxCostUSD)
	}
	return s
}

func timesText(r contract.Run) string {
	s := "created " + r.CreatedAt.Format(time.RFC3339)
	if r.StartedAt != nil && r.EndedAt != nil {
		s += ", took " + view.Length(r.EndedAt.Sub(r.StartedAt.Time))
	}
	return s
}

func checkState(r contract.Run, c contract.Check) string {
	if r.Result == nil {
		return "not run yet"
	}
	for _, res := range r.Result.Checks {
		if quoteArgv(res.Argv) != quoteArgv(c) {
			continue
		}
		if res.Passed {
			return "passed"
		}
		return fmt.Sprintf("failed, exit %d", res.ExitCode)
	}
	return "not run"
}

func indentBy(s string, n int) string {
	return strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n))
}
