package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

func newRunCmd(f *Factory, do func(context.Context, *runOptions, []string) error) *cobra.Command {
	o := &runOptions{Factory: f}
	cmd := &cobra.Command{
		Use: "run [PROMPT|-]", Short: "Run an agent on this repository in a disposable worktree", Args: cobra.ArbitraryArgs,
		Example: "  rivumi run \"fix the failing test\" --check 'go test ./...'\n" +
			"  rivumi run -F task.yaml --dry-run\n" +
			"  git diff | rivumi run \"review this\" --approve read-only",
		RunE: func(c *cobra.Command, a []string) error {
			if do != nil {
				return do(c.Context(), o, a)
			}
			return runRun(c.Context(), c, o, a)
		},
	}
	addRunFlags(cmd, o)
	cmd.SetUsageFunc(runUsage)
	return cmd
}

// planned is a run that was checked and may start.
type planned struct {
	Task   contract.Task
	Config *config.Config
	From   contract.RunID // the run it goes on from, "" for a new one
	Prompt string         // the further message for a run that goes on

	Output    string
	JQ        string
	Bundle    string
	Keep      bool
	Ephemeral bool
	Detach    bool
	Screen    bool // draw it on the whole terminal
	NoNext    bool // the caller names the next commands itself
}

func runRun(ctx context.Context, c *cobra.Command, o *runOptions, words []string) error {
	if err := o.unsupported(); err != nil {
		return err
	}
	var p *planned
	var err error
	if o.Continue || o.Resume != "" {
		p, err = o.planFollowUp(ctx, c.Flags(), words)
	} else {
		p, err = o.plan(ctx, c.Flags(), words)
	}
	if err != nil {
		return err
	}
	if o.DryRun {
		return printContract(o, p)
	}
	if o.Remote != "" {
		return startRemote(ctx, o, p)
	}
	return startRun(ctx, o, p)
}

// unsupported refuses what needs a control plane.
func (o *runOptions) unsupported() error {
	switch {
	case o.Remote != "" && (o.Continue || o.Resume != ""):
		return usagef("start a new run with --remote", "a run at a control plane cannot be gone on with from here")
	case o.Attempts > 1:
		return noServer("--attempts")
	case o.Attempts < 1:
		return usagef("--attempts 1", "--attempts must be 1 or more")
	}
	return nil
}

// plan resolves everything a run needs and validates it, before anything starts.
func (o *runOptions) plan(ctx context.Context, flags *pflag.FlagSet, words []string) (*planned, error) {
	c, err := o.Config()
	if err != nil {
		return nil, err
	}
	if err := applyFlags(flags, c, o); err != nil {
		return nil, err
	}
	for _, w := range c.Warnings {
		o.IO.Warn("%s", w)
	}
	if c.Untrusted != "" {
		o.IO.Note("%s is not trusted and not used; rivumi config trust shows it", c.Untrusted)
	}
	prompt, err := readPrompt(o.IO, words, o.File != "")
	if err != nil {
		return nil, err
	}
	t, err := buildTask(o, c, prompt)
	if err != nil {
		return nil, err
	}
	if o.Remote != "" {
		return o.planned(c, t), nil // the control plane's rules and models count, not this machine's
	}
	if err := o.chooseModel(ctx, &t); err != nil {
		return nil, err
	}
	if err := contract.Validate(t, contract.Local(), contract.Rules{}); err != nil {
		return nil, err
	}
	if err := refuseDirty(ctx, t); err != nil {
		return nil, err
	}
	if o.IO.Asks() && !o.Detach && c.Lookup("on_no_answer").Layer == config.Default {
		t.Approval.Unattended = contract.UnattendedWait // a person is at the terminal
	}
	if !o.DryRun {
		models, err := o.models(ctx, c)
		if err != nil {
			return nil, err
		}
		if _, err := models.setup(ctx, t); err != nil {
			return nil, err
		}
	}
	return o.planned(c, t), nil
}

// refuseDirty holds --dirty refuse before anything starts, a dry run too.
func refuseDirty(ctx context.Context, t contract.Task) error {
	if t.Repository == nil || t.Repository.Dirty != contract.DirtyRefuse {
		return nil
	}
	repo, err := workspace.Discover(ctx, t.Repository.Path)
	if err != nil {
		return err
	}
	s, err := repo.Survey(ctx, t.Repository.Dirty, nil)
	if err != nil {
		return err
	}
	if s.Dirty.Tracked+s.Dirty.Untracked > 0 {
		return usagef("commit or stash it; --dirty include takes it along, --dirty exclude leaves it out",
			"the checkout has uncommitted work: %d changed and %d untracked files", s.Dirty.Tracked, s.Dirty.Untracked)
	}
	return nil
}

func (o *runOptions) planned(c *config.Config, t contract.Task) *planned {
	return &planned{
		Task: t, Config: c, Output: c.String("output"), JQ: o.JQ, Bundle: o.Bundle,
		Keep: c.Bool("keep") || o.Worktree != "", Ephemeral: o.Ephemeral, Detach: o.Detach,
		Screen: o.drawable() && !o.Print && o.JQ == "" && c.String("output") == "text",
	}
}

// planFollowUp resolves --continue and --resume. Such a run has the task and the tree of the one it
// goes on from: flags may change its limits, approvals and model, those of the source are refused.
func (o *runOptions) planFollowUp(ctx context.Context, flags *pflag.FlagSet, words []string) (*planned, error) {
	for _, n := range []string{"file", "base", "dirty", "include", "worktree"} {
		if flags.Changed(n) {
			return nil, usagef("leave it out, or start a new run", "--%s cannot be changed on a run that goes on", n)
		}
	}
	c, err := o.Config()
	if err != nil {
		return nil, err
	}
	if err := applyFlags(flags, c, o); err != nil {
		return nil, err
	}
	prompt := ""
	if len(words) > 0 {
		if prompt, err = readPrompt(o.IO, words, false); err != nil {
			return nil, err
		}
	}
	p := o.planned(c, contract.Task{})
	return p, o.goOn(ctx, p, firstOf(o.Resume, "@last"), prompt)
}

func printContract(o *runOptions, p *planned) error {
	if o.JQ != "" {
		return writeJSON(o.IO.Out, p.Task, o.JQ)
	}
	fmt.Fprintf(o.IO.Out, "%s\n", indentJSON(contract.MarshalJSON(p.Task)))
	o.IO.Note("nothing was started")
	if len(p.Task.Checks) == 0 {
		o.IO.Note("there is no check: the result would not be verified (--check 'go test ./...')")
	}
	return nil
}
