//go:build !linux

package proc

import (
	"context"
	"runtime"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Detect says that only Linux has local sandboxes so far.
func Detect(context.Context) Report {
	return Report{Tiers: []TierReport{
		{Tier: sandbox.TierFull, Missing: "contained local sandboxes are only built for Linux", Hint: "use the docker sandbox"},
		{Tier: sandbox.TierNone, Available: runtime.GOOS != "windows"},
	}}
}
