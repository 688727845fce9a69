package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
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
		Use: "resume RUN [PROMPT]", Short: "Go on after a crash, or with a follow-up", Args: args(0, -1),
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
	p.Bool("keep", false, "keep the worktree after the run")
	p.StringVar(&o.Bundle, "bundle", "", "`FILE` write the bundle to it at the end")
	p.StringP("output", "o", "", "`FORM` of the output: text, json, stream-json")
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
	if err := o.goOn(ctx, p, o.Ref, o.Prompt); err != nil {
		return err
	}
	return startRun(ctx, &o.runOptions, p)
}

// goOn turns the plan into one that goes on from another run.
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
		p.Task, p.From, p.Prompt = task, r.ID, prompt
		return nil
	})
}
