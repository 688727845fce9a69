package runner

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

// VerifyJob is a bundle to be verified against the repository it was made from.
type VerifyJob struct {
	Bundle     fs.FS
	Repository string // path of a checkout that has the base commit; it is only read
	Dir        string // a folder for the work, empty or not there yet; it is gone afterwards
	Keys       []ed25519.PublicKey
	Sandbox    contract.Sandbox // for the checks; they get no network
	// Foreign runs the checks of a bundle that none of Keys signed, too: its argv and its patch are
	// whatever its maker wrote. Without it such checks are not run, and the verification fails.
	Foreign bool
	// CheckSeconds bounds each check; 0 is 600.
	CheckSeconds int
	// Kept is the folder of the run's own workspace, "" for none. It is looked at, and not changed, where the
	// base cannot be made again: the run began with uncommitted work that is nowhere else.
	Kept string
	// Checks are run where the bundle records none: the run did not get that far.
	Checks []contract.Check
}

// Verification is what verifying a bundle found.
type Verification struct {
	Bundle  *bundle.Report  `json:"bundle"`
	Applies bool            `json:"applies"` // the patch applies to the base
	Tree    string          `json:"tree,omitempty"`
	Same    bool            `json:"same"` // Tree is the final tree of the manifest
	Checks  []VerifiedCheck `json:"checks"`
	// Problems are all reasons why the bundle does not hold, in words.
	Problems []string `json:"problems"`
}

// VerifiedCheck is a check of the run and how it went again.
type VerifiedCheck struct {
	Argv     contract.Check `json:"argv"`
	Recorded int            `json:"recordedExitCode"` // -1: the run did not get to it
	ExitCode int            `json:"exitCode"`
	TimedOut bool           `json:"timedOut,omitempty"`
	Same     bool           `json:"same"` // passed then and now, or failed then and now
	Tail     string         `json:"tail,omitempty"`
}

// OK reports whether everything holds.
func (v *Verification) OK() bool { return len(v.Problems) == 0 }

func (v *Verification) problem(format string, args ...any) {
	v.Problems = append(v.Problems, oneLine(fmt.Sprintf(format, args...)))
}

// Verify looks whether a bundle is whole, applies its patch to its base in a clean tree, compares the
// tree with the manifest's and runs the recorded checks again, without network. What does not hold is
// in the report; the error is for what kept it from looking.
func (r *Runner) Verify(ctx context.Context, j VerifyJob) (_ *Verification, err error) {
	v := &Verification{Checks: []VerifiedCheck{}, Problems: []string{}}
	if v.Bundle, err = bundle.Check(j.Bundle, j.Keys...); err != nil {
		return nil, err
	}
	for _, f := range v.Bundle.Findings {
		if !f.Note {
			v.problem("%s: %s: %s", f.Artifact, f.Code, f.Detail)
		}
	}
	m := v.Bundle.Manifest
	patch, err := fs.ReadFile(j.Bundle, contract.ArtifactPatch)
	if errors.Is(err, fs.ErrNotExist) {
		v.problem("there is no patch to apply")
		return v, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the patch: %w", err)
	}
	defer func() { err = errors.Join(err, removeAll(j.Dir)) }()
	ws, err := rebuild(ctx, rebuilt{repository: j.Repository, base: m.BaseSHA, tree: m.BaseTree, patch: patch, dir: j.Dir})
	if s, ok := errors.AsType[*stopped](err); ok {
		if ws = keptTree(ctx, j.Kept, m, patch); ws == nil {
			v.problem("%s", s.Message)
			return v, nil
		}
	} else if err != nil {
		return nil, err
	} else {
		defer func() { err = errors.Join(err, ws.Remove(context.WithoutCancel(ctx))) }()
	}
	v.Applies = true
	snap, err := ws.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("take the tree: %w", err)
	}
	if v.Tree, v.Same = snap.FinalTree, snap.FinalTree == m.FinalTree; !v.Same {
		v.problem("the patch leads to tree %s, the manifest says %s", v.Tree, m.FinalTree)
		return v, nil
	}
	return v, r.verifyChecks(ctx, v, j, ws, snap)
}

// keptTree gives the run's own workspace where it still proves the patch: made again from it, base, patch and
// result are those of the bundle. Nil where it does not.
func keptTree(ctx context.Context, dir string, m bundle.Manifest, patch []byte) *workspace.Workspace {
	if dir == "" {
		return nil
	}
	ws, err := workspace.Reopen(ctx, dir)
	if err != nil {
		return nil
	}
	snap, err := ws.Snapshot(ctx)
	if err != nil || snap.BaseTree != m.BaseTree || snap.FinalTree != m.FinalTree || !bytes.Equal(snap.Patch, patch) {
		return nil
	}
	return ws
}

func (r *Runner) verifyChecks(ctx context.Context, v *Verification, j VerifyJob, ws *workspace.Workspace, snap workspace.Snapshot) error {
	checks := v.Bundle.Manifest.Checks
	if len(checks) == 0 {
		for _, c := range j.Checks {
			checks = append(checks, contract.CheckResult{Argv: c, ExitCode: notRecorded})
		}
	}
	if len(checks) == 0 {
		return nil
	}
	if !v.Bundle.Trusted && !j.Foreign {
		v.problem("the checks were not run: the bundle is not signed by a key of yours")
		return nil
	}
	t := contract.Task{Sandbox: j.Sandbox}
	place, err := r.c.Sandbox(ctx, t)
	if err != nil {
		return fmt.Errorf("find a sandbox: %w", err)
	}
	a := &attempt{c: r.c, j: Job{Task: t, Dir: j.Dir}, ws: ws, place: place}
	session, err := a.openChecks(ctx, snap, filepath.Join(j.Dir, dirChecks))
	if err != nil {
		return err
	}
	limit := time.Duration(j.CheckSeconds) * time.Second
	if limit <= 0 {
		limit = 10 * time.Minute
	}
	for _, k := range checks {
		var c checkRun
		if c, err = runCheck(ctx, session, k.Argv, limit); err != nil {
			break
		}
		v.add(k, c, r.c.Secrets.String(contract.CleanText(string(c.output))))
	}
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), sessionClose)
	defer cancel()
	return errors.Join(err, session.Close(short))
}

// notRecorded is the exit code of a check that the run did not get to.
const notRecorded = -1

// add notes how a recorded check went again.
func (v *Verification) add(k contract.CheckResult, c checkRun, output string) {
	again := VerifiedCheck{
		Argv: k.Argv, Recorded: k.ExitCode, ExitCode: c.result.ExitCode, TimedOut: c.result.TimedOut, Same: k.Passed == c.result.Passed || k.ExitCode == notRecorded,
	}
	if !c.result.Passed {
		again.Tail = lastLines(output, tailLines, tailBytes)
	}
	if !again.Same {
		v.problem("check %q ended with exit code %d, the run recorded %d", k.Argv, again.ExitCode, again.Recorded)
	}
	v.Checks = append(v.Checks, again)
}

// rebuilt is a tree that is made again from what a bundle says.
type rebuilt struct {
	repository string
	base, tree string // commit and tree the patch starts from
	patch      []byte
	dir        string // where the workspace is made
}

// rebuild makes a workspace that starts from exactly the tree a patch was made on, and applies the
// patch. A run that began with uncommitted work has its base only while that work is still there.
// A *stopped error says what does not fit.
func rebuild(ctx context.Context, b rebuilt) (*workspace.Workspace, error) {
	repo, err := workspace.Discover(ctx, b.repository)
	if err != nil {
		return nil, err
	}
	if _, _, err := repo.Resolve(ctx, b.base); err != nil {
		return nil, stop(contract.FailWorkspace, "the base commit %s is not in this repository", b.base)
	}
	for _, dirty := range []contract.Dirty{contract.DirtyExclude, contract.DirtyInclude} {
		ws, err := workspace.Create(ctx, workspace.Options{Repo: repo, Base: b.base, Dirty: dirty, Dir: filepath.Join(b.dir, dirWorkspace)})
		if err != nil {
			return nil, fmt.Errorf("make a clean tree: %w", err)
		}
		if ws.Ready().BaseTree == b.tree {
			if err := applyIn(ctx, ws, b); err != nil {
				return nil, errors.Join(err, ws.Remove(context.WithoutCancel(ctx)))
			}
			return ws, nil
		}
		if err := ws.Remove(ctx); err != nil {
			return nil, fmt.Errorf("make a clean tree: %w", err)
		}
	}
	return nil, stop(contract.FailWorkspace, "the run began with uncommitted work that is not here any more: tree %s cannot be made", b.tree)
}

// applyIn applies the patch to the workspace's own tree, which is a checkout like any other.
func applyIn(ctx context.Context, ws *workspace.Workspace, b rebuilt) error {
	if len(b.patch) == 0 {
		return nil
	}
	inside, err := workspace.Discover(ctx, ws.Tree())
	if err != nil {
		return fmt.Errorf("open the clean tree: %w", err)
	}
	_, err = workspace.Apply(ctx, workspace.ApplyOptions{Repo: inside, Patch: b.patch, Dir: filepath.Join(b.dir, dirReceipt)})
	switch contract.KindOf(err) {
	case contract.KindConflict, contract.KindInvalid:
		return stop(contract.FailWorkspace, "the patch does not apply to its base: %s", oneLine(err.Error()))
	default:
		return err
	}
}
