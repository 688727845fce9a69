package proc

import "github.com/rivumi/rivumi/internal/sandbox"

// Report says which tiers this machine has.
type Report struct {
	Best     sandbox.Tier      `json:"best"` // what New opens without a wish; "" when it would refuse
	Tiers    []TierReport      `json:"tiers"`
	Versions map[string]string `json:"versions,omitempty"` // kernel, landlock
}

// TierReport is one tier, tried for real where that is possible.
type TierReport struct {
	Tier      sandbox.Tier      `json:"tier"`
	Available bool              `json:"available"`
	Layers    map[string]string `json:"layers,omitempty"`
	Missing   string            `json:"missing,omitempty"`
	Hint      string            `json:"hint,omitempty"`
}
