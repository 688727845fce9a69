package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/runner"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/testkit/runlog"
)

// contained makes the world run in the strongest tier of this machine; the test is skipped where it
// has no contained one.
func (w *world) contained(t *testing.T, overlay bool) {
	t.Helper()
	opener := proc.New(proc.Options{})
	base := t.TempDir()
	for _, d := range []string{"tree", "scratch/home", "scratch/tmp"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	probe, err := opener.Open(t.Context(), sandbox.Spec{Tree: filepath.Join(base, "tree"), Scratch: filepath.Join(base, "scratch"), Env: []string{"PATH=/bin"}})
	if place, ok := errors.AsType[*sandbox.Error](err); ok && place.Code == sandbox.ErrTier {
		if os.Getenv("RIVUMI_CI") != "" {
			t.Fatalf("no contained tier here, and RIVUMI_CI does not let a sandbox test skip: %s", err)
		}
		t.Skipf("no contained tier here: %s", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := probe.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.c.CacheDir = t.TempDir()
	w.c.Sandbox = func(context.Context, contract.Task) (runner.Place, error) {
		return runner.Place{Opener: opener, Overlay: overlay}, nil
	}
}

func TestEveryWayToMakeATreeEndsInTheSameResult(t *testing.T) {
	trees := map[string]string{}
	for _, c := range []struct {
		name    string
		overlay bool
		way     string
	}{{"plain", false, "worktree"}, {"contained", false, "worktree"}, {"contained overlay", true, "overlay"}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, toy())
			put(t, filepath.Join(w.repo, "mine.txt"), "not committed\n")
			w.before = fingerprint(t, w.repo)
			if c.name != "plain" {
				w.contained(t, c.overlay)
			}
			w.task.Checks = []contract.Check{{"sh", "test.sh"}, {"test", "-f", "mine.txt"}}
			w.script(`
turns:
  - calls:
      - {name: read, arguments: {path: a.txt}}
      - {name: edit, arguments: {path: a.txt, old: "two\n", new: "two\nthree\n"}}
      - {name: bash, arguments: {command: "git status --short; cat mine.txt; git add -A && git commit -qm x && rm test.sh && git checkout -q HEAD test.sh"}}
      - {name: write, arguments: {path: sub/new.txt, content: "new\n"}}
  - text: Done.
`)
			e := w.run(t.Context())
			for _, r := range runlog.All[contract.ToolResult](w.s.Events()) {
				if r.IsError {
					t.Errorf("tool: %s", r.Text)
				}
			}
			want(t, e, contract.Completed, "")
			ready := runlog.All[contract.WorkspaceReady](w.s.Events())[0]
			if ready.Way != c.way || ready.Sandbox == "" || ready.Dirty.Included != 1 {
				t.Errorf("ready %+v", ready)
			}
			trees[e.Result.FinalTree] = c.name
			w.bundle()
		})
	}
	if len(trees) > 1 {
		t.Errorf("different final trees: %v", trees)
	}
}

func TestOverlayThatCannotBeHadFallsBackToAWorktree(t *testing.T) {
	w := newWorld(t, toy())
	w.c.CacheDir = t.TempDir()
	w.c.Sandbox = func(context.Context, contract.Task) (runner.Place, error) {
		place, err := plain(t.Context(), w.task)
		place.Overlay = true // the plain tier refuses overlays
		return place, err
	}
	w.script(editThree)
	want(t, w.run(t.Context()), contract.Completed, "")
	if ready := runlog.All[contract.WorkspaceReady](w.s.Events()); len(ready) != 1 || ready[0].Way != "worktree" {
		t.Errorf("ready %+v", ready)
	}
}

func TestSE01ContainedCommandsSeeNoKeyAtAll(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", secret)
	w := newWorld(t, toy())
	w.contained(t, false)
	w.c.Secrets = nil // redaction off: the place alone must hold it back
	m := w.script(`
turns:
  - calls:
      - {name: bash, arguments: {command: "env; for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; done 2>/dev/null; true"}}
  - text: Done.
`)
	want(t, w.run(t.Context()), contract.Completed, "")
	for _, r := range m.all() {
		for _, msg := range r.Messages {
			for _, res := range msg.Results {
				if strings.Contains(res.Text, secret) {
					t.Error("the key reached a command")
				}
			}
		}
	}
}

func TestReadOnlyPlaceLetsCommandsChangeNothing(t *testing.T) {
	w := newWorld(t, toy())
	w.contained(t, false)
	w.task.Sandbox.Mode = contract.SandboxReadOnly
	w.script(editThree)
	e := w.run(t.Context())
	want(t, e, contract.Completed, "")
	if e.Result.Outcome != contract.OutcomeNoChanges {
		t.Errorf("changed %+v", e.Result.ChangedFiles)
	}
}
