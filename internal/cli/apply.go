package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
	"github.com/rivumi/rivumi/internal/workspace"
)

type applyOptions struct {
	*Factory
	Ref        string
	Check      bool
	ThreeWay   bool
	Index      bool
	Commit     bool
	Message    string
	Branch     string
	Paths      []string
	Unverified bool
	JSON       bool
	JQ         string
}

func newApplyCmd(f *Factory, do func(context.Context, *applyOptions) error) *cobra.Command {
	o := &applyOptions{Factory: f}
	if do == nil {
		do = runApply
	}
	cmd := &cobra.Command{
		Use: "apply RUN", Short: "Bring a run's changes into your checkout, all or nothing", Args: args(0, 1),
		Example: "  rivumi apply @last\n  rivumi apply @last --check\n  rivumi apply @last --commit -m \"Fix add\"",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			return do(c.Context(), o)
		},
	}
	p := cmd.Flags()
	p.BoolVar(&o.Check, "check", false, "only look whether it applies")
	p.BoolVar(&o.ThreeWay, "3way", false, "merge where it does not apply; conflicts get markers")
	p.BoolVar(&o.Index, "index", false, "put the changes into the index too")
	p.BoolVar(&o.Commit, "commit", false, "commit them on the current branch")
	p.StringVarP(&o.Message, "message", "m", "", "`TEXT` of the commit")
	p.StringVar(&o.Branch, "branch", "", "`NAME` make a branch of the run's base and its changes instead")
	p.StringArrayVar(&o.Paths, "path", nil, "`GLOB` only files it covers (repeat)")
	p.BoolVar(&o.Unverified, "force-unverified", false, "apply although a check failed or the run did not complete")
	addOutputFlags(p, &o.JSON, &o.JQ)
	cmd.MarkFlagsMutuallyExclusive("branch", "commit")
	return cmd
}

func runApply(ctx context.Context, o *applyOptions) error {
	if o.Message != "" && !o.Commit {
		return usagef("--commit -m TEXT", "-m needs --commit")
	}
	return o.withResult(ctx, o.Ref, o.apply)
}

// apply brings a result into the checkout and tells of it.
func (o *applyOptions) apply(ctx context.Context, k *kept) error {
	if err := mayApply(k.Run, o.Unverified); err != nil {
		return err
	}
	a, err := o.plan(ctx, k)
	if err != nil {
		return err
	}
	receipt, err := workspace.Apply(ctx, a)
	if err != nil {
		return applyFailed(k.Run, err)
	}
	return o.told(k.Run, receipt)
}

// mayApply holds back what was not verified. A run without any check may be applied: it says so.
func mayApply(r contract.Run, force bool) error {
	switch {
	case !r.Status.Terminal():
		return usagef("rivumi attach "+short(r)+" watches it", "run %s is %s", short(r), r.Status)
	case r.Status == contract.Completed || force:
		return nil
	case r.Error != nil && r.Error.Code == contract.FailChecks:
		return &failure{contract.ExitChecks, fmt.Errorf("a check of run %s failed; nothing was changed", short(r)), "rivumi show " + short(r) + "; --force-unverified applies it all the same"}
	case r.Error != nil && r.Error.Code == contract.FailPaths:
		return &failure{contract.ExitPaths, fmt.Errorf("run %s changed files outside the allowed paths; nothing was changed", short(r)), "rivumi artifacts get " + short(r) + " " + contract.ArtifactRejected}
	}
	return usagef("rivumi resume "+short(r)+"; --force-unverified applies what is there", "run %s is %s and was not verified", short(r), r.Status)
}

// plan says what is applied where.
func (o *applyOptions) plan(ctx context.Context, k *kept) (workspace.ApplyOptions, error) {
	patch, err := k.patch()
	if err != nil {
		return workspace.ApplyOptions{}, err
	}
	dir, err := o.WorkDir()
	if err != nil {
		return workspace.ApplyOptions{}, err
	}
	repo, err := o.targetRepo(ctx, k, dir)
	if err != nil {
		return workspace.ApplyOptions{}, err
	}
	receipts, err := o.receiptDir(k.Run.ID)
	if err != nil {
		return workspace.ApplyOptions{}, err
	}
	a := workspace.ApplyOptions{
		Repo: repo, Patch: patch, Paths: o.Paths, Dir: nextReceipt(receipts),
		Check: o.Check, ThreeWay: o.ThreeWay, Index: o.Index, Branch: o.Branch, Base: k.Run.BaseSHA,
	}
	if o.Commit {
		a.Commit = firstOf(o.Message, commitMessage(k.Run))
	}
	if k.local != nil {
		if ws, err := workspace.Reopen(ctx, k.local.workspaceDir(k.Run.ID)); err == nil {
			a.Objects = ws.Objects() // lets a three-way merge know the tree the run started from
		}
	}
	return a, nil
}

// targetRepo is the checkout around the working folder; outside of one it is where the run was started.
func (o *applyOptions) targetRepo(ctx context.Context, k *kept, dir string) (*workspace.Repo, error) {
	if repositoryRoot(dir) == "" && k.Run.Repository != "" {
		dir = k.Run.Repository
	}
	repo, err := workspace.Discover(ctx, dir)
	if err != nil {
		return nil, usagef("go into the repository, or use -C DIR", "%w", err)
	}
	if k.Run.Repository != "" && repo.Root() != k.Run.Repository {
		o.IO.Note("the run was made in %s; applying to %s", k.Run.Repository, repo.Root())
	}
	return repo, nil
}

// receiptDir is where the receipts of a run's applies are kept.
func (f *Factory) receiptDir(id contract.RunID) (string, error) {
	state, err := f.StateDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(state, "applied", string(id))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of receipts: %w", err)
	}
	return dir, nil
}

// receiptNumbers lists the applies of a run, oldest first.
func receiptNumbers(dir string) []int {
	names, _ := os.ReadDir(dir)
	var out []int
	for _, n := range names {
		if i, err := strconv.Atoi(n.Name()); err == nil {
			out = append(out, i)
		}
	}
	return sortedInts(out)
}

func nextReceipt(dir string) string {
	numbers := receiptNumbers(dir)
	next := 1
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	return filepath.Join(dir, strconv.Itoa(next))
}

func commitMessage(r contract.Run) string {
	title := oneLine(r.Instruction)
	if i := strings.IndexAny(r.Instruction, "\n"); i > 0 {
		title = oneLine(r.Instruction[:i])
	}
	return clip(firstOf(title, "Apply run "+short(r)), 72) + "\n\nRivumi-Run: " + string(r.ID) + "\n"
}

// applyFailed gives a conflict its exit code and its way out.
func applyFailed(r contract.Run, err error) error {
	if contract.KindOf(err) == contract.KindConflict {
		return &failure{contract.ExitConflict, err, "rivumi apply " + short(r) + " --3way merges and leaves markers; --branch NAME puts it beside your work"}
	}
	return err
}

func (o *applyOptions) told(r contract.Run, receipt workspace.Receipt) error {
	if o.JSON || o.JQ != "" {
		return writeJSON(o.IO.Out, receipt, o.JQ)
	}
	switch receipt.State {
	case workspace.ReceiptAlready:
		fmt.Fprintf(o.IO.Out, "already applied: nothing was changed\n")
		return nil
	case workspace.ReceiptChecked:
		fmt.Fprintf(o.IO.Out, "it applies: %s\n", files(len(receipt.Files)))
		tellLater(o.IO, receipt)
		o.IO.Next("rivumi apply " + short(r))
		return nil
	}
	what := "applied " + files(len(receipt.Files))
	if receipt.Branch != "" {
		what = "made branch " + clean(receipt.Branch)
	} else if receipt.Commit != "" {
		what = "committed " + clean(view.Commit(receipt.Commit)) + ", " + files(len(receipt.Files))
	}
	fmt.Fprintln(o.IO.Out, what)
	for _, f := range receipt.Files {
		fmt.Fprintf(o.IO.Out, "  %s\n", oneLine(f.Path))
	}
	for _, p := range receipt.Conflicts {
		fmt.Fprintf(o.IO.Out, "  conflict markers in %s\n", oneLine(p))
	}
	tellLater(o.IO, receipt)
	if len(receipt.Skipped) > 0 {
		o.IO.Note("left out by --path: %s", oneLine(strings.Join(receipt.Skipped, ", ")))
	}
	next := []string{"git diff", "rivumi undo " + short(r)}
	if receipt.Commit != "" {
		next = []string{"git show " + clean(view.Commit(receipt.Commit)), "git revert " + clean(view.Commit(receipt.Commit))}
	}
	o.IO.Next(next...)
	return nil
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// tellLater names the files among the changes that other programs will run.
func tellLater(s *IO, r workspace.Receipt) {
	for _, p := range r.CodeLater {
		s.Warn("%s is run by other programs later; look at it before you go on", oneLine(p))
	}
}
