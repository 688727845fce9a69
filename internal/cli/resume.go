package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
)

type resumeOptions struct {
	runOptions
	Ref    string
	Prompt string
}

func newResumeCmd(f *Factory, do func(context.Context, *cobra.Command, *resumeOptions) error) *cobra.Command {
	o := &resumeOptions{runOptions: runOptions{Factory: f, Attempts: 1}}
	if do == nil {
		do = runResume
	}
	cmd := &cobra.Command{
		Use: "resume RUN [PROMPT]", Short: "Go on after a crash or a limit, or with a follow-up", Args: args(0, -1),
		Example: "  rivumi resume @last\n  rivumi resume @last \"now add a test\"",
		Long: "Starts a run that goes on from an ended one: with its task, its history and its tree. A tool call\n" +
			"that was cut off by a crash is reported to the model as interrupted and never run again by itself.",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			if len(a) > 1 {
				o.Prompt = strings.Join(a[1:], " ")
			}
			return do(c.Context(), c, o)
		},
	}
	p := cmd.Flags()
	p.BoolVar(&o.Fork, "fork", false, "leave the run as it is and start another from there (always so)")
	p.BoolVarP(&o.Detach, "detach", "d", false, "go on in the background and print the run's id")
	p.BoolVarP(&o.Print, "print", "p", false, "plain lines even on a terminal")
	p.StringVarP(&o.Name, "name", "n", "", "`NAME` a handle for the run")
	p.StringVar(&o.Bundle, "bundle", "", "`FILE` write the bundle to it at the end")
	addSettingFlags(p)
	for _, n := range []string{"dirty", "include"} {
		p.Lookup(n).Hidden = true // the source stays what it was
	}
	addOutputFlags(p, &o.JSON, &o.JQ)
	return cmd
}

func runResume(ctx context.Context, cmd *cobra.Command, o *resumeOptions) error {
	c, err := o.Config()
	if err != nil {
		return err
	}
	if err := applyFlags(cmd.Flags(), c, &o.runOptions); err != nil {
		return err
	}
	p := &planned{Config: c, Output: c.String("output"), JQ: o.JQ, Bundle: o.Bundle, Keep: c.Bool("keep"), Detach: o.Detach}
	p.Screen = o.drawable() && !o.Print && o.JQ == "" && p.Output == "text"
	if err := o.goOn(ctx, p, o.Ref, o.Prompt); err != nil {
		return err
	}
	return startRun(ctx, &o.runOptions, p)
}

// goOn turns the plan into one that goes on from another run: with its task, changed by the flags
// that were given.
func (o *runOptions) goOn(ctx context.Context, p *planned, ref, prompt string) error {
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		r, err := o.findRun(ctx, runs, ref)
		if err != nil {
			return err
		}
		if !r.Status.Terminal() {
			return usagef("rivumi attach "+short(r)+" watches it; rivumi send "+short(r)+" TEXT speaks to it", "run %s is %s", short(r), r.Status)
		}
		_, task, err := replay(ctx, runs, r)
		if err != nil {
			return err
		}
		if err := o.change(p.Config, &task); err != nil {
			return err
		}
		o.extend(p.Config, r, &task)
		p.Task, p.From, p.Prompt = task, r.ID, prompt
		return contract.Validate(task, contract.Local(), contract.Rules{})
	})
}

// change puts what flags said over the task. Everything else stays as the first run had it.
func (o *runOptions) change(c *config.Config, t *contract.Task) error {
	r := resolver{c.Only(config.Flag)}
	r.text(&t.Model, "model")
	r.text(&t.FallbackModel, "fallback_model")
	r.text(&t.Effort, "effort")
	t.Name = firstOf(o.Name, t.Name)
	r.list(&t.AllowedPaths, "allowed_paths")
	r.limits(&t.Limits)
	if err := r.checks(t); err != nil {
		return err
	}
	if err := r.approval(&t.Approval); err != nil {
		return err
	}
	if o.IO.Asks() && !o.Detach && t.Approval.Unattended == contract.UnattendedDeny && c.Lookup("on_no_answer").Layer == config.Default {
		t.Approval.Unattended = contract.UnattendedWait
	}
	return r.place(o, t)
}

// extend gives a run that ended at a limit as much again, unless a flag said how much: without
// that it would end where it began.
func (o *runOptions) extend(c *config.Config, r contract.Run, t *contract.Task) {
	if r.Error == nil || r.Error.Reason == "loop" {
		return
	}
	said := func(key string) bool { return c.Lookup(key).Layer == config.Flag }
	l := &t.Limits
	switch r.Error.Code {
	case contract.FailSteps:
		if !said("limits.max_steps") {
			l.MaxSteps = min(2*l.MaxSteps, contract.Local().MaxSteps)
			o.IO.Note("goes on with a limit of %d steps in all", l.MaxSteps)
		}
	case contract.FailModelRequests:
		if !said("limits.max_calls") {
			l.MaxModelRequests *= 2
			o.IO.Note("goes on with a limit of %d model requests in all", l.ModelRequests())
		}
	case contract.FailTokens:
		if !said("limits.max_tokens") {
			l.MaxOutputTokens *= 2
			o.IO.Note("goes on with a limit of %d output tokens in all", l.MaxOutputTokens)
		}
	case contract.FailCost:
		if !said("limits.max_cost") {
			l.MaxCostUSD *= 2
			o.IO.Note("goes on with a limit of $%.2f in all", l.MaxCostUSD)
		}
	default:
	}
}
