package cli

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/runner"
)

type verifyOptions struct {
	*Factory
	Ref     string
	NoRerun bool
	Foreign bool
	JSON    bool
	JQ      string
}

func newVerifyCmd(f *Factory, do func(context.Context, *verifyOptions) error) *cobra.Command {
	o := &verifyOptions{Factory: f}
	if do == nil {
		do = runVerify
	}
	cmd := &cobra.Command{
		Use: "verify RUN|BUNDLE", Short: "Prove a result again: digests, signature, log, patch and checks", Args: args(0, 1),
		Long: "Checks the digests, the signature and the chain of the log, applies the patch to the base in a tree of\n" +
			"its own, compares the resulting tree, and runs the checks on it. Nothing is asked of a network. The checks\n" +
			"of a bundle that another machine signed are commands of its maker's: they run only with --foreign.",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			return do(c.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.NoRerun, "no-rerun", false, "only check the bundle itself")
	cmd.Flags().BoolVar(&o.Foreign, "foreign", false, "run the checks of a bundle that this machine did not sign, too")
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	return cmd
}

// verification is the JSON of `verify`.
type verification struct {
	OK bool `json:"ok"`
	*runner.Verification
}

func runVerify(ctx context.Context, o *verifyOptions) error {
	return o.withResult(ctx, o.Ref, func(ctx context.Context, k *kept) error {
		if !k.Run.Status.Terminal() {
			return usagef("rivumi attach "+short(k.Run)+" watches it", "run %s is %s and has no bundle yet", short(k.Run), k.Run.Status)
		}
		v, err := o.prove(ctx, k)
		if err != nil {
			return err
		}
		if err := o.tell(k.Run, v); err != nil {
			return err
		}
		return ended(verdictCode(v))
	})
}

// verdictCode: a failing check is what it is for a run, everything else that is wrong is a failure.
func verdictCode(v *runner.Verification) int {
	for _, c := range v.Checks {
		if c.ExitCode != 0 || c.TimedOut {
			return contract.ExitChecks
		}
	}
	if !v.OK() {
		return contract.ExitFailed
	}
	return contract.ExitOK
}

// ownKeys are the keys this machine signs with.
func (o *verifyOptions) ownKeys() []ed25519.PublicKey {
	dir, err := o.StateDir()
	if err != nil {
		return nil
	}
	signer, err := bundle.OpenSigner(dir)
	if err != nil {
		return nil
	}
	return []ed25519.PublicKey{signer.Public()}
}

// prove looks at the bundle and, unless that is not wanted, lays the result down anew and runs the
// checks on it.
func (o *verifyOptions) prove(ctx context.Context, k *kept) (v *runner.Verification, err error) {
	notOne := func(err error) error {
		return usagef("rivumi artifacts "+short(k.Run), "read bundle: %w", err)
	}
	report, err := bundle.Check(k.Files, o.ownKeys()...)
	if err != nil {
		return nil, notOne(err)
	}
	if o.NoRerun || !report.OK() {
		v := &runner.Verification{Bundle: report, Checks: []runner.VerifiedCheck{}, Problems: []string{}}
		for _, f := range report.Findings {
			if !f.Note {
				v.Problems = append(v.Problems, oneLine(f.Artifact+": "+f.Detail))
			}
		}
		return v, nil
	}
	tmp, err := os.MkdirTemp("", "rivumi-verify-*")
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	j, err := o.job(k, report.Trusted, filepath.Join(tmp, "work"))
	if err != nil {
		return nil, err
	}
	v, err = runner.New(runner.Config{Sandbox: o.place}).Verify(ctx, j)
	if contract.KindOf(err) == contract.KindNotFound {
		return nil, usagef("go into the repository, or --no-rerun", "%w", err)
	}
	return v, err
}

// job says what is verified where. How a foreign bundle's commands are contained is this machine's
// decision, not its maker's.
func (o *verifyOptions) job(k *kept, trusted bool, dir string) (runner.VerifyJob, error) {
	task, err := k.task()
	if err != nil {
		return runner.VerifyJob{}, err
	}
	repo, err := o.WorkDir()
	if err != nil {
		return runner.VerifyJob{}, err
	}
	if repositoryRoot(repo) == "" && k.Run.Repository != "" {
		repo = k.Run.Repository
	}
	j := runner.VerifyJob{
		Bundle: k.Files, Repository: repo, Dir: dir, Keys: o.ownKeys(), Foreign: o.Foreign,
		Sandbox: task.Sandbox, Checks: task.Checks, CheckSeconds: task.Limits.WallTimeSeconds,
	}
	if !trusted {
		c, err := o.Config()
		if err != nil {
			return runner.VerifyJob{}, err
		}
		j.Sandbox = contract.Sandbox{Mode: contract.SandboxMode(c.String("sandbox"))}
	}
	if k.local != nil {
		j.Kept = k.local.workspaceDir(k.Run.ID)
	}
	return j, nil
}

func (o *verifyOptions) tell(r contract.Run, v *runner.Verification) error {
	if o.JSON || o.JQ != "" {
		return writeJSON(o.IO.Out, verification{verdictCode(v) == contract.ExitOK, v}, o.JQ)
	}
	w := o.IO.Out
	fmt.Fprintf(w, "run       %s, %s\n", r.ID, verdictOf(r))
	signed := "not signed"
	if v.Bundle.Signed {
		signed = "signed by another key"
		if v.Bundle.Trusted {
			signed = "signed by this machine"
		}
	}
	fmt.Fprintf(w, "bundle    %s, log of %d events, %s\n", okText(v.Bundle.OK()), v.Bundle.Chain.Events, signed)
	for _, f := range v.Bundle.Findings {
		fmt.Fprintf(w, "          %s: %s\n", oneLine(f.Artifact), oneLine(f.Detail))
	}
	if !o.NoRerun && v.Bundle.OK() {
		fmt.Fprintf(w, "applied   %s\n", appliedText(v))
	}
	for _, c := range v.Checks {
		word := "passed"
		if c.ExitCode != 0 || c.TimedOut {
			word = fmt.Sprintf("failed, exit %d", c.ExitCode)
		}
		fmt.Fprintf(w, "check     %s: %s\n", oneLine(quoteArgv(c.Argv)), word)
	}
	for _, p := range v.Problems {
		if v.Bundle.OK() { // else they are the findings above
			fmt.Fprintf(w, "problem   %s\n", oneLine(p))
		}
	}
	if !v.Bundle.Trusted && !o.Foreign && !o.NoRerun && v.Applies && len(v.Checks) == 0 {
		o.IO.Note("--foreign runs its checks here, in the sandbox of your settings")
	}
	o.IO.Next("rivumi apply " + short(r))
	return nil
}

func appliedText(v *runner.Verification) string {
	switch {
	case v.Same:
		return "yes"
	case v.Applies:
		return "to another tree than the manifest names"
	}
	return "no"
}

func okText(ok bool) string {
	if ok {
		return "whole"
	}
	return "NOT whole"
}
