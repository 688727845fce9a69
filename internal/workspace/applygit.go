package workspace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

func now() contract.Time { return contract.At(time.Now()) }

// indexPlan is what will be done to the user's index and refs once the files are written.
type indexPlan struct {
	a      *applying
	index  bool
	commit string // made, not yet on the branch
}

// user is the user's index, locked as git does, and object store, under our own configuration: git
// refreshes an index it writes, and would run the filters of the user's.
func (a *applying) user() git {
	return git{
		dir: a.ledger(), tree: a.o.Repo.root, index: filepath.Join(a.o.Repo.gitDir, "index"),
		env: []string{"GIT_OBJECT_DIRECTORY=" + a.o.Repo.objectDirs()[0]},
	}
}

// planIndex proves, before anything is written, that index and commit will take the patch.
func (a *applying) planIndex(ctx context.Context) (*indexPlan, error) {
	p := &indexPlan{a: a, index: a.o.Index || a.o.Commit != ""}
	if !p.index {
		return p, nil
	}
	if len(a.receipt.Conflicts) > 0 {
		return nil, conflict(slices.Clone(a.receipt.Conflicts), "a merge with conflicts cannot go into the index")
	}
	if a.o.ThreeWay {
		return nil, contract.Errorf(contract.KindInvalid, "a three-way merge changes files only: index and commit are yours to make")
	}
	if err := copySplit(a.o.Repo.gitDir, a.ledger(), filepath.Join(a.ledger(), "copy.index")); err != nil {
		return nil, fmt.Errorf("read the index of the checkout: %w", err)
	}
	if err := a.gitApply(ctx, a.user(), a.patch, "--cached", "--check"); err != nil {
		return nil, conflict(a.failingCached(ctx), "the index differs there")
	}
	if _, err := os.Lstat(filepath.Join(a.o.Repo.gitDir, "index.lock")); err == nil {
		return nil, contract.Errorf(contract.KindConflict, "the index is locked by another git (%s); nothing was changed", filepath.Join(a.o.Repo.gitDir, "index.lock"))
	}
	if a.o.Commit == "" || a.o.Check {
		return p, nil
	}
	var err error
	p.commit, err = a.commitOn(ctx, a.o.Repo.head, a.o.Commit)
	return p, err
}

func (a *applying) failingCached(ctx context.Context) []string {
	var names []string
	for _, f := range a.files[:min(len(a.files), 200)] {
		if a.gitApply(ctx, a.user(), f.Text, "--cached", "--check") != nil {
			names = append(names, f.Paths()[0])
		}
	}
	return names
}

// carryOut updates index and branch.
func (p *indexPlan) carryOut(ctx context.Context, r *Receipt) error {
	if !p.index {
		return nil
	}
	if err := p.a.gitApply(ctx, p.a.user(), p.a.patch, "--cached"); err != nil {
		return fmt.Errorf("update the index: %w", err)
	}
	r.Index = true
	if p.commit == "" {
		return nil
	}
	if err := p.a.moveRef(ctx, "HEAD", p.commit, p.a.o.Repo.head); err != nil {
		err = fmt.Errorf("move the branch: %w", err)
		if uerr := p.a.gitApply(ctx, p.a.user(), p.a.patch, "--cached", "--reverse"); uerr != nil {
			return fmt.Errorf("%w; and the index keeps the change: %w", err, uerr)
		}
		return err
	}
	r.Commit = p.commit
	return nil
}

// commitOn makes a commit object of parent plus the patch, in the name of the user.
func (a *applying) commitOn(ctx context.Context, parent, message string) (string, error) {
	name, email := a.o.Repo.setting("user.name"), a.o.Repo.setting("user.email")
	if name == "" || email == "" {
		return "", contract.Errorf(contract.KindInvalid, "git does not know who you are: set user.name and user.email")
	}
	g := a.user()
	g.index = filepath.Join(a.dir, "commit.index")
	defer os.Remove(g.index)
	if _, err := g.run(ctx, "read-tree", parent); err != nil {
		return "", fmt.Errorf("read the commit to build on: %w", err)
	}
	if err := a.gitApply(ctx, g, a.patch, "--cached"); err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "", conflict(slices.Clone(a.paths), "the commit to build on differs there: "+contract.CleanText(err.Error()))
	}
	out, err := g.run(ctx, "write-tree")
	if err != nil {
		return "", fmt.Errorf("make tree: %w", err)
	}
	date := time.Now().Format("@-0700")
	date = fmt.Sprintf("@%d %s", time.Now().Unix(), strings.TrimPrefix(date, "@"))
	g.env = append(
		g.env, "GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+email, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+email, "GIT_COMMITTER_DATE="+date,
	)
	g.input = strings.NewReader(strings.TrimRight(message, "\n") + "\n")
	out, err = g.run(ctx, "commit-tree", "--no-gpg-sign", "-p", parent, strings.TrimSpace(string(out)))
	if err != nil {
		return "", fmt.Errorf("make commit: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// moveRef moves a ref from one commit to another, with a line in its log.
func (a *applying) moveRef(ctx context.Context, ref, to, from string) error {
	g := git{dir: a.o.Repo.gitDir}
	g.settings = []string{"core.logAllRefUpdates=true"}
	if name := a.o.Repo.setting("user.name"); name != "" {
		g.env = []string{"GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + a.o.Repo.setting("user.email"), fmt.Sprintf("GIT_COMMITTER_DATE=@%d +0000", time.Now().Unix())}
	}
	_, err := g.run(ctx, "update-ref", "-m", "rivumi: apply", ref, to, from)
	if err != nil && ctx.Err() == nil {
		return contract.Errorf(contract.KindConflict, "%s is not where it was: %w", ref, err)
	}
	return err
}

// onBranch makes a new branch of the base plus the patch, and leaves the checkout alone.
func (a *applying) onBranch(ctx context.Context) (Receipt, error) {
	name := a.o.Branch
	if out, err := (git{dir: a.ledger()}).run(ctx, "check-ref-format", "--branch", name); err != nil || strings.TrimSpace(string(out)) != name {
		if ctx.Err() != nil {
			return a.receipt, err
		}
		return a.receipt, contract.Errorf(contract.KindInvalid, "%q is not a good name for a branch", name)
	}
	parent, _, err := a.o.Repo.Resolve(ctx, a.o.Base)
	if err != nil {
		return a.receipt, err
	}
	message := a.o.Commit
	if message == "" {
		message = "Apply a run's patch"
	}
	commit, err := a.commitOn(ctx, parent, message)
	if err != nil {
		return a.receipt, err
	}
	if a.o.Check {
		a.receipt.State = ReceiptChecked
		return a.receipt, nil
	}
	none := strings.Repeat("0", len(parent))
	if err := a.moveRef(ctx, "refs/heads/"+name, commit, none); err != nil {
		return a.receipt, err
	}
	a.receipt.At, a.receipt.State, a.receipt.Commit, a.receipt.Branch = now(), ReceiptApplied, commit, name
	return a.receipt, a.receipt.save()
}
