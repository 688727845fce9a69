//go:build !linux

package proc

import (
	"context"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Attach fails here: descriptors reach a container only where the engine runs on the same kernel.
func Attach(_ context.Context, a Attachment) (sandbox.Session, error) {
	a.Conn.Close()
	a.Kill()
	return nil, &sandbox.Error{
		Code: sandbox.ErrTier, What: "commands can be run in a local container only on Linux",
		Hint: "use run --remote with a server on Linux",
	}
}
