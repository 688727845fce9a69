package proc_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/matrix"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

func runMatrix(t *testing.T, inside sandbox.Opener) matrix.Table {
	t.Helper()
	table, err := matrix.Run(t.Context(), matrix.Options{Control: proc.New(proc.Options{Want: sandbox.TierNone}), Inside: inside})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := table.Write(&text); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	return table
}

// shownByAnybody are the attacks that work without a sandbox for every user; were one of them not
// to, the matrix would prove less than it says.
var shownByAnybody = []string{
	"read a key outside", "read it through a link in the tree", "hard link it into the tree", "write outside", "write next to the tree",
	"read another process's environment", "go through another process's root", "go through another process's folder",
	"list another process's descriptors", "see another process's arguments", "ptrace another process", "signal another process",
	"TCP to the host", "UDP to the host", "a socket by its path", "an abstract socket", "netlink", "io_uring", "new user namespace", "kernel keys", "type into a terminal",
}

func TestFullMatrixHolds(t *testing.T) {
	table := runMatrix(t, proc.New(proc.Options{Want: sandbox.TierFull}))
	for _, r := range table.Rows {
		if r.Result == matrix.Worked {
			t.Errorf("%s worked inside", r.Name)
		}
	}
	for _, name := range shownByAnybody {
		if table.Row(name).Control != "worked" {
			t.Errorf("%s: the control gave %q", name, table.Row(name).Control)
		}
	}
	if os.Getuid() == 0 {
		for _, name := range []string{"read password hashes", "open core_pattern for writing", "mount", "change the root", "gain a capability", "write a system folder"} {
			if table.Row(name).Result != matrix.Stopped {
				t.Errorf("as root, %s: %+v", name, table.Row(name))
			}
		}
	}
}

// unlimitedAsRoot is held by a control group in the full tier; the kernel's own limit does not count
// for user 0, and the other tiers have no group.
const unlimitedAsRoot = "start 400 processes"

func TestBwrapMatrixHolds(t *testing.T) {
	needsBwrap(t)
	for _, r := range runMatrix(t, proc.New(proc.Options{Want: sandbox.TierBwrap})).Rows {
		if r.Result == matrix.Worked && !(os.Getuid() == 0 && r.Name == unlimitedAsRoot) {
			t.Errorf("%s worked", r.Name)
		}
	}
}

// Each control left out turns rows red that nothing else holds.
func TestFullControlsAreNeeded(t *testing.T) {
	for _, c := range []struct {
		tier sandbox.Tier
		off  string
		red  []string
	}{
		{sandbox.TierFull, "seccomp", []string{"netlink", "io_uring", "new user namespace", "kernel keys"}},
		{sandbox.TierWeak, "seccomp", []string{"TCP to the host", "UDP to the host", "netlink", "new user namespace", "io_uring"}},
		{sandbox.TierWeak, "landlock", []string{"read a key outside", "write outside", "signal another process"}},
	} {
		t.Run(string(c.tier)+" without "+c.off, func(t *testing.T) {
			table := runMatrix(t, proc.NewWithout(c.tier, c.off))
			for _, name := range c.red {
				if r := table.Row(name); r.Result != matrix.Worked {
					t.Errorf("%s: %+v", name, r)
				}
			}
		})
	}
}

// What the weak tier holds, and what it says it does not.
func TestWeakMatrix(t *testing.T) {
	table := runMatrix(t, proc.New(proc.Options{Want: sandbox.TierWeak}))
	known := map[string]bool{
		"list another process's descriptors": true, "see another process's arguments": true, "change a file outside": true,
		// As root the weak tier keeps some of root's ways open that Landlock does not know.
		"make a control group": true, unlimitedAsRoot: os.Getuid() == 0,
		// The call returns, but reaches only what the command itself has started.
		"signal everything": true,
		// The file's mode says that it may be written; Landlock lets nobody open it for that.
		"rewrite the own program": true,
	}
	for _, r := range table.Rows {
		if r.Result == matrix.Worked && !known[r.Name] {
			t.Errorf("%s worked", r.Name)
		}
	}
}
