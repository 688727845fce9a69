package runner_test

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/runner"
)

// verified runs the task and gives a job that verifies its bundle.
func verified(t *testing.T, checks ...contract.Check) (*world, runner.VerifyJob) {
	t.Helper()
	w := newWorld(t, toy())
	w.task.Checks = checks
	w.script(editThree)
	want(t, w.run(t.Context()), contract.Completed, "")
	return w, runner.VerifyJob{
		Bundle: os.DirFS(w.s.Dir), Repository: w.repo, Dir: filepath.Join(t.TempDir(), "verify"),
		Keys: []ed25519.PublicKey{w.c.Signer.Public()},
	}
}

func (w *world) verify(t *testing.T, j runner.VerifyJob) *runner.Verification {
	t.Helper()
	v, err := runner.New(w.c).Verify(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	if fingerprint(t, w.repo) != w.before {
		t.Error("the user's repository changed")
	}
	if _, err := os.Lstat(j.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder of the verification is still there: %v", err)
	}
	return v
}

func TestVerifyHoldsWhatTheRunRecorded(t *testing.T) {
	w, j := verified(t, contract.Check{"sh", "test.sh"}, contract.Check{"true"})
	v := w.verify(t, j)
	if !v.OK() || !v.Applies || !v.Same || len(v.Checks) != 2 || !v.Checks[0].Same {
		t.Fatalf("%+v", v)
	}
}

func TestVerifyFindsWhatDoesNotHold(t *testing.T) {
	edit := func(t *testing.T, path, from, to string) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), from) {
			t.Fatalf("%s has no %q: %v", path, from, err)
		}
		put(t, path, strings.Replace(string(data), from, to, 1))
	}
	has := func(v *runner.Verification, word string) bool {
		return slices.ContainsFunc(v.Problems, func(p string) bool { return strings.Contains(p, word) })
	}
	t.Run("another patch", func(t *testing.T) {
		w, j := verified(t, contract.Check{"sh", "test.sh"})
		edit(t, filepath.Join(w.s.Dir, contract.ArtifactPatch), "+three", "+drei!")
		if v := w.verify(t, j); v.OK() || v.Same || len(v.Checks) != 0 || !has(v, "digest_mismatch") {
			t.Fatalf("%+v", v)
		}
	})
	t.Run("a check that depends on more than the tree", func(t *testing.T) {
		state := filepath.Join(t.TempDir(), "state")
		w, j := verified(t, contract.Check{"sh", "-c", "test ! -e " + state + " && touch " + state})
		if v := w.verify(t, j); v.OK() || !v.Same || v.Checks[0].Same || !has(v, "exit code 1") {
			t.Fatalf("%+v", v)
		}
	})
	t.Run("no base", func(t *testing.T) {
		w, j := verified(t)
		j.Repository = makeRepo(t, map[string]string{"other": "x"})
		if v := w.verify(t, j); v.OK() || v.Applies || !has(v, "not in this repository") {
			t.Fatalf("%+v", v)
		}
	})
	t.Run("foreign bundle", func(t *testing.T) {
		mark := filepath.Join(t.TempDir(), "ran")
		w, j := verified(t, contract.Check{"touch", mark})
		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
		j.Keys = nil
		if v := w.verify(t, j); v.OK() || !has(v, "not signed") {
			t.Fatalf("%+v", v)
		}
		if _, err := os.Lstat(mark); err == nil {
			t.Fatal("a foreign bundle's check ran")
		}
		j.Foreign = true
		if v := w.verify(t, j); !v.OK() || len(v.Checks) != 1 {
			t.Fatalf("%+v", v)
		}
	})
}

func TestVerifyNeedsTheUncommittedWorkTheRunBeganWith(t *testing.T) {
	w := newWorld(t, toy())
	put(t, filepath.Join(w.repo, "a.txt"), "one\ntwo\nmine\n")
	w.before = fingerprint(t, w.repo)
	w.script(editThree)
	want(t, w.run(t.Context()), contract.Completed, "")
	j := runner.VerifyJob{Bundle: os.DirFS(w.s.Dir), Repository: w.repo, Dir: filepath.Join(t.TempDir(), "verify"), Keys: []ed25519.PublicKey{w.c.Signer.Public()}}
	if v := w.verify(t, j); !v.OK() {
		t.Fatalf("%+v", v)
	}
	put(t, filepath.Join(w.repo, "a.txt"), "one\ntwo\n")
	w.before = fingerprint(t, w.repo)
	if v := w.verify(t, j); v.OK() || v.Applies {
		t.Fatalf("%+v", v)
	}
}
