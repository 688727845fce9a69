// Package matrix tries to get out of a sandbox. Every attack is run twice: in the plain tier, to
// show that it works for this user on this machine at all, and in the sandbox under test, where it
// must not. Targets are canaries made for the occasion: files, a process, listeners on loopback.
// Nothing else is touched, and no attack does harm where it succeeds.
//
// The table is what a person reads in `rivumi doctor --sandbox` and what a bundle may keep. A table
// without a hole is not a proof.
package matrix

import (
	"fmt"
	"io"
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
	fmt.Fprintf(tw, "attack\tresult\twithout a sandbox\tin %s\n", t.Receipt.Tier)
	for _, r := range t.Rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", r.Name, r.Result, r.Control, r.Inside)
	}
	return tw.Flush()
}

// Options are the two places. Control is opened as the plain tier.
type Options struct {
	Control sandbox.Opener
	Inside  sandbox.Opener
	Dir     string // where canaries and trees go; "" is the system's temporary folder
}
