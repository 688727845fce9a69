package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Options choose how sessions are held.
type Options struct {
	// Want is the tier to open, or "" for the strongest this machine has. [sandbox.TierNone] and
	// [sandbox.TierWeak] are opened only when they are named here.
	Want sandbox.Tier
	// FullProc shows /proc/meminfo, cpuinfo and the rest, for programs that cannot do without.
	FullProc bool
	// Caches are shown in the contained tiers of sessions that have a scratch folder, each with a layer
	// for what is written; where layers cannot be mounted the frozen ones are shown read-only.
	Caches []sandbox.Cache
	// Proof is named in the receipts of sessions of its tier and kernel. Nil is none.
	Proof *sandbox.Proof
}

// New gives an opener of local sessions. What cannot be had is said by Open, with a *sandbox.Error
// of code ErrTier; nothing weaker is opened instead.
func New(o Options) sandbox.Opener {
	return &opener{want: o.Want, fullProc: o.FullProc, caches: o.Caches, proof: o.Proof}
}

type opener struct {
	want     sandbox.Tier
	fullProc bool
	caches   []sandbox.Cache
	proof    *sandbox.Proof
	off      []string // controls left out, for tests that show what each of them is for
}

// Open implements sandbox.Opener. ctx bounds the opening only.
func (o *opener) Open(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	if !filepath.IsAbs(s.Tree) {
		return nil, startError("open a session", fmt.Errorf("tree %q is not an absolute path", s.Tree))
	}
	s.Tree = filepath.Clean(s.Tree)
	if err := prepareScratch(s.Scratch); err != nil {
		return nil, startError("prepare the scratch folder", err)
	}
	ses, err := o.open(ctx, s)
	if held, ok := ses.(interface{ prove(p sandbox.Proof) }); ok && err == nil && o.proof != nil {
		held.prove(*o.proof)
	}
	return ses, err
}

// prepareScratch makes the folders that [sandbox.BaseEnv] names.
func prepareScratch(dir string) error {
	if dir == "" {
		return nil
	}
	for _, d := range []string{"home", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return err
		}
	}
	return nil
}

func startError(what string, err error) error {
	return &sandbox.Error{Code: sandbox.ErrStart, What: what, Err: err}
}

func check(c sandbox.Command) error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return startError("run a command", errors.New("no command"))
	}
	if !filepath.IsLocal(filepath.FromSlash(c.Dir)) && c.Dir != "" {
		return startError("run "+c.Argv[0], fmt.Errorf("folder %q leaves the tree", c.Dir))
	}
	return nil
}
