// Package replay plays recorded runs of other agents against the real repositories they were recorded on.
// The recordings and the repositories are not part of this project: the tests are skipped, and say so,
// unless RIVUMI_TRAJ_REPOS names the folder of the repositories (the recording's id, OWNER__NAME, or
// NAME; a checkout or bare). The recordings (rivumi-replay/1, *.jsonl) are in the same folder, or in the one that RIVUMI_TRAJ
// names. The commands of a recording are foreign: they run in the strongest sandbox of the machine, or
// in the tier that RIVUMI_TRAJ_TIER names, without network.
package replay

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model/scripted"
	"github.com/rivumi/rivumi/internal/runner"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/testkit/runlog"
)

func TestMain(m *testing.M) {
	if handled, code := proc.Main(os.Args); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func TestRecordedRunsEndInTheirPatches(t *testing.T) {
	runs, repos := os.Getenv("RIVUMI_TRAJ"), os.Getenv("RIVUMI_TRAJ_REPOS")
	if repos == "" {
		t.Skip("SKIPPED: 0 recorded runs replayed; set RIVUMI_TRAJ_REPOS to replay them")
	}
	if runs == "" {
		runs = repos
	}
	files, err := filepath.Glob(filepath.Join(runs, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in %s (%v)", runs, err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".jsonl"), func(t *testing.T) { replay(t, f, repos) })
	}
}

func replay(t *testing.T, file, repos string) {
	// The last step of these recordings is the submit command of the agent that made them.
	r, err := scripted.LoadReplay(file, scripted.ReplayOptions{SkipLast: true})
	if err != nil {
		t.Fatal(err)
	}
	repo := checkout(t, r.Header, repos)
	want := patchedTree(t, repo, r)
	signer, err := bundle.OpenSigner(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	task := contract.Task{
		Instruction: r.Header.Instruction, Repository: &contract.Repository{Path: repo},
		Limits:   contract.Limits{MaxSteps: r.Steps() + 2, WallTimeSeconds: 1800},
		Approval: contract.ApprovalPolicy{Policy: contract.PolicyAllowAll},
	}
	s := runlog.New(t, task)
	e := runner.New(runner.Config{
		Signer: signer,
		Sandbox: func(context.Context, contract.Task) (runner.Place, error) {
			return runner.Place{Opener: proc.New(proc.Options{Want: sandbox.Tier(os.Getenv("RIVUMI_TRAJ_TIER"))})}, nil
		},
		Model: func(context.Context, contract.Task) (runner.ModelSetup, error) {
			return runner.ModelSetup{Model: r, Name: "replay"}, nil
		},
	}).Run(t.Context(), runner.Job{Run: contract.Run{ID: runlog.RunID}, Task: task, Session: s, Dir: t.TempDir()})
	sum := scripted.Summarise(r.Report())
	t.Logf("%d calls, exit code same in %d, output same in %d", sum.Calls, sum.SameExit, sum.SameOutput)
	if e.State != contract.Completed {
		t.Fatalf("ended %s: %+v", e.State, e.Error)
	}
	if e.Result.FinalTree != want {
		t.Errorf("the run ended in tree %s, the recorded patch leads to %s\n%s", e.Result.FinalTree, want, s.Artifact(t, contract.ArtifactPatch))
	}
}

// checkout makes a clone at the base commit; a repository that is not there skips the run.
func checkout(t *testing.T, h scripted.Header, repos string) string {
	t.Helper()
	from := ""
	for _, name := range []string{h.ID, strings.ReplaceAll(h.Repo, "/", "__"), filepath.Base(h.Repo)} {
		if _, err := os.Stat(filepath.Join(repos, name)); name != "" && err == nil {
			from = filepath.Join(repos, name)
			break
		}
	}
	if from == "" {
		t.Skipf("SKIPPED: no repository for %s in %s", h.Repo, repos)
	}
	to := filepath.Join(t.TempDir(), "repo")
	git(t, ".", "", "clone", "-q", "--shared", "--no-checkout", from, to)
	git(t, to, "", "checkout", "-q", "--detach", h.BaseCommit)
	return to
}

// patchedTree is the tree that the recorded patch leads to.
func patchedTree(t *testing.T, repo string, r *scripted.Replay) string {
	t.Helper()
	patch, index := filepath.Join(t.TempDir(), "patch"), filepath.Join(t.TempDir(), "index")
	if r.End == nil {
		t.Fatal("the recording has no end")
	}
	if err := os.WriteFile(patch, []byte(r.End.Patch), 0o600); err != nil {
		t.Fatal(err)
	}
	env := "GIT_INDEX_FILE=" + index
	git(t, repo, env, "read-tree", "HEAD")
	if r.End.Patch != "" {
		git(t, repo, env, "apply", "--cached", "--whitespace=nowarn", patch)
	}
	return strings.TrimSpace(git(t, repo, env, "write-tree"))
}

func git(t *testing.T, dir, env string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}
