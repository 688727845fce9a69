package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
)

// Options say what a workspace is made of.
type Options struct {
	Repo     *Repo
	Base     string         // a revision; empty is the head
	Dirty    contract.Dirty // empty is include
	Include  []string       // globs of ignored files to copy in
	Dir      string         // the run's own folder for the workspace: absolute, empty or not there yet
	CacheDir string         // where base trees are kept; used by the overlay way only
	Overlay  bool           // make an overlay where the machine can, else a plain worktree
}

// The ways a tree is made.
const (
	WayWorktree = "worktree"
	WayOverlay  = "overlay"
)

// Workspace is the disposable tree of one run with its ledger. Its methods are not safe for use
// from several goroutines at once, except the ones that only tell a path.
type Workspace struct {
	store
	rec   record
	base  []entry       // the tree the patch starts from, with the stat of the files laid down
	stamp unix.Timespec // when base's stat was taken
	memo  changeMemo
}

// record is what the folder says about itself. A folder without one is never touched.
type record struct {
	Version  int                     `json:"version"`
	State    string                  `json:"state"` // making, ready
	Root     string                  `json:"root"`
	Common   string                  `json:"common"`
	Objects  []string                `json:"objects"`
	Format   string                  `json:"format"`
	FileMode bool                    `json:"fileMode"`
	Base     string                  `json:"base"`  // commit
	Start    string                  `json:"start"` // commit of the ledger whose tree is the base plus the overlay
	Tree     string                  `json:"tree"`  // that tree
	Way      string                  `json:"way"`
	Lower    string                  `json:"lower,omitempty"`
	Gone     []string                `json:"gone,omitempty"`     // files of the base that the user's work deletes
	Included []string                `json:"included,omitempty"` // ignored files that were copied in
	Ready    contract.WorkspaceReady `json:"ready"`
}

const (
	recordVersion = 1
	stateMaking   = "making"
	stateReady    = "ready"
)

// Create makes the tree of a run: the base, the user's uncommitted work as uncommitted work on top
// of it, and the ignored files asked for. The user's checkout is only read. When it fails, Dir is
// gone again. Parallel calls on one repository do not disturb each other.
func Create(ctx context.Context, o Options) (_ *Workspace, err error) {
	began := time.Now()
	commit, tree, err := o.Repo.Resolve(ctx, o.Base)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(o.Dir) {
		return nil, contract.Errorf(contract.KindInvalid, "workspace folder %q is not absolute", o.Dir)
	}
	if err := ownFolder(o.Dir); err != nil {
		return nil, err
	}
	w := &Workspace{store: store{layout: layout{o.Dir}, format: o.Repo.format}}
	w.rec = record{
		Version: recordVersion, State: stateMaking, Root: o.Repo.root, Common: o.Repo.common, Objects: o.Repo.objectDirs(),
		Format: o.Repo.format, FileMode: o.Repo.fileMode(), Base: commit, Start: commit, Tree: tree, Way: WayWorktree,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Remove(context.WithoutCancel(ctx)))
		}
	}()
	if err := w.save(); err != nil {
		return nil, err
	}
	if err := w.fill(ctx, o); err != nil {
		return nil, err
	}
	w.rec.State, w.rec.Ready.ElapsedMS = stateReady, time.Since(began).Milliseconds()
	return w, w.save()
}

// ownFolder makes dir, or takes an empty one.
func ownFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make workspace folder: %w", err)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look at workspace folder: %w", err)
	}
	if len(names) > 0 {
		return contract.Errorf(contract.KindConflict, "workspace folder %q is not empty", dir)
	}
	return os.Chmod(dir, 0o700)
}

// fill lays down ledger, agent's repository and tree.
func (w *Workspace) fill(ctx context.Context, o Options) error {
	if err := makeLedger(w.ledger(), o.Repo); err != nil {
		return err
	}
	if err := makeAgentRepo(w.layout, o.Repo, w.rec.Base); err != nil {
		return err
	}
	var user *userTree
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { user, err = readUser(gctx, w.layout, o.Repo); return err })
	g.Go(func() error { return w.layBase(gctx, o) })
	if err := g.Wait(); err != nil {
		return err
	}
	return w.layOverlay(ctx, o, user)
}

// layBase checks the base out, or takes a kept base tree as the lower layer, and links the tree to
// the agent's repository.
func (w *Workspace) layBase(ctx context.Context, o Options) error {
	if o.Overlay && o.CacheDir != "" && canOverlay(w.dir) {
		return w.layLower(ctx, o)
	}
	index := filepath.Join(w.link(), "index")
	if err := w.checkout(ctx, w.rec.Tree, w.tree(), index); err != nil {
		return err
	}
	entries, _, err := readIndex(index, w.format)
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	w.base = entries
	return w.linkTree()
}

// linkTree makes the tree a worktree of the agent's repository.
func (w *Workspace) linkTree() error {
	if err := os.WriteFile(filepath.Join(w.layer(), ".git"), []byte("gitdir: "+w.link()+"\n"), 0o600); err != nil {
		return fmt.Errorf("link the tree: %w", err)
	}
	return nil
}

// layOverlay brings the user's uncommitted work and the ignored files asked for into the tree.
func (w *Workspace) layOverlay(ctx context.Context, o Options, user *userTree) error {
	sv, err := w.survey(ctx, o, user)
	if err != nil {
		return err
	}
	defer sv.close()
	if !sv.empty() {
		if w.rec.Start, w.rec.Tree, err = w.commit(ctx, w.rec.Base, "refs/rivumi/start", &sv.absorbed); err != nil {
			return err
		}
	}
	if err := w.place(&sv.absorbed); err != nil {
		return err
	}
	if err := w.copyIncluded(ctx, o, user); err != nil {
		return err
	}
	w.rec.Ready = contract.WorkspaceReady{
		BaseSHA: w.rec.Base, BaseTree: w.rec.Tree, Root: w.rec.Root, Dirty: sv.dirty, Notes: sv.notes, Way: w.rec.Way,
	}
	return w.saveBase()
}

// place moves staged files into the tree and brings the list of base entries up to date.
func (w *Workspace) place(a *absorbed) error {
	if err := w.layerRemove(a.gone, a.changed); err != nil {
		return fmt.Errorf("leave out deleted files: %w", err)
	}
	changed := make(map[string]bool, len(a.changed)+len(a.gone))
	for _, p := range a.gone {
		changed[p] = true
	}
	for i := range a.changed {
		e := &a.changed[i]
		changed[e.path] = true
		to, err := w.layerPlace(e.path)
		if err != nil {
			return fmt.Errorf("lay down %q: %w", e.path, err)
		}
		if err := os.Rename(filepath.Join(a.stage, filepath.FromSlash(e.path)), to); err != nil {
			return fmt.Errorf("lay down %q: %w", e.path, err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(to, &st); err != nil {
			return fmt.Errorf("lay down %q: %w", e.path, err)
		}
		e.setStat(&st)
		e.laid = w.rec.Way == WayOverlay
	}
	w.rec.Gone = a.gone
	w.relay(changed, a.changed)
	return nil
}

// relay replaces base entries.
func (w *Workspace) relay(out map[string]bool, in []entry) {
	if len(out) == 0 && len(in) == 0 {
		return
	}
	w.base = slices.DeleteFunc(w.base, func(e entry) bool { return out[e.path] })
	w.base = append(w.base, in...)
	slices.SortFunc(w.base, func(a, b entry) int { return cmpString(a.path, b.path) })
}

// saveBase writes the list of base entries and remembers when. In the overlay way the base tree
// has its own list, and only what was laid over it is written.
func (w *Workspace) saveBase() error {
	list := w.base
	if w.rec.Way == WayOverlay {
		list = nil
		for i := range w.base {
			if w.base[i].laid {
				list = append(list, w.base[i])
			}
		}
	}
	if err := os.WriteFile(w.start(), formatIndex(list, w.format), 0o600); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return w.readStamp()
}

func (w *Workspace) readStamp() error {
	fi, err := os.Stat(w.start())
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	w.stamp = unix.NsecToTimespec(fi.ModTime().UnixNano())
	return nil
}

// Reopen opens the workspace in dir as an earlier process left it. A folder that rivumi did not
// record as its own, or whose making was not finished, is KindNotFound.
func Reopen(ctx context.Context, dir string) (*Workspace, error) {
	rec, err := readRecord(dir)
	if err != nil {
		return nil, err
	}
	if rec.State != stateReady {
		return nil, contract.Errorf(contract.KindNotFound, "the workspace in %q was never finished", dir)
	}
	w := &Workspace{store: store{layout: layout{dir}, format: rec.Format}, rec: rec}
	stages, _ := filepath.Glob(filepath.Join(dir, "stage-*")) // the pattern is fixed
	for _, p := range stages {
		if err := removeTree(p); err != nil {
			return nil, err
		}
	}
	if err := w.loadEntries(); err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return w, w.readStamp()
}

// loadEntries reads the base entries as [Workspace.saveBase] left them.
func (w *Workspace) loadEntries() (err error) {
	if w.base, _, err = readIndex(w.start(), w.format); err != nil || w.rec.Way != WayOverlay {
		return err
	}
	laid, out := w.base, map[string]bool{}
	for i := range laid {
		laid[i].laid, out[laid[i].path] = true, true
	}
	for _, p := range w.rec.Gone {
		out[p] = true
	}
	if w.base, _, err = readIndex(lowerIndex(w.rec.Lower), w.format); err != nil {
		return err
	}
	w.relay(out, laid)
	return nil
}

func readRecord(dir string) (record, error) {
	var rec record
	b, err := os.ReadFile(layout{dir}.record())
	if err != nil {
		return rec, contract.Errorf(contract.KindNotFound, "no workspace in %q: %w", dir, err)
	}
	if err := json.Unmarshal(b, &rec); err != nil || rec.Version != recordVersion {
		return rec, contract.Errorf(contract.KindNotFound, "the record of the workspace in %q is not one of this program", dir)
	}
	return rec.names(nameOf), nil
}

// save writes the record, whole or not at all.
func (w *Workspace) save() error {
	b, err := json.Marshal(w.rec.names(rawName))
	if err != nil {
		return fmt.Errorf("encode workspace record: %w", err)
	}
	tmp := w.record() + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("write workspace record: %w", err)
	}
	if err := os.Rename(tmp, w.record()); err != nil {
		return fmt.Errorf("write workspace record: %w", err)
	}
	return nil
}

// Dir is the folder of the workspace.
func (w *Workspace) Dir() string { return w.dir }

// Tree is the host folder of the tree. In the overlay way it is the empty folder the sandbox
// mounts the overlay on, in its own view.
func (w *Workspace) Tree() string { return w.tree() }

// Overlay gives the layers of the overlay way; ok is false for a plain worktree.
func (w *Workspace) Overlay() (lower, upper, work string, ok bool) {
	if w.rec.Way != WayOverlay {
		return "", "", "", false
	}
	return w.rec.Lower, w.upper(), w.work(), true
}

// Bind is a host folder that must be seen at the same path where commands run.
type Bind struct {
	Path     string
	Writable bool
}

// Binds are the folders git needs in the tree's place: the agent's own repository, writable, and
// the object stores of the user's, read-only.
func (w *Workspace) Binds() []Bind {
	binds := []Bind{{Path: w.repo(), Writable: true}}
	for _, d := range w.rec.Objects {
		binds = append(binds, Bind{Path: d})
	}
	return binds
}

// Ready tells what the run starts from. Sandbox and Network are for the caller to fill.
func (w *Workspace) Ready() contract.WorkspaceReady { return w.rec.Ready }

// Objects are the folders that hold the objects of the run, for [ApplyOptions].
func (w *Workspace) Objects() []string { return []string{filepath.Join(w.ledger(), "objects")} }
