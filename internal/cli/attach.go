package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
)

type attachOptions struct {
	*Factory
	Ref     string
	From    int64
	NoInput bool
	Print   bool
	JSON    bool
	JQ      string
}

func newAttachCmd(f *Factory, do func(context.Context, *attachOptions) error) *cobra.Command {
	o := &attachOptions{Factory: f}
	if do == nil {
		do = runAttach
	}
	cmd := &cobra.Command{
		Use: "attach RUN", Short: "Watch a run and answer its approvals", Args: args(0, 1),
		Example: "  rivumi attach @last\n  rivumi attach @last --no-input --from 120",
		Long: "Shows a run from its start, or from --from, and follows it to its end. The exit code is the run's.\n" +
			"Leaving by Ctrl-C does not stop the run; rivumi cancel does.",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			return do(c.Context(), o)
		},
	}
	cmd.Flags().Int64Var(&o.From, "from", 0, "show only what comes after event `SEQ`")
	cmd.Flags().BoolVar(&o.NoInput, "no-input", false, "only watch")
	cmd.Flags().BoolVarP(&o.Print, "print", "p", false, "plain lines even on a terminal")
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	return cmd
}

func runAttach(ctx context.Context, o *attachOptions) error {
	if o.From < 0 {
		return usagef("numbers of events start at 1", "--from must not be negative")
	}
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		r, err := o.findRun(ctx, runs, o.Ref)
		if err != nil {
			return err
		}
		if o.drawable() && !o.Print && !o.JSON && o.JQ == "" && !o.NoInput {
			s := newStage(o.Factory)
			defer s.close()
			s.runs = runs
			return s.attach(ctx, r.ID, o.From)
		}
		p := newPrinter(o.IO)
		w := &watcher{f: o.Factory, runs: runs, id: r.ID, asks: o.IO.Asks() && !o.NoInput, show: o.shower(p)}
		verify := newChain(o.From)
		show := w.show
		w.show = func(e contract.Event) error {
			if err := verify.next(e); err != nil {
				return err
			}
			return show(e)
		}
		if err := w.follow(ctx, o.From); err != nil {
			if ctx.Err() != nil {
				o.IO.Note("left; the run goes on")
				o.IO.Next("rivumi attach "+short(r), "rivumi cancel "+short(r))
			}
			return err
		}
		if r, err = runs.Run(ctx, r.ID); err != nil {
			return err
		}
		if !o.JSON && o.JQ == "" {
			writeSummary(o.IO.Out, r, o.IO.Quiet)
		}
		o.IO.Next(nextCommands(r)...)
		return ended(r.ExitCode())
	})
}

// shower prints events as lines, or as JSON on stdout.
func (o *attachOptions) shower(p *printer) func(contract.Event) error {
	if !o.JSON && o.JQ == "" {
		return func(e contract.Event) error {
			p.event(e)
			return nil
		}
	}
	return func(e contract.Event) error { return streamEvent(o.IO, e, o.JQ) }
}

// streamEvent writes an event as its stored line.
func streamEvent(s *IO, e contract.Event, jq string) error {
	if jq != "" {
		return writeJSON(s.Out, e, jq)
	}
	line, err := e.Encode()
	if err != nil {
		return fmt.Errorf("write event %d: %w", e.Seq, err)
	}
	_, err = fmt.Fprintf(s.Out, "%s\n", line)
	return err
}

// chain checks that the events of a log follow each other without a gap, by number and by hash.
type chain struct {
	seq  int64
	hash string
	seen bool
}

func newChain(after int64) *chain { return &chain{seq: after} }

func (c *chain) next(e contract.Event) error {
	if e.Type == contract.TypeLogGap {
		c.seen, c.seq = false, e.Seq
		return nil
	}
	if e.Seq != c.seq+1 || c.seen && e.Prev != c.hash {
		return fmt.Errorf("the log is not whole: event %d does not follow event %d", e.Seq, c.seq)
	}
	line, err := e.Encode()
	if err != nil {
		return fmt.Errorf("check event %d: %w", e.Seq, err)
	}
	c.seq, c.hash, c.seen = e.Seq, contract.ChainHash(line), true
	return nil
}
