package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

// finish takes the tree, writes the bundle and says how the run ended. err is what broke the walk, nil
// for an agent that came to an end of its own; cause is why the owner ended the run, nil if it did
// not. Nothing here may keep what comes after it from being tried.
func (a *attempt) finish(ctx context.Context, err, cause error) contract.Ending {
	a.closeSession(ctx)
	snap, serr := a.take(ctx, err, cause)
	if len(snap.Left) > 0 {
		a.warn(ctx, "left_out", "changed files that the patch cannot hold: %s", joinPaths(snap.Left))
	}
	e := a.judge(snap, err, cause)
	if serr != nil {
		e = a.untaken(ctx, worse(e, failureOf(serr)), serr)
	}
	e = a.hold(e, snap)
	if p, ok := errors.AsType[*panicked](err); ok {
		a.warn(ctx, "panic", "%s", p)
		e = a.keepStack(ctx, e, p)
	}
	if berr := protect(func() error { return a.bundle(ctx, &e, snap) }); berr != nil {
		e = worse(e, failureOf(berr))
	}
	if cerr := a.cleanUp(); cerr != nil {
		a.warn(ctx, "cleanup_failed", "folders of the run could not be removed: %s", cerr)
	}
	return e
}

// untaken tells of a tree that could not be taken: what changed in it, as far as that can be seen, and
// that it is still there. No patch is named: an empty one would say that nothing changed.
func (a *attempt) untaken(ctx context.Context, e contract.Ending, cause error) contract.Ending {
	a.noPatch = true
	files := a.diff.last
	err := protect(func() error {
		now, err := a.ws.Changes(ctx)
		if err == nil {
			files = now
		}
		return err
	})
	if e.Result != nil {
		e.Result.ChangedFiles = append([]contract.FileChange{}, files...)
	}
	a.warn(ctx, "tree_not_taken", "there is no patch: %s; the tree stays in the worktree of the run, resume goes on in it", cause)
	if err != nil {
		a.warn(ctx, "tree_not_read", "the list of changed files may be old: %s", err)
	}
	return e
}

// worse makes a completed run a failed one. A run that had failed already keeps its reason.
func worse(e contract.Ending, f *contract.Failure) contract.Ending {
	if e.State != contract.Completed {
		return e
	}
	if e.Result != nil {
		r := *e.Result
		r.Outcome = ""
		e.Result = &r
	}
	return contract.Ending{State: contract.Failed, Result: e.Result, Error: f}
}

// closeSession ends what still runs. That it did not end is told, and changes nothing of the result: it was
// taken, or will be, from files as they are at one moment.
func (a *attempt) closeSession(ctx context.Context) {
	if a.files != nil {
		_ = a.files.Close() // a held folder; nothing was buffered
	}
	if a.session == nil {
		return
	}
	short, cancel := context.WithTimeout(ctx, sessionClose)
	defer cancel()
	err := protect(func() error { return a.session.Close(short) })
	if err != nil {
		a.warn(ctx, string(contract.FailSandboxCleanup), "the sandbox could not be ended cleanly: %s", err)
	}
}

// take gives the state of the tree that is the result. Where the agent ended with a round of checks
// it is the state the checks saw, so that nothing can slip in behind them.
func (a *attempt) take(ctx context.Context, err, cause error) (workspace.Snapshot, error) {
	if a.ws == nil {
		return workspace.Snapshot{}, nil
	}
	if n := len(a.rounds); n > 0 && err == nil && cause == nil && (a.result.End == agent.EndFinished || a.result.End == agent.EndChecks) {
		return a.rounds[n-1].snap, nil
	}
	var snap workspace.Snapshot
	terr := protect(func() (err error) { snap, err = a.ws.Snapshot(ctx); return err })
	if terr != nil {
		return snap, fmt.Errorf("take the tree: %w", terr)
	}
	return snap, nil
}

// hold holds the changes against the allowed paths and the known secrets.
func (a *attempt) hold(e contract.Ending, snap workspace.Snapshot) contract.Ending {
	f := a.objection(snap)
	if f == nil {
		return e
	}
	a.rejected = true
	if e.State == contract.Cancelled {
		return e
	}
	if e.Error != nil {
		f.Reason = string(e.Error.Code)
	}
	e.State, e.Error = contract.Failed, f
	e.Result.Outcome = ""
	return e
}

// objection says why the patch must not be applied, nil for nothing.
func (a *attempt) objection(snap workspace.Snapshot) *contract.Failure {
	allowed, kept := a.j.Task.AllowedPaths, "the patch is kept as "+contract.ArtifactRejected
	if out := outsidePaths(snap, allowed); len(out) > 0 {
		return &contract.Failure{Code: contract.FailPaths, Message: "changes outside the allowed paths: " + joinPaths(out), Hint: kept}
	}
	if out, code := refusedParts(snap.Patch, allowed); len(out) > 0 {
		return &contract.Failure{Code: code, Message: "changes that cannot be taken: " + joinPaths(out), Hint: kept}
	}
	if a.leaks(snap) {
		return &contract.Failure{Code: contract.FailResult, Message: "the patch holds a known secret", Hint: kept + " without it; it cannot be applied"}
	}
	return nil
}

func (a *attempt) leaks(snap workspace.Snapshot) bool {
	return !bytes.Equal(a.c.Secrets.Bytes(snap.Patch), snap.Patch)
}

// bundle stores everything the run leaves but its log. Each part is tried whatever became of the ones
// before it.
func (a *attempt) bundle(ctx context.Context, e *contract.Ending, snap workspace.Snapshot) error {
	events := a.diffEvents(a.step, snap.Files)
	if a.ws == nil {
		events = nil
	}
	for _, n := range a.notices {
		events = append(events, contract.NewEvent(0, n))
	}
	var errs []error
	if len(events) > 0 {
		errs = append(errs, a.log.Append(ctx, events...))
	}
	if !a.noPatch {
		errs = append(errs, a.putPatch(ctx, e.Result, snap))
	}
	transcript, head, err := bundle.Fold(a.j.Session.Log(ctx))
	_, perr := a.out.PutJSON(ctx, contract.ArtifactTranscript, transcript)
	if errs = append(errs, err, perr); errors.Join(errs...) != nil {
		*e = worse(*e, failureOf(errors.Join(errs...)))
	}
	_, err = a.out.PutJSON(ctx, contract.ArtifactResult, bundle.ResultDoc{RunID: a.j.Run.ID, State: e.State, Result: e.Result, Error: e.Error})
	errs = append(errs, err, a.out.Seal(ctx, a.manifest(*e, snap, head)))
	return errors.Join(errs...)
}

func (a *attempt) putPatch(ctx context.Context, r *contract.Result, snap workspace.Snapshot) error {
	name, patch := contract.ArtifactPatch, snap.Patch
	if a.rejected {
		name, patch = contract.ArtifactRejected, a.c.Secrets.Bytes(patch)
	}
	art, err := a.out.Put(ctx, name, bundle.MediaPatch, bytes.NewReader(patch))
	if err != nil {
		return err
	}
	r.Patch = &contract.PatchRef{Artifact: art.Name, SHA256: art.SHA256, Bytes: art.Bytes}
	return nil
}

// keepStack stores where a panic happened, for a report of the bug.
func (a *attempt) keepStack(ctx context.Context, e contract.Ending, p *panicked) contract.Ending {
	text := a.c.Secrets.String(contract.CleanText(p.Error() + "\n\n" + p.stack))
	if art, err := a.out.Put(ctx, "panic.txt", bundle.MediaLog, bytes.NewReader([]byte(text))); err == nil && e.Error != nil {
		e.Error.Hint = "this is a bug of rivumi; please report it with the artifact " + art.Name
	}
	return e
}

// manifest binds what the run leaves.
func (a *attempt) manifest(e contract.Ending, snap workspace.Snapshot, head bundle.LogHead) bundle.Manifest {
	m := bundle.Manifest{
		RunID: a.j.Run.ID, CreatedAt: contract.At(a.c.Now()), State: e.State, TaskDigest: bundle.TaskDigest(a.j.Task), Log: head,
		BaseSHA: snap.BaseSHA, BaseTree: snap.BaseTree, FinalTree: snap.FinalTree,
		Files: []bundle.FileState{}, Checks: e.Result.Checks, Sandbox: contract.MarshalJSON(a.receipt), Outcome: e.Result.Outcome,
	}
	for _, f := range snap.Manifest {
		m.Files = append(m.Files, bundle.FileState{Path: f.Path, Before: meta(f.Before), After: meta(f.After)})
	}
	return m
}

func meta(s *workspace.FileState) *bundle.FileMeta {
	if s == nil {
		return nil
	}
	return &bundle.FileMeta{SHA256: s.SHA256, Mode: s.Mode, Bytes: s.Bytes}
}

// cleanUp removes what nobody needs once the bundle stands. The workspace stays: a resumed run goes on
// in it, and its owner removes it with the run.
func (a *attempt) cleanUp() error {
	return errors.Join(removeAll(a.folder(dirScratch)), removeAll(a.folder(dirChecks)))
}

// resultOf is the result without outcome and patch.
func (a *attempt) resultOf(snap workspace.Snapshot) *contract.Result {
	r := &contract.Result{
		Summary: a.result.Summary, ChangedFiles: slices.Clone(snap.Files), Checks: []contract.CheckResult{},
		ChecksInputsChanged: checkInputs(snap.Files, a.j.Task.Checks), LargeAdditions: snap.Large,
		BaseSHA: snap.BaseSHA, BaseTree: snap.BaseTree, FinalTree: snap.FinalTree,
	}
	if r.ChangedFiles == nil {
		r.ChangedFiles = []contract.FileChange{}
	}
	r.Summary = a.c.Secrets.String(contract.CleanText(r.Summary))
	if n := len(a.rounds); n > 0 {
		for _, c := range a.rounds[n-1].runs {
			k := c.result
			k.Phase = phaseFinal
			r.Checks = append(r.Checks, k)
		}
	}
	return r
}
