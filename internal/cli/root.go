package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
)

// newRootCmd builds the whole command tree. Building it opens and reads nothing.
func newRootCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rivumi [PROMPT]",
		Short: "Run a coding agent in a disposable worktree, check its work, apply it",
		Long: "rivumi runs a coding agent in a disposable worktree of this repository, runs the checks itself,\n" +
			"and leaves a bundle you can look at, apply, undo or throw away. Nothing touches your checkout\n" +
			"until you apply.",
		Example: "  rivumi demo\n" +
			"  rivumi run \"fix the failing test\" --check 'go test ./...'\n" +
			"  rivumi diff @last && rivumi apply @last",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		Version:       f.Version,
	}
	cmd.SetVersionTemplate("rivumi {{.Version}}\n")
	cmd.SetOut(f.IO.Out)
	cmd.SetErr(f.IO.Err)
	cmd.SetIn(f.IO.In)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef(c.CommandPath()+" --help", "%w", err)
	})
	addGlobals(cmd, f)
	cmd.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return f.start(c) }
	addGroups(cmd, f)
	addHelpTopics(cmd, f)
	bareRun(cmd, f)
	return cmd
}

func addGlobals(cmd *cobra.Command, f *Factory) {
	g, p := &f.Globals, cmd.PersistentFlags()
	p.StringVarP(&g.Dir, "cd", "C", "", "work in `DIR`")
	p.StringVar(&g.Profile, "profile", "", "use the settings of profile `NAME`")
	p.StringArrayVar(&g.Sets, "set", nil, "set one setting, `KEY=VALUE`")
	p.StringVar(&g.ConfigFile, "config", "", "read `FILE` instead of the user's settings")
	p.BoolVar(&g.NoProjectConfig, "no-project-config", false, "leave the repository's settings out")
	p.BoolVar(&g.Debug, "debug", false, "say more on stderr")
	p.StringVar(&g.LogFile, "log-file", "", "write debug messages to `FILE`")
	p.StringVar(&g.Color, "color", "", "`WHEN` colour: auto, always or never")
	p.BoolVar(&g.Accessible, "accessible", false, "plain lines and prompts in place of the full screen, for screen readers")
	p.BoolVarP(&g.Quiet, "quiet", "q", false, "no progress on stderr")
}

// start applies the global flags before a command runs.
func (f *Factory) start(cmd *cobra.Command) error {
	switch f.Globals.Color {
	case "", "auto", "always", "never":
	default:
		return usagef("--color auto, always or never", "--color %q is not known", f.Globals.Color)
	}
	if f.Globals.Color != "" {
		f.IO.setColor(f.Globals.Color, f.Getenv)
	}
	f.IO.Quiet = f.IO.Quiet || f.Globals.Quiet
	return nil
}

// addGroups adds every command under the heading it is listed by.
func addGroups(cmd *cobra.Command, f *Factory) {
	cmd.AddGroup(
		&cobra.Group{ID: "work", Title: "Work:"},
		&cobra.Group{ID: "watch", Title: "Watch and steer:"},
		&cobra.Group{ID: "result", Title: "Use the result:"},
		&cobra.Group{ID: "setup", Title: "Set up:"},
	)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			cmd.AddCommand(c)
		}
	}
	add("work", newRunCmd(f, nil), newResumeCmd(f, nil), newDemoCmd(f, nil), newInitCmd(f, nil))
	add("watch", newPsCmd(f, nil), newShowCmd(f, nil), newAttachCmd(f, nil), newLogsCmd(f, nil),
		newApproveCmd(f, nil), newSendCmd(f, nil), newCancelCmd(f, nil))
	add("result", newDiffCmd(f, nil), newApplyCmd(f, nil), newUndoCmd(f, nil), newDiscardCmd(f, nil), newPruneCmd(f, nil),
		newArtifactsCmd(f), newVerifyCmd(f, nil), newExportCmd(f, nil), newImportCmd(f, nil))
	add("setup", newServeCmd(f, nil), newLoginCmd(f, nil), newLogoutCmd(f), newAuthCmd(f), newModelsCmd(f, nil), newConfigCmd(f), newDoctorCmd(f, nil), newCompletionCmd(f), newVersionCmd(f))
	cmd.AddCommand(newManCmd(f), newCarryCmd(f), newWorkerCmd(f))
}

// bareRun makes `rivumi PROMPT` the same as `rivumi run PROMPT`. A single word is taken for a
// mistyped command, never for a task: a typo must not start an agent.
func bareRun(cmd *cobra.Command, f *Factory) {
	o := &runOptions{Factory: f}
	addRunFlags(cmd, o)
	hideFlags(cmd)
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 && !anyRunFlag(c) && f.IO.InTTY {
			if f.drawable() && inRepository(f) {
				return blank(c.Context(), c.Flags(), o)
			}
			return c.Help()
		}
		if len(args) == 1 && !strings.ContainsAny(args[0], " \t\n") && args[0] != "-" {
			return unknownCommand(c, args[0])
		}
		return runRun(c.Context(), c, o, args)
	}
}

func unknownCommand(c *cobra.Command, word string) error {
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, append([]string{sub.Name()}, sub.Aliases...)...)
		}
	}
	if near := contract.Nearest(word, names); near != "" {
		return usagef("did you mean rivumi "+near+"?", "unknown command %q", word)
	}
	return usagef("rivumi run "+quoteWord(word)+" starts a run with that task", "unknown command %q", word)
}

func anyRunFlag(c *cobra.Command) bool {
	return slices.ContainsFunc(runFlagNames(), func(n string) bool {
		fl := c.Flags().Lookup(n)
		return fl != nil && fl.Changed
	})
}

// args gives cobra argument rules an exit code and a hint that names the command's use.
func args(min, max int) cobra.PositionalArgs {
	return func(c *cobra.Command, a []string) error {
		if len(a) < min || max >= 0 && len(a) > max {
			return usagef(c.CommandPath()+" --help", "usage: %s", c.UseLine())
		}
		return nil
	}
}

// withRuns opens the runs, hands them to do and closes them.
func (f *Factory) withRuns(ctx context.Context, do func(context.Context, *Runs) error) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	runs, err := f.Runs(ctx)
	if err != nil {
		return err
	}
	err = do(ctx, runs)
	if cerr := runs.Close(); err == nil {
		err = cerr
	}
	return err
}
