package cli

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/view"
	"github.com/rivumi/rivumi/internal/workspace"
)

type verifyOptions struct {
	*Factory
	Ref     string
	NoRerun bool
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
			"its own, compares the resulting tree, and runs the checks on it. Nothing is asked of a network.",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			return do(c.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.NoRerun, "no-rerun", false, "only check the bundle itself")
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	return cmd
}

// verification is the JSON of `verify`.
type verification struct {
	OK      bool                   `json:"ok"`
	Bundle  *bundle.Report         `json:"bundle"`
	Applied string                 `json:"applied"` // yes, no, or why it could not be tried
	Checks  []contract.CheckResult `json:"checks"`
}

func runVerify(ctx context.Context, o *verifyOptions) error {
	return o.withResult(ctx, o.Ref, func(ctx context.Context, k *kept) error {
		if !k.Run.Status.Terminal() {
			return usagef("rivumi attach "+short(k.Run)+" watches it", "run %s is %s and has no bundle yet", short(k.Run), k.Run.Status)
		}
		v := verification{Applied: "not asked", Checks: []contract.CheckResult{}}
		var err error
		if v.Bundle, err = bundle.Check(k.Files, o.ownKeys()...); err != nil {
			return usagef("rivumi artifacts "+short(k.Run), "read bundle: %w", err)
		}
		v.OK = v.Bundle.OK()
		if !o.NoRerun && v.OK {
			if err := o.rerun(ctx, k, &v); err != nil {
				return err
			}
		}
		if err := o.tell(k.Run, v); err != nil {
			return err
		}
		return ended(v.exitCode())
	})
}

// exitCode: a failing check is what it is for a run, everything else that is wrong is a failure.
func (v verification) exitCode() int {
	for _, c := range v.Checks {
		if !c.Passed {
			return contract.ExitChecks
		}
	}
	if !v.OK {
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

// rerun lays the result down anew and runs the checks on it.
func (o *verifyOptions) rerun(ctx context.Context, k *kept, v *verification) (err error) {
	tmp, err := os.MkdirTemp("", "rivumi-verify-*")
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	ws, snap, why, err := o.lay(ctx, k, v.Bundle.Manifest, tmp)
	if err != nil {
		return err
	}
	if v.Applied = why; why != "" {
		v.OK = false
		return nil
	}
	v.Applied = "yes"
	if snap.FinalTree != v.Bundle.Manifest.FinalTree {
		v.Applied, v.OK = "the patch leads to another tree than the manifest names", false
		return nil
	}
	task, err := k.task()
	if err != nil || len(task.Checks) == 0 {
		return err
	}
	tree := filepath.Join(tmp, "tree")
	if err := ws.Checkout(ctx, snap, tree); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	v.Checks, err = o.runChecks(ctx, task, tree, filepath.Join(tmp, "scratch"))
	return err
}

// lay makes a tree of the base plus the patch. why says what kept it from being tried.
func (o *verifyOptions) lay(ctx context.Context, k *kept, m bundle.Manifest, tmp string) (ws *workspace.Workspace, snap workspace.Snapshot, why string, err error) {
	dir, err := o.WorkDir()
	if err != nil {
		return nil, snap, "", err
	}
	if repositoryRoot(dir) == "" && k.Run.Repository != "" {
		dir = k.Run.Repository
	}
	repo, err := workspace.Discover(ctx, dir)
	if err != nil {
		return nil, snap, "", usagef("go into the repository, or --no-rerun", "%w", err)
	}
	_, tree, err := repo.Resolve(ctx, m.BaseSHA)
	if err != nil {
		return nil, snap, "commit " + clean(view.Commit(m.BaseSHA)) + " is not in this repository", nil
	}
	if tree != m.BaseTree {
		return o.layKept(ctx, k, m)
	}
	patch, err := k.patch()
	if err != nil {
		return nil, snap, "", err
	}
	ws, err = workspace.Create(ctx, workspace.Options{Repo: repo, Base: m.BaseSHA, Dirty: contract.DirtyExclude, Dir: filepath.Join(tmp, "workspace")})
	if err != nil {
		return nil, snap, "", fmt.Errorf("verify: %w", err)
	}
	inner, err := workspace.Discover(ctx, ws.Tree())
	if err != nil {
		return nil, snap, "", fmt.Errorf("verify: %w", err)
	}
	if len(patch) > 0 {
		if _, err := workspace.Apply(ctx, workspace.ApplyOptions{Repo: inner, Patch: patch, Dir: filepath.Join(tmp, "receipt")}); err != nil {
			return nil, snap, oneLine("the patch does not apply to its base: " + err.Error()), nil
		}
	}
	snap, err = ws.Snapshot(ctx)
	return ws, snap, "", err
}

// layKept uses the worktree of a run that started from uncommitted work: its base is nowhere else.
func (o *verifyOptions) layKept(ctx context.Context, k *kept, m bundle.Manifest) (*workspace.Workspace, workspace.Snapshot, string, error) {
	gone := "the run started from uncommitted work, which is not in the bundle"
	if k.local == nil {
		return nil, workspace.Snapshot{}, gone, nil
	}
	ws, err := workspace.Reopen(ctx, k.local.workspaceDir(k.Run.ID))
	if err != nil {
		return nil, workspace.Snapshot{}, gone, nil
	}
	snap, err := ws.Snapshot(ctx)
	if err == nil && snap.BaseTree != m.BaseTree {
		return nil, snap, gone, nil
	}
	return ws, snap, "", err
}

func (o *verifyOptions) runChecks(ctx context.Context, task contract.Task, tree, scratch string) ([]contract.CheckResult, error) {
	place, err := o.place(ctx, task)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	s, err := place.Opener.Open(ctx, sandbox.Spec{
		Tree: tree, Scratch: scratch, Env: sandbox.BaseEnv(scratch, task.Sandbox.Env), Hosts: task.Network.Hosts, MinTier: sandbox.Tier(task.Sandbox.MinTier),
	})
	if err != nil {
		return nil, err
	}
	out := []contract.CheckResult{}
	for _, c := range task.Checks {
		exit, rerr := s.Run(ctx, sandbox.Command{Argv: c, Timeout: time.Duration(task.Limits.WallTimeSeconds) * time.Second}, sandbox.Output{})
		if rerr != nil && exit.Code == 0 {
			exit.Code = 127
		}
		out = append(out, contract.CheckResult{
			Argv: c, ExitCode: exit.Code, DurationMS: exit.Duration.Milliseconds(), Passed: rerr == nil && exit.Code == 0, TimedOut: exit.TimedOut, Phase: "verify",
		})
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return out, errors.Join(err, s.Close(cctx))
}

func (o *verifyOptions) tell(r contract.Run, v verification) error {
	if o.JSON || o.JQ != "" {
		return writeJSON(o.IO.Out, v, o.JQ)
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
	fmt.Fprintf(w, "applied   %s\n", v.Applied)
	for _, c := range v.Checks {
		word := "passed"
		if !c.Passed {
			word = fmt.Sprintf("failed, exit %d", c.ExitCode)
		}
		fmt.Fprintf(w, "check     %s: %s, %s\n", oneLine(quoteArgv(c.Argv)), word, view.Length(time.Duration(c.DurationMS)*time.Millisecond))
	}
	o.IO.Next("rivumi apply " + short(r))
	return nil
}

func okText(ok bool) string {
	if ok {
		return "whole"
	}
	return "NOT whole"
}
