package proc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

// With one hierarchy the group is made below the nearest parent that hands out the controllers. This
// shows where, on a tree of plain files; a kernel was not asked.
func TestGroupBelowADelegatedParent(t *testing.T) {
	mount := t.TempDir()
	app := filepath.Join(mount, "user.slice/app.slice")
	own := filepath.Join(app, "shell.scope")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	for p, text := range map[string]string{
		filepath.Join(mount, "cgroup.controllers"): "cpu memory pids", filepath.Join(app, "cgroup.subtree_control"): "memory pids\n", filepath.Join(own, "cgroup.subtree_control"): "\n",
	} {
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dirs := proc.GroupDirs(mount, "0::/user.slice/app.slice/shell.scope\n", sandbox.Limits{Processes: 5})
	if len(dirs) != 1 || filepath.Dir(dirs[0]) != app || !strings.HasPrefix(filepath.Base(dirs[0]), "rivumi-") {
		t.Errorf("made %q", dirs)
	}
	if err := os.WriteFile(filepath.Join(app, "cgroup.subtree_control"), []byte("cpu\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if dirs := proc.GroupDirs(mount, "0::/user.slice/app.slice/shell.scope\n", sandbox.Limits{Processes: 5}); len(dirs) != 0 {
		t.Errorf("made %q although no parent hands out pids", dirs)
	}
}

// As root, where the kernel has no limit of processes of its own, the group holds and says so; a
// command that is ended for memory is told apart.
func TestFullGroupTellsMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector does not start within a limit of memory; `make matrix` runs it without")
	}
	s := openWith(t, proc.Options{Want: sandbox.TierFull}, sandbox.Spec{Limits: sandbox.Limits{Processes: 64, Memory: 96 << 20}})
	if !strings.HasPrefix(s.Receipt().Layers["limits"], "cgroup") {
		t.Logf("no control group here: %q", s.Receipt().Layers["limits"])
		return
	}
	// No single process runs into its own limit, all of them together do.
	text := "for i in 1 2 3 4; do (head -c 70000000 /dev/zero | tail -c 69000000 > /dev/null) & done; wait"
	e, err := s.Run(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", text}}, sandbox.Output{})
	if err != nil || !e.Memory {
		t.Errorf("%+v %v", e, err)
	}
	if e, err := s.Run(t.Context(), sandbox.Command{Argv: []string{"true"}}, sandbox.Output{}); err != nil || e.Memory || e.Code != 0 {
		t.Errorf("the next command: %+v %v", e, err)
	}
}
