//go:build !linux

package proc

import (
	"context"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Main does nothing here: only Linux starts the program again for a sandbox.
func Main([]string) (handled bool, code int) { return false, 0 }

func (o *opener) open(context.Context, sandbox.Spec) (sandbox.Session, error) {
	return nil, &sandbox.Error{
		Code: sandbox.ErrTier, What: "local sandboxes are only built for Linux",
		Hint: "use the docker sandbox",
	}
}
