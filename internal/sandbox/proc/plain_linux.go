package proc

import (
	"context"
	"os"

	"github.com/rivumi/rivumi/internal/sandbox"
)

func (o *opener) open(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	want := o.want
	if want == "" {
		want = sandbox.TierFull
	}
	if s.MinTier != "" && !want.AtLeast(s.MinTier) {
		return nil, &sandbox.Error{
			Code: sandbox.ErrTier, What: "tier " + string(s.MinTier) + " is asked for and " + string(want) + " is chosen",
			Hint: "choose a stronger sandbox",
		}
	}
	switch want {
	case sandbox.TierFull:
		return o.openFull(ctx, s)
	case sandbox.TierNone:
		return openPlain(ctx, s)
	}
	return nil, &sandbox.Error{Code: sandbox.ErrTier, What: "tier " + string(want) + " is not a local one that is built", Hint: "choose another sandbox"}
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
	ses, _, err := launch(ctx, stageSupervise, openRequest{Tree: s.Tree}, s.Env)
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
