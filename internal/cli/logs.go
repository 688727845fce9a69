package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

type logsOptions struct {
	*Factory
	Ref    string
	Follow bool
	Since  int64
	Types  []string
	JSON   bool
	JQ     string
}

func newLogsCmd(f *Factory, do func(context.Context, *logsOptions) error) *cobra.Command {
	o := &logsOptions{Factory: f}
	if do == nil {
		do = runLogs
	}
	cmd := &cobra.Command{
		Use: "logs RUN", Short: "Print a run's event log", Args: args(0, 1),
		Example: "  rivumi logs @last\n  rivumi logs @last -f --json",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			return do(c.Context(), o)
		},
	}
	p := cmd.Flags()
	p.BoolVarP(&o.Follow, "follow", "f", false, "go on until the run ends")
	p.Int64Var(&o.Since, "since", 0, "only events after number `SEQ`")
	p.StringArrayVar(&o.Types, "type", nil, "only events of `TYPE` (repeat)")
	addOutputFlags(p, &o.JSON, &o.JQ)
	return cmd
}

func runLogs(ctx context.Context, o *logsOptions) error {
	if o.Since < 0 {
		return usagef("numbers of events start at 1", "--since must not be negative")
	}
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		r, err := o.findRun(ctx, runs, o.Ref)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(o.IO.Out)
		defer out.Flush()
		if !o.Follow && o.Since >= r.LastSeq {
			return nil
		}
		for e, err := range runs.Events(ctx, r.ID, o.Since) {
			if err != nil {
				return err
			}
			if err := writeEvent(out, o, e); err != nil {
				return err
			}
			if o.Follow {
				out.Flush()
			} else if e.Seq >= r.LastSeq {
				break
			}
		}
		out.Flush()
		o.IO.Next("rivumi show "+short(r), "rivumi attach "+short(r))
		return nil
	})
}

func writeEvent(w io.Writer, o *logsOptions, e contract.Event) error {
	if len(o.Types) > 0 && !slices.Contains(o.Types, string(e.Type)) {
		return nil
	}
	if o.JQ != "" {
		return writeJSON(w, e, o.JQ)
	}
	if o.JSON {
		line, err := e.Encode()
		if err != nil {
			return fmt.Errorf("write event %d: %w", e.Seq, err)
		}
		_, err = fmt.Fprintf(w, "%s\n", line)
		return err
	}
	_, err := fmt.Fprintf(w, "%6d  %s  %-20s %s\n", e.Seq, e.Time.UTC().Format(time.TimeOnly), e.Type, clip(view.Brief(e), 160))
	return err
}
