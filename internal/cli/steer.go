package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
)

type sendOptions struct {
	*Factory
	Ref, Text string
}

func newSendCmd(f *Factory, do func(context.Context, *sendOptions) error) *cobra.Command {
	o := &sendOptions{Factory: f}
	if do == nil {
		do = runSend
	}
	return &cobra.Command{
		Use: "send RUN TEXT", Short: "Send a message for the agent's next step", Args: args(2, -1),
		Example: `  rivumi send @last "also add a test for negative numbers"`,
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref, o.Text = a[0], strings.Join(a[1:], " ")
			return do(c.Context(), o)
		},
	}
}

func runSend(ctx context.Context, o *sendOptions) error {
	if o.Text == "-" {
		text, err := readAll(o.IO)
		if err != nil {
			return err
		}
		o.Text = text
	}
	if strings.TrimSpace(o.Text) == "" {
		return usagef(`rivumi send RUN "text"`, "the message is empty")
	}
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		r, err := o.findRun(ctx, runs, o.Ref)
		if err != nil {
			return err
		}
		if r.Status.Terminal() {
			return usagef("rivumi resume "+short(r)+" "+quoteWord(o.Text), "run %s is %s and takes no messages", short(r), r.Status)
		}
		if err := runs.Send(ctx, r.ID, o.Text); err != nil {
			return err
		}
		o.IO.Note("sent; the agent reads it before its next step")
		o.IO.Next("rivumi attach " + short(r))
		return nil
	})
}

type cancelOptions struct {
	*Factory
	Ref, Reason string
	Wait        bool
}

func newCancelCmd(f *Factory, do func(context.Context, *cancelOptions) error) *cobra.Command {
	o := &cancelOptions{Factory: f}
	if do == nil {
		do = runCancel
	}
	cmd := &cobra.Command{
		Use: "cancel RUN", Aliases: []string{"stop"}, Short: "Ask a run to stop; its work so far is kept", Args: args(0, 1),
		Example: "  rivumi cancel @last --wait",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			return do(c.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.Wait, "wait", false, "return when the run has ended")
	cmd.Flags().StringVar(&o.Reason, "reason", "", "say `WHY`")
	return cmd
}

func runCancel(ctx context.Context, o *cancelOptions) error {
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		r, err := o.findRun(ctx, runs, o.Ref)
		if err != nil {
			return err
		}
		if r.Status.Terminal() {
			o.IO.Note("run %s is %s already", short(r), r.Status)
			o.IO.Next(nextCommands(r)...)
			return nil
		}
		if err := runs.Cancel(ctx, r.ID, firstOf(o.Reason, "cancelled by "+o.who())); err != nil {
			return err
		}
		o.IO.Note("asked run %s to stop", short(r))
		if o.Wait {
			if r, err = waitEnd(ctx, runs, r); err != nil {
				return err
			}
			o.IO.Note("%s", verdictOf(r))
		}
		o.IO.Next("rivumi show "+short(r), "rivumi diff "+short(r))
		return nil
	})
}

// waitEnd follows a run to its end.
func waitEnd(ctx context.Context, runs contract.Watcher, r contract.Run) (contract.Run, error) {
	for _, err := range runs.Events(ctx, r.ID, r.LastSeq) {
		if err != nil {
			return r, err
		}
	}
	return runs.Run(ctx, r.ID)
}
