package proc

import "github.com/rivumi/rivumi/internal/sandbox"

// NewWithout gives an opener whose places lack the named controls. It exists in tests only.
func NewWithout(want sandbox.Tier, controls ...string) sandbox.Opener {
	return &opener{want: want, off: controls}
}
