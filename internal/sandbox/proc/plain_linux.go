package proc

import (
	"context"
	"errors"
	"os"

	"github.com/rivumi/rivumi/internal/sandbox"
)

func (o *opener) open(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	want := o.want
	if want == "" {
		want = sandbox.TierFull
	}
	if s.MinTier != "" && !want.AtLeast(s.MinTier) {
		return nil, tooWeak(want, s.MinTier)
	}
	switch want {
	case sandbox.TierFull:
		ses, err := o.openFull(ctx, s)
		if err == nil || o.want != "" || code(err) != sandbox.ErrTier {
			return ses, err
		}
		return o.openNext(ctx, s, err)
	case sandbox.TierBwrap:
		return o.openBwrap(ctx, s)
	case sandbox.TierWeak:
		return openWeak(ctx, s, o.off)
	case sandbox.TierNone:
		return openPlain(ctx, s)
	}
	return nil, &sandbox.Error{Code: sandbox.ErrTier, What: "tier " + string(want) + " is not a local one", Hint: "choose another sandbox"}
}

// openNext goes one tier down where nobody asked for more. There is no step below that: what is
// weaker must be named.
func (o *opener) openNext(ctx context.Context, s sandbox.Spec, first error) (sandbox.Session, error) {
	if s.MinTier != "" && !sandbox.TierBwrap.AtLeast(s.MinTier) {
		return nil, first
	}
	ses, err := o.openBwrap(ctx, s)
	if code(err) == sandbox.ErrTier {
		return nil, first // its hint names bubblewrap where that helps
	}
	return ses, err
}

func tooWeak(have, want sandbox.Tier) error {
	return &sandbox.Error{
		Code: sandbox.ErrTier, What: "tier " + string(want) + " is asked for and " + string(have) + " is chosen",
		Hint: "choose a stronger sandbox",
	}
}

func code(err error) string {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// openPlain opens the plain tier: processes are held together, nothing is kept from them.
func openPlain(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	switch {
	case s.Overlay != nil:
		return nil, &sandbox.Error{Code: sandbox.ErrOverlay, What: "the plain tier has no mounts of its own", Hint: "use a plain tree"}
	case s.ReadOnly:
		return nil, &sandbox.Error{Code: sandbox.ErrTier, What: "the plain tier cannot keep the tree read-only", Hint: "choose a stronger sandbox"}
	}
	if st, err := os.Stat(s.Tree); err != nil {
		return nil, startError("open the tree", err)
	} else if !st.IsDir() {
		return nil, startError("open the tree", os.ErrInvalid)
	}
	ses, _, err := launch(ctx, processOf(stageSupervise), openRequest{Tree: s.Tree, Limits: s.Limits}, s.Env)
	if err != nil {
		return nil, err
	}
	ses.receipt = sandbox.Receipt{
		Tier:    sandbox.TierNone,
		Network: "unrestricted",
		Layers:  map[string]string{"processes": "subreaper"},
		Missing: []string{"commands can read and write whatever this user can, and use the network"},
		Way:     "plain",
	}
	return ses, nil
}
