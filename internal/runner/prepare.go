package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/workspace"
)

// start is what the first request to the model was made of. It is kept, so that a resumed run sends
// the same bytes although the agent has changed the tree since.
type start struct {
	Instructions string   `json:"instructions"`
	TreeNote     string   `json:"treeNote"`
	Notes        []string `json:"notes"` // of the workspace, for the feedback of failing checks
}

// maxListed bounds the top-level names shown to the model.
const maxListed = 200

// prepare makes workspace and sandbox session and tells what the run starts from.
func (a *attempt) prepare(ctx context.Context) error {
	if err := a.makeWorkspace(ctx, a.place.Overlay); err != nil {
		return err
	}
	err := a.openSession(ctx)
	var place *sandbox.Error
	if errors.As(err, &place) && place.Code == sandbox.ErrOverlay && a.fresh() {
		if err := a.ws.Remove(ctx); err != nil {
			return fmt.Errorf("make a plain worktree: %w", err)
		}
		a.ws = nil
		if err := a.makeWorkspace(ctx, false); err != nil {
			return err
		}
		err = a.openSession(ctx)
	}
	if err != nil {
		return startFailed(err)
	}
	if a.files, err = a.ws.Files(a.session.Root()); err != nil {
		return fmt.Errorf("open the tree: %w", err)
	}
	if err := a.readStart(); err != nil {
		return err
	}
	return a.tellReady(ctx)
}

// fresh reports whether the workspace was made by this attempt, so that it may be made again.
func (a *attempt) fresh() bool { return len(a.j.History) == 0 }

func startFailed(err error) error {
	if _, ok := errors.AsType[*sandbox.Error](err); ok {
		return err
	}
	return &stopped{contract.Failure{Code: contract.FailSandboxStart, Message: oneLine(err.Error())}}
}

// makeWorkspace makes the tree, or takes over the one an earlier run left.
func (a *attempt) makeWorkspace(ctx context.Context, overlay bool) error {
	if !a.fresh() {
		return a.takeOver(ctx)
	}
	o, err := a.options(ctx)
	if err != nil {
		return err
	}
	o.Overlay = overlay && a.c.CacheDir != ""
	a.ws, err = workspace.Create(ctx, o)
	return workspaceFailed(ctx, err)
}

func (a *attempt) options(ctx context.Context) (workspace.Options, error) {
	r := a.j.Task.Repository
	if r == nil {
		return workspace.Options{}, stop(contract.FailWorkspace, "the task names no repository on this machine")
	}
	repo, err := workspace.Discover(ctx, r.Path)
	if err != nil {
		return workspace.Options{}, workspaceFailed(ctx, err)
	}
	return workspace.Options{
		Repo: repo, Base: r.Base, Dirty: r.Dirty, Include: r.Include, Dir: a.folder(dirWorkspace), CacheDir: a.c.CacheDir,
	}, nil
}

// workspaceFailed gives an error of the workspace its reason, unless it has a better one.
func workspaceFailed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	f := failureOf(err)
	if f.Code == contract.FailInternal {
		f.Code = contract.FailWorkspace
	}
	return &stopped{*f}
}

// openSession opens the place the agent works in.
func (a *attempt) openSession(ctx context.Context) (err error) {
	spec, err := a.spec(a.folder(dirScratch), a.j.Task.Sandbox.Mode == contract.SandboxReadOnly)
	if err != nil {
		return err
	}
	spec.Tree = a.ws.Tree()
	if lower, upper, work, ok := a.ws.Overlay(); ok {
		spec.Overlay = &sandbox.Overlay{Lower: lower, Upper: upper, Work: work}
	}
	for _, b := range a.ws.Binds() {
		spec.Binds = append(spec.Binds, sandbox.Bind{Path: b.Path, Writable: b.Writable})
	}
	if a.session, err = a.place.Opener.Open(ctx, spec); err != nil {
		a.session = nil
		return err
	}
	a.receipt = a.session.Receipt()
	return nil
}

// spec is what agent and checks have in common. The scratch folder is made anew: nothing that one
// session left in its home reaches another.
func (a *attempt) spec(scratch string, readOnly bool) (sandbox.Spec, error) {
	if err := os.RemoveAll(scratch); err != nil {
		return sandbox.Spec{}, fmt.Errorf("clear scratch folder: %w", err)
	}
	for _, d := range []string{"home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(scratch, d), 0o700); err != nil {
			return sandbox.Spec{}, fmt.Errorf("make scratch folder: %w", err)
		}
	}
	s := a.j.Task.Sandbox
	spec := sandbox.Spec{
		ReadOnly: readOnly, Env: a.environment(scratch), Hosts: a.j.Task.Network.Hosts, MinTier: sandbox.Tier(s.MinTier), Scratch: scratch,
		Limits: sandbox.DefaultLimits(),
	}
	for _, d := range s.AddDirs {
		dir, writable := strings.CutSuffix(d, ":rw")
		spec.Binds = append(spec.Binds, sandbox.Bind{Path: dir, Writable: writable})
	}
	return spec, nil
}

// environment is the whole environment of commands. A variable the caller allowed is left out all
// the same when its value is a known secret.
func (a *attempt) environment(scratch string) []string {
	return slices.DeleteFunc(sandbox.BaseEnv(scratch, a.j.Task.Sandbox.Env), func(kv string) bool {
		return a.c.Secrets.String(kv) != kv
	})
}

// readStart reads what the model is told of the tree, or what it was told by the run this one goes on from.
func (a *attempt) readStart() error {
	if !a.fresh() {
		data, err := os.ReadFile(filepath.Join(a.j.Prior, fileStart))
		if err == nil && json.Unmarshal(data, &a.start) == nil {
			return a.keepStart()
		}
	}
	text, notes, err := instructions(a.session.Root(), a.c.SystemFile)
	if err != nil {
		return err
	}
	ready := a.ws.Ready()
	a.start = start{Instructions: text, Notes: append(ready.Notes, notes...), TreeNote: treeNote(a.session.Root(), ready)}
	return a.keepStart()
}

func (a *attempt) keepStart() error {
	if err := os.WriteFile(a.folder(fileStart), contract.MarshalJSON(a.start), 0o600); err != nil {
		return fmt.Errorf("keep the start of the run: %w", err)
	}
	return nil
}

// treeNote lists the top of the tree and what the user had not committed.
func treeNote(root string, ready contract.WorkspaceReady) string {
	var b strings.Builder
	if d := ready.Dirty; d.Tracked+d.Untracked > 0 {
		fmt.Fprintf(&b, "Not committed by the user: %d changed and %d untracked files, %d of them are part of the tree.\n",
			d.Tracked, d.Untracked, d.Included)
	}
	for _, n := range ready.Notes {
		b.WriteString("Note: " + n + "\n")
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return b.String() // the agent will look itself
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".git" })
	b.WriteString("Top level:")
	for i, e := range entries {
		if i == maxListed {
			fmt.Fprintf(&b, " and %d more", len(entries)-i)
			break
		}
		b.WriteString(" " + e.Name())
		if e.IsDir() {
			b.WriteString("/")
		}
	}
	return contract.CleanText(b.String())
}

// tellReady stores what the run starts from, before the first model call.
func (a *attempt) tellReady(ctx context.Context) error {
	ready := a.ws.Ready()
	ready.Sandbox, ready.Network = string(a.receipt.Tier), a.receipt.Network
	ready.Notes = append(append([]string{}, a.start.Notes...), a.receipt.Missing...)
	return a.log.Append(ctx, contract.NewEvent(0, ready))
}
