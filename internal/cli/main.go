package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
)

// Main runs the program with the process's arguments and streams and gives its exit code.
func Main(ctx context.Context, version string) int {
	f := NewFactory(version)
	return Run(ctx, f, os.Args[1:])
}

// Run executes one command line. Commands that do not watch signals themselves are cancelled by
// the first interrupt.
func Run(ctx context.Context, f *Factory, args []string) int {
	root := newRootCmd(f)
	root.SetArgs(args)
	root.SetContext(ctx)
	cmd, err := root.ExecuteC()
	if err == nil {
		return contract.ExitOK
	}
	err = asUsage(cmd, err)
	lastRecord(f, cmd, err)
	report(f.IO.Err, err)
	return exitCode(err)
}

// asUsage gives cobra's own refusals of arguments their exit code and hint.
func asUsage(cmd *cobra.Command, err error) error {
	var f *failure
	if errors.As(err, &f) {
		return err
	}
	text := err.Error()
	for _, start := range []string{"unknown command", "accepts ", "requires ", "unknown flag", "invalid argument", "required flag", "if any flags in the group"} {
		if strings.HasPrefix(text, start) {
			return &failure{contract.ExitUsage, err, cmd.CommandPath() + " --help"}
		}
	}
	return err
}

// interruptible cancels the context of a command at the first interrupt.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}
