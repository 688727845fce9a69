package cli

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

type diffOptions struct {
	*Factory
	Ref      string
	Stat     bool
	NameOnly bool
	Tool     bool
	JSON     bool
	JQ       string
}

func newDiffCmd(f *Factory, do func(context.Context, *diffOptions) error) *cobra.Command {
	o := &diffOptions{Factory: f}
	if do == nil {
		do = runDiff
	}
	cmd := &cobra.Command{
		Use: "diff RUN", Short: "Show what a run changed", Args: args(0, 1),
		Example: "  rivumi diff @last\n  rivumi diff @last --stat",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			return do(c.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.Stat, "stat", false, "only counts of lines")
	cmd.Flags().BoolVar(&o.NameOnly, "name-only", false, "only names of files")
	cmd.Flags().BoolVar(&o.Tool, "tool", false, "pipe the patch into $RIVUMI_DIFF_TOOL, or $PAGER")
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only", "tool")
	return cmd
}

// fileList is the JSON of `diff`.
type fileList struct {
	Files []contract.FileChange `json:"files"`
}

func runDiff(ctx context.Context, o *diffOptions) error {
	return o.withResult(ctx, o.Ref, func(ctx context.Context, k *kept) error {
		var files []contract.FileChange
		if k.Run.Result != nil {
			files = k.Run.Result.ChangedFiles
		}
		switch {
		case o.JSON || o.JQ != "":
			return writeJSON(o.IO.Out, fileList{append([]contract.FileChange{}, files...)}, o.JQ)
		case o.NameOnly:
			for _, f := range files {
				fmt.Fprintln(o.IO.Out, oneLine(f.Path))
			}
		case o.Stat:
			for _, f := range files {
				fmt.Fprintf(o.IO.Out, "%s %s%s\n", view.Letter(f), oneLine(f.Path), sizes(f))
			}
			fmt.Fprintln(o.IO.Out, view.Changes(files))
		default:
			patch, err := k.patch()
			if err != nil {
				return err
			}
			if err := showPatch(ctx, o, patch); err != nil {
				return err
			}
		}
		o.IO.Next("rivumi apply "+short(k.Run), "rivumi discard "+short(k.Run))
		return nil
	})
}

// showPatch writes the patch: as it is into a pipe or file, made safe to look at on a terminal.
func showPatch(ctx context.Context, o *diffOptions, patch []byte) error {
	if o.Tool {
		return pipeTo(ctx, o, patch)
	}
	if !o.IO.OutTTY {
		_, err := o.IO.Out.Write(patch)
		return err
	}
	for line := range strings.Lines(string(patch)) {
		text := clean(strings.TrimSuffix(line, "\n"))
		switch {
		case strings.HasPrefix(line, "+"):
			text = o.IO.Good(text)
		case strings.HasPrefix(line, "-"):
			text = o.IO.Bad(text)
		case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "@@"):
			text = o.IO.Bold(text)
		}
		fmt.Fprintln(o.IO.Out, text)
	}
	return nil
}

func pipeTo(ctx context.Context, o *diffOptions, patch []byte) error {
	line := firstOf(o.Getenv("RIVUMI_DIFF_TOOL"), o.Getenv("PAGER"), "less")
	argv, err := splitCheck(line)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(string(patch)), o.IO.Out, o.IO.Err
	if err := cmd.Run(); err != nil {
		return usagef("set RIVUMI_DIFF_TOOL to a program that reads a patch from stdin", "start %s: %w", argv[0], err)
	}
	return nil
}
