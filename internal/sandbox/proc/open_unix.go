//go:build unix && !linux

package proc

import (
	"context"

	"github.com/rivumi/rivumi/internal/sandbox"
)

func (o *opener) open(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	if o.want != sandbox.TierNone || s.MinTier != "" && !sandbox.TierNone.AtLeast(s.MinTier) {
		return nil, &sandbox.Error{
			Code: sandbox.ErrTier, What: "contained local sandboxes are only built for Linux",
			Hint: "use the docker sandbox, or none",
		}
	}
	return openSimple(ctx, s)
}
