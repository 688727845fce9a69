package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Names of what a packed source holds. Each is a commit on top of the one before it and is left out
// where it would change nothing.
const (
	refBase    = "refs/rivumi/base"    // the commit the run starts from, with its history
	refTracked = "refs/rivumi/tracked" // the user's changes to files that git knows
	refStart   = "refs/rivumi/start"   // and their untracked files
	refInclude = "refs/rivumi/include" // and the ignored files that were asked for
	refShallow = "refs/rivumi/shallow/"
)

// PackOptions say what is packed.
type PackOptions struct {
	Base    string         // a revision; empty is the head
	Dirty   contract.Dirty // empty is include
	Include []string       // globs of ignored files to send along
	Dir     string         // a folder for the work, empty or not there yet; [Pack.Close] removes it
	// Secrets lets files go that look like credentials. Without it they refuse the packing.
	Secrets bool
}

// Pack is a checkout as one file that can be sent: a git bundle of the base and of the uncommitted
// work on top of it. Equal sources give equal bytes as long as git packs them alike.
type Pack struct {
	Path     string // the bundle, inside the folder of the options
	Bytes    int64
	SHA256   string // hex
	Base     string // commit
	Tree     string // the base plus the uncommitted work
	Files    int    // uncommitted and included files that are sent
	FileSize int64  // their bytes
	Dirty    contract.DirtySummary
	Notes    []string  // what stays behind and why
	Suspects []Suspect // what looks like a credential and is sent all the same
	dir      string
}

// Close removes the bundle and everything made for it.
func (p *Pack) Close() error { return removeTree(p.dir) }

// Pack packs the checkout. It is only read. Uncommitted files that look like credentials are
// KindForbidden unless the options let them go; the committed history is the user's own choice.
func (r *Repo) Pack(ctx context.Context, o PackOptions) (_ *Pack, err error) {
	commit, tree, err := r.Resolve(ctx, o.Base)
	if err != nil {
		return nil, err
	}
	if err := ownFolder(o.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeTree(o.Dir))
		}
	}()
	w := &Workspace{store: store{layout: layout{o.Dir}, format: r.format}}
	w.rec = record{Base: commit, Start: commit, Tree: tree, Way: WayWorktree, FileMode: r.fileMode()}
	if err := makeLedger(w.ledger(), r); err != nil {
		return nil, err
	}
	k := &packing{Workspace: w, o: Options{Repo: r, Base: o.Base, Dirty: o.Dirty, Include: o.Include}, refs: []string{refBase}}
	if err := k.collect(ctx, tree); err != nil {
		return nil, err
	}
	if len(k.pack.Suspects) > 0 && !o.Secrets {
		return nil, contract.Errorf(contract.KindForbidden, "what would be sent looks like it holds credentials: %s", nameSuspects(k.pack.Suspects))
	}
	if err := k.write(ctx); err != nil {
		return nil, err
	}
	return &k.pack, nil
}

// packing is a pack on its way.
type packing struct {
	*Workspace
	o    Options
	refs []string // made so far, in order
	top  string   // the newest commit
	pack Pack
}

// collect makes the commits.
func (k *packing) collect(ctx context.Context, tree string) error {
	k.top = k.rec.Base
	k.pack = Pack{Base: k.rec.Base, Tree: tree, dir: k.dir}
	index := filepath.Join(k.ledger(), "base.index")
	if _, err := (git{dir: k.ledger(), index: index}).run(ctx, "read-tree", tree); err != nil {
		return fmt.Errorf("read the base: %w", err)
	}
	var err error
	if k.base, _, err = readIndex(index, k.format); err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	user, err := readUser(ctx, k.layout, k.o.Repo)
	if err != nil {
		return err
	}
	sv, err := k.survey(ctx, k.o, user)
	if err != nil {
		return err
	}
	defer sv.close()
	k.pack.Dirty, k.pack.Notes = sv.dirty, sv.notes
	if err := k.look(&sv.absorbed); err != nil {
		return err
	}
	known, fresh := absorbed{gone: sv.gone}, absorbed{}
	for _, e := range sv.changed {
		if trackedEntry(user.entries, e.path) != nil {
			known.changed = append(known.changed, e)
		} else {
			fresh.changed = append(fresh.changed, e)
		}
	}
	if err := k.add(ctx, refTracked, &known); err != nil {
		return err
	}
	if err := k.add(ctx, refStart, &fresh); err != nil {
		return err
	}
	return k.included(ctx, user)
}

// add makes one more commit where there is something to hold.
func (k *packing) add(ctx context.Context, ref string, a *absorbed) error {
	if a.empty() {
		return nil
	}
	commit, tree, err := k.commit(ctx, k.top, ref, a)
	if err != nil {
		return err
	}
	k.top, k.refs = commit, append(k.refs, ref)
	if ref != refInclude {
		k.pack.Tree = tree
	}
	return nil
}

// included packs the ignored files that were asked for.
func (k *packing) included(ctx context.Context, user *userTree) error {
	if len(k.o.Include) == 0 {
		return nil
	}
	files, err := includedFiles(ctx, k.o, user)
	if err != nil {
		return err
	}
	src, err := openSource(k.o.Repo.root)
	if err != nil {
		return err
	}
	defer src.close()
	a, err := k.absorb(ctx, src, files, nil, nil)
	defer a.close()
	if err != nil {
		return err
	}
	if err := k.look(&a); err != nil {
		return err
	}
	return k.add(ctx, refInclude, &a)
}

// look counts files that are about to be sent and notes what in them looks like a credential.
func (k *packing) look(a *absorbed) error {
	for _, e := range a.changed {
		p := filepath.Join(a.stage, filepath.FromSlash(e.path))
		fi, err := os.Lstat(p)
		if err != nil {
			return fmt.Errorf("look at %q: %w", e.path, err)
		}
		k.pack.Files++
		k.pack.FileSize += fi.Size()
		if why := suspicious(e.path, p, fi); why != "" {
			k.pack.Suspects = append(k.pack.Suspects, Suspect{Path: e.path, Why: why})
		}
	}
	return nil
}

// write lets git make the bundle.
func (k *packing) write(ctx context.Context) error {
	refs, err := k.shallowRefs()
	if err != nil {
		return err
	}
	var in strings.Builder
	fmt.Fprintf(&in, "update %s %s\n", refBase, k.rec.Base)
	for i, oid := range refs {
		name := fmt.Sprintf("%s%d", refShallow, i)
		fmt.Fprintf(&in, "update %s %s\n", name, oid)
		k.refs = append(k.refs, name)
	}
	g := git{dir: k.ledger(), input: strings.NewReader(in.String())}
	if _, err := g.run(ctx, "update-ref", "--stdin"); err != nil {
		return fmt.Errorf("name what is sent: %w", err)
	}
	k.pack.Path = filepath.Join(k.dir, "source.bundle")
	// One thread: several would cut the work, and so the bytes, differently each time.
	g = git{dir: k.ledger(), settings: []string{"pack.threads=1"}}
	args := append([]string{"bundle", "create", "--quiet", k.pack.Path}, k.refs...)
	if _, err := g.run(ctx, args...); err != nil {
		return fmt.Errorf("pack the source: %w", err)
	}
	k.pack.SHA256, k.pack.Bytes, err = sumFile(k.pack.Path)
	return err
}

// shallowRefs are the commits at which the history of a shallow clone ends.
func (k *packing) shallowRefs() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(k.ledger(), "shallow"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read where the history ends: %w", err)
	}
	oids := strings.Fields(string(b))
	if len(oids) > maxShallow {
		return nil, contract.Errorf(contract.KindInvalid, "the clone is shallow at %d places, more than %d", len(oids), maxShallow)
	}
	slices.Sort(oids)
	return oids, nil
}

func sumFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("read the packed source: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, fmt.Errorf("read the packed source: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}
