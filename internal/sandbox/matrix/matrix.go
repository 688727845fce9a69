// Package matrix tries to get out of a sandbox. Every attack is run twice: in the plain tier, to
// show that it works for this user on this machine at all, and in the sandbox under test, where it
// must not. Targets are canaries made for the occasion: files, a process, listeners on loopback.
// Nothing else is touched, and no attack does harm where it succeeds.
//
// The table is what a person reads in `rivumi doctor --sandbox` and what a bundle may keep. A table
// without a hole is not a proof.
package matrix

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Result says how an attack ended.
type Result string

// The results.
const (
	Stopped Result = "stopped" // works outside, not inside
	Worked  Result = "worked"  // works inside: a hole
	Unshown Result = "unshown" // does not work outside either, so that this machine shows nothing
)

// Row is one attack.
type Row struct {
	Name    string `json:"name"`
	Result  Result `json:"result"`
	Control string `json:"control"` // what happened in the plain tier
	Inside  string `json:"inside"`  // what happened in the sandbox
	// Held names the controls of the full tier that stop it: without all of them it works there, which
	// tests show.
	Held []string `json:"held,omitempty"`
}

// Table is all of them.
type Table struct {
	Receipt sandbox.Receipt `json:"receipt"`
	Rows    []Row           `json:"rows"`
}

// Holds reports whether no attack worked.
func (t Table) Holds() bool {
	for _, r := range t.Rows {
		if r.Result == Worked {
			return false
		}
	}
	return len(t.Rows) > 0
}

// Count gives how many rows ended with r.
func (t Table) Count(r Result) int {
	n := 0
	for _, row := range t.Rows {
		if row.Result == r {
			n++
		}
	}
	return n
}

// Digest identifies what was found: the tier, its layers, and each attack with its result, in order.
func (t Table) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "rivumi matrix 1\n%s\n", t.Receipt.Tier)
	for _, name := range slices.Sorted(maps.Keys(t.Receipt.Layers)) {
		fmt.Fprintf(h, "%q %q\n", name, t.Receipt.Layers[name])
	}
	for _, r := range t.Rows {
		fmt.Fprintf(h, "%q %s\n", r.Name, r.Result)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// Row gives the row of an attack; its result is "" for an unknown one.
func (t Table) Row(name string) Row {
	for _, r := range t.Rows {
		if r.Name == name {
			return r
		}
	}
	return Row{Name: name}
}

// Write prints the table for people.
func (t Table) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "attack\tresult\twithout a sandbox\tin %s\theld by\n", t.Receipt.Tier)
	for _, r := range t.Rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.Result, r.Control, r.Inside, strings.Join(r.Held, ", "))
	}
	return tw.Flush()
}

// Options are the two places. Control is opened as the plain tier.
type Options struct {
	Control sandbox.Opener
	Inside  sandbox.Opener
	Dir     string // where canaries and trees go; "" is the system's temporary folder
}
