package proc_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/matrix"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

// cannotBeShown are the rows that no knob can turn red, with why.
var cannotBeShown = map[string]string{
	"inherited descriptors": "nothing is ever handed down, so there is no control to leave out",
}

// Every row of the matrix names the controls that hold it. Left out, and nothing else, the attack
// works in the full tier: a row is green because of them and not because the attack is broken.
func TestFullEveryRowTurnsRed(t *testing.T) {
	if raceEnabled {
		t.Skip("each of some thousand attackers would take a second to exit; `make matrix` runs it without the race detector")
	}
	base := runMatrix(t, proc.New(proc.Options{Want: sandbox.TierFull}))
	sets := map[string][]matrix.Row{}
	for _, r := range base.Rows {
		switch {
		case len(r.Held) == 0 && cannotBeShown[r.Name] == "":
			t.Errorf("%s: no control is named", r.Name)
		case len(r.Held) > 0:
			key := strings.Join(r.Held, "+")
			sets[key] = append(sets[key], r)
		}
	}
	for key, rows := range sets {
		t.Run("without "+key, func(t *testing.T) {
			table := runMatrix(t, proc.NewWithout(sandbox.TierFull, strings.Split(key, "+")...))
			for _, r := range rows {
				switch got := table.Row(r.Name); {
				case r.Result == matrix.Unshown:
					t.Logf("%s: not shown, it does not work here without a sandbox either (%s)", r.Name, r.Control)
				case got.Result != matrix.Worked:
					t.Errorf("%s stays green: %q", r.Name, got.Inside)
				}
			}
		})
	}
}

// A knob is a field that only tests of this package can set: neither arguments nor environment of the
// program reach it. A start stage entered by hand makes a weaker place for whoever did that, and no
// session of a run.
func TestFullKnobsAreNotOfTheProgram(t *testing.T) {
	for _, name := range []string{"RIVUMI_SANDBOX_OFF", "RIVUMI_OFF"} {
		t.Setenv(name, "seccomp,landlock,view")
	}
	s := openWith(t, proc.Options{}, sandbox.Spec{})
	for _, layer := range []string{"seccomp", "landlock", "capabilities", "no_new_privs", "namespaces", "root"} {
		if s.Receipt().Layers[layer] == "" {
			t.Errorf("%s is not there: %v", layer, s.Receipt().Layers)
		}
	}
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		t.Error(err)
	}
}
