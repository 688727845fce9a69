package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

// The sample of the demo needs nothing but git and sh: a program with a mistake and a test that
// shows it.
const (
	demoProgram = "#!/bin/sh\n# Prints the sum of two numbers.\necho $(($1 - $2))\n"
	demoTest    = `#!/bin/sh
# Fails until add.sh adds.
fail=0
check() {
	got=$(sh add.sh "$1" "$2")
	if [ "$got" = "$3" ]; then
		echo "ok    add.sh $1 $2 = $3"
	else
		echo "FAIL  add.sh $1 $2 = $got, want $3"
		fail=1
	fi
}
check 2 3 5
check 40 2 42
exit $fail
`
	demoReadme = "# A sample\n\n`sh add.sh 2 3` should print 5. `sh test.sh` says whether it does.\n"
	demoTask   = "The test fails. Find out why and fix the program."
)

// demoScript is what the built-in model says. Everything around it is the real thing.
const demoScript = `
turns:
  - text: "I'll run the test first."
    calls: [{name: bash, arguments: {command: "sh test.sh"}}]
    usage: {input: 900, output: 30}
  - text: "It subtracts. Let me look at the program."
    calls: [{name: read, arguments: {path: add.sh}}]
    usage: {input: 80, output: 25, cacheRead: 930}
  - text: "There it is."
    calls: [{name: edit, arguments: {path: add.sh, old: "$1 - $2", new: "$1 + $2"}}]
    usage: {input: 70, output: 40, cacheRead: 1030}
  - calls: [{name: bash, arguments: {command: "sh test.sh"}}]
    usage: {input: 60, output: 20, cacheRead: 1140}
  - text: "add.sh subtracted where it should add. I changed the operator, and the test passes now."
    usage: {input: 60, output: 30, cacheRead: 1220}
`

type demoOptions struct {
	*Factory
	Dir  string
	JSON bool
	JQ   string
}

func newDemoCmd(f *Factory, do func(context.Context, *demoOptions) error) *cobra.Command {
	o := &demoOptions{Factory: f}
	if do == nil {
		do = runDemo
	}
	cmd := &cobra.Command{
		Use: "demo", Short: "See the whole loop on a sample repository: no key, no network", Args: args(0, 0),
		Long: "Makes a small repository with a failing test, has the built-in model fix it in a worktree, runs the\n" +
			"check itself and asks whether to keep the result. Only the model is scripted.",
		RunE: func(c *cobra.Command, _ []string) error { return do(c.Context(), o) },
	}
	cmd.Flags().StringVar(&o.Dir, "dir", "", "make the sample in `DIR` and keep it")
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	return cmd
}

func runDemo(ctx context.Context, o *demoOptions) (err error) {
	root, mine, err := demoFolder(o.Dir)
	if err != nil {
		return err
	}
	keep := !mine
	defer func() {
		if !keep {
			err = errors.Join(err, os.RemoveAll(filepath.Dir(root)))
		}
	}()
	files := map[string]string{"add.sh": demoProgram, "test.sh": demoTest, "README.md": demoReadme}
	if err := workspace.NewRepository(ctx, root, files); err != nil {
		return err
	}
	inner := *o.Factory
	inner.Globals = Globals{Dir: root, NoProjectConfig: true}
	inner.Runs = inner.openRuns // of the sample's own state, not of the user's
	if mine {
		state := filepath.Join(filepath.Dir(root), "state")
		inner.Getenv = overlayEnv(o.Getenv, "RIVUMI_STATE_DIR", state)
	}
	o.IO.Note("made a sample repository in %s: add.sh and a test that fails", root)
	o.IO.Note("rivumi run %q --check 'sh test.sh'", demoTask)
	r, err := demoRun(ctx, &inner, o, root)
	if err != nil {
		return err
	}
	if r.Status != contract.Completed {
		return ended(r.ExitCode())
	}
	keep, err = demoKeep(ctx, &inner, r, root, mine)
	return err
}

// demoFolder gives the folder of the sample. mine says that it lies in a temporary folder made here.
func demoFolder(dir string) (root string, mine bool, err error) {
	if dir != "" {
		root, err = filepath.Abs(dir)
		return root, false, err
	}
	tmp, err := os.MkdirTemp("", "rivumi-demo-*")
	if err != nil {
		return "", false, fmt.Errorf("make the sample: %w", err)
	}
	if tmp, err = filepath.EvalSymlinks(tmp); err != nil {
		return "", false, fmt.Errorf("make the sample: %w", err)
	}
	return filepath.Join(tmp, "sample"), true, nil
}

func overlayEnv(getenv func(string) string, name, value string) func(string) string {
	return func(n string) string {
		if n == name {
			return value
		}
		return getenv(n)
	}
}

func demoRun(ctx context.Context, f *Factory, o *demoOptions, root string) (contract.Run, error) {
	c, err := f.Config()
	if err != nil {
		return contract.Run{}, err
	}
	p := &planned{Config: c, Output: "text", JQ: o.JQ, NoNext: true}
	if o.JSON || o.JQ != "" {
		p.Output = "json"
	}
	p.Task = contract.Task{
		Instruction: demoTask, Name: "demo", Model: demoModel,
		Repository: &contract.Repository{Path: root, Dirty: contract.DirtyInclude},
		Checks:     []contract.Check{{"sh", "test.sh"}},
		Limits:     contract.DefaultLimits(),
		Approval:   contract.ApprovalPolicy{Policy: contract.PolicyAllowAll, Unattended: contract.UnattendedDeny},
		Sandbox:    contract.Sandbox{Mode: contract.SandboxAuto},
	}
	var last contract.Run
	carry := &carried{f: f, p: p, begin: p.start, done: func(r contract.Run) { last = r }}
	err = carry.run(ctx)
	if fail, ok := errors.AsType[*failure](err); ok && fail.err == nil {
		err = nil // the run has told how it ended
	}
	return last, err
}

// demoKeep asks whether to keep the result. Without a terminal nothing is applied, and it says so.
func demoKeep(ctx context.Context, f *Factory, r contract.Run, root string, mine bool) (keep bool, err error) {
	where := " -C " + quoteWord(root)
	if !f.IO.Asks() {
		if mine {
			f.IO.Note("nothing was applied, as nobody is at a terminal; the sample is removed again (--dir DIR keeps it)")
			f.IO.Next(`rivumi run "what to do" --check 'your test' (in a repository of yours)`)
			return false, nil
		}
		f.IO.Note("nothing was applied, as nobody is at a terminal")
		f.IO.Next("rivumi diff"+where+" "+short(r), "rivumi apply"+where+" "+short(r))
		return true, nil
	}
	fmt.Fprintf(f.IO.Err, "rivumi: apply the patch to the sample and keep it? [y/N] ")
	answer := make([]byte, 1)
	if _, err := io.ReadFull(f.IO.In, answer); err != nil || answer[0] != 'y' && answer[0] != 'Y' {
		f.IO.Note("nothing was applied")
		f.IO.Next(`rivumi run "what to do" --check 'your test' (in a repository of yours)`)
		return !mine, nil
	}
	if err := demoApply(ctx, f, r); err != nil {
		return true, err
	}
	f.IO.Note("applied; the sample is kept in %s", root)
	f.IO.Next("cd "+quoteWord(root)+" && git diff && sh test.sh", `rivumi run "what to do" --check 'your test' (in a repository of yours)`)
	return true, nil
}

func demoApply(ctx context.Context, f *Factory, r contract.Run) error {
	return runApply(ctx, &applyOptions{Factory: f, Ref: string(r.ID)})
}
