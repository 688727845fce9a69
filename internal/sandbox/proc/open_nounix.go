//go:build !unix

package proc

import (
	"context"

	"github.com/rivumi/rivumi/internal/sandbox"
)

func (o *opener) open(context.Context, sandbox.Spec) (sandbox.Session, error) {
	return nil, &sandbox.Error{
		Code: sandbox.ErrTier, What: "commands are only run on Linux, macOS and the BSDs",
		Hint: "use the docker sandbox",
	}
}
