package runner_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/testkit/runlog"
)

// The tree is larger than the room that is left for its patch: the run must not end as one that changed
// nothing, and leaves no empty patch.
func TestDK02ATreeThatCannotBeTakenIsTold(t *testing.T) {
	w := newWorld(t, toy())
	w.dir = t.TempDir()
	if err := unix.Mount("tmpfs", w.dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("NOT TESTED: a full disk needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(w.dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	w.script(`
turns:
  - calls: [{name: bash, arguments: {command: "echo three >> a.txt; head -c 3500000 /dev/urandom > big"}}]
  - text: Done.
`)
	e := w.run(t.Context())
	want(t, e, contract.Failed, contract.FailDisk)
	if len(e.Result.ChangedFiles) != 2 || e.Result.Patch != nil {
		t.Errorf("result %+v", e.Result)
	}
	told := false
	for _, n := range runlog.All[contract.Notice](w.s.Events()) {
		told = told || strings.Contains(n.Text, "stays in the worktree")
	}
	if !told {
		t.Error("nobody was told where the work is")
	}
}
