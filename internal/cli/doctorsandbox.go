package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/matrix"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

// containment is what `doctor --sandbox` found; the last one is kept in the state folder and named in
// the receipts of runs for as long as the tier, the kernel and the program are the same.
type containment struct {
	OK      bool           `json:"ok"`
	Digest  string         `json:"digest"`
	Tier    sandbox.Tier   `json:"tier"`
	Kernel  string         `json:"kernel"`
	Program string         `json:"program"` // version of rivumi
	At      time.Time      `json:"at"`
	Stopped int            `json:"stopped"`
	Worked  int            `json:"worked"`
	Unshown int            `json:"unshown"` // attacks that do not work here without a sandbox either
	Matrix  []matrix.Row   `json:"matrix"`
	Layers  map[string]any `json:"layers"`
}

// containmentFile is its name in the state folder.
const containmentFile = "containment.json"

// runAttacks tries to get out of the place that runs get, tells how it went and keeps the result.
func (o *doctorOptions) runAttacks(ctx context.Context) error {
	opener := proc.New(proc.Options{})
	if runtime.GOOS != "linux" {
		return &sandbox.Error{Code: sandbox.ErrTier, What: "the attacks are written for Linux; there is no local containment on " + runtime.GOOS, Hint: "use -s docker"}
	}
	table, err := matrix.Run(ctx, matrix.Options{Control: proc.New(proc.Options{Want: sandbox.TierNone}), Inside: opener})
	if err != nil {
		return err
	}
	c := containment{
		OK: table.Holds(), Digest: table.Digest(), Tier: table.Receipt.Tier, Kernel: table.Receipt.Versions["kernel"], Program: o.Version, At: o.Now().UTC(),
		Stopped: table.Count(matrix.Stopped), Worked: table.Count(matrix.Worked), Unshown: table.Count(matrix.Unshown), Matrix: table.Rows, Layers: map[string]any{},
	}
	for name, text := range table.Receipt.Layers {
		c.Layers[name] = text
	}
	if err := o.keepContainment(c); err != nil {
		return err
	}
	if o.JSON || o.JQ != "" {
		err = writeJSON(o.IO.Out, c, o.JQ)
	} else if err = table.Write(o.IO.Out); err == nil {
		fmt.Fprintf(o.IO.Out, "\n%d stopped, %d worked, %d not shown: they do not work here without a sandbox either\ntier %s, %s\n",
			c.Stopped, c.Worked, c.Unshown, c.Tier, c.Digest)
	}
	if err == nil && !c.OK {
		err = ended(contract.ExitFailed)
	}
	return err
}

func (f *Factory) keepContainment(c containment) error {
	dir, err := f.StateDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, containmentFile), contract.MarshalJSON(c), 0o600); err != nil {
		return fmt.Errorf("keep the result: %w", err)
	}
	return nil
}

// proven gives the last result for receipts, nil where there is none of this program, or one with a hole.
func (f *Factory) proven() *sandbox.Proof {
	dir, err := f.StateDir()
	if err != nil {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, containmentFile))
	if err != nil {
		return nil
	}
	var c containment
	if json.Unmarshal(b, &c) != nil || !c.OK || c.Program != f.Version {
		return nil
	}
	return &sandbox.Proof{Tier: c.Tier, Kernel: c.Kernel, Digest: c.Digest}
}
