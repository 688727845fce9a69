package runner_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/redact"
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
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(childMain(spec))
	}
	os.Exit(m.Run())
}

const secret = "sk-test-000111222333"

// world is a user's repository with a runner beside it.
type world struct {
	t       testing.TB
	repo    string
	dir     string // of the run
	task    contract.Task
	c       runner.Config
	s       *runlog.Session
	before  string // fingerprint of the repository
	errStop error
	patch   *string // for a resume whose workspace is gone
}

// toy is the small repository of the case list: a.txt with two lines, a shell test, an ignore list.
func toy() map[string]string {
	return map[string]string{
		"a.txt":      "one\ntwo\n",
		"test.sh":    "#!/bin/sh\ngrep -q three a.txt\n",
		".gitignore": ".env\ndeps/\n",
	}
}

func newWorld(t testing.TB, files map[string]string) *world {
	t.Helper()
	w := &world{t: t, repo: makeRepo(t, files), dir: t.TempDir()}
	signer, err := bundle.OpenSigner(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.task = contract.Task{
		Instruction: "make it three", Model: "script:test", Repository: &contract.Repository{Path: w.repo},
		Limits:   contract.Limits{MaxSteps: 10, WallTimeSeconds: 120},
		Approval: contract.ApprovalPolicy{Policy: contract.PolicyAllowAll}, Sandbox: contract.Sandbox{Mode: contract.SandboxNone},
	}
	w.errStop = errors.New("cancel requested")
	w.c = runner.Config{
		Sandbox: plain, Signer: signer, Secrets: redact.New(map[string]string{"KEY": secret}),
		Causes: runner.Causes{Cancel: w.errStop, WallTime: errWall, Shutdown: errShutdown},
		Retry:  model.RetryOptions{Base: time.Millisecond, Max: time.Millisecond},
	}
	w.before = fingerprint(t, w.repo)
	return w
}

var (
	errWall     = errors.New("wall time")
	errShutdown = errors.New("shutdown")
)

func plain(context.Context, contract.Task) (runner.Place, error) {
	return runner.Place{Opener: proc.New(proc.Options{Want: sandbox.TierNone})}, nil
}

func makeRepo(t testing.TB, files map[string]string) string {
	t.Helper()
	repo := filepath.Join(t.TempDir(), "repo")
	for name, text := range files {
		put(t, filepath.Join(repo, name), text)
	}
	git(t, repo, "init", "-q", "-b", "main")
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-q", "-m", "first")
	return repo
}

func put(t testing.TB, path, text string) {
	t.Helper()
	mode := fs.FileMode(0o644)
	if strings.HasSuffix(path, ".sh") {
		mode = 0o755
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
		t.Fatal(err)
	}
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_OPTIONAL_LOCKS=0",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.org",
		"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// fingerprint covers names, modes, times and bytes of a whole checkout, its .git included.
func fingerprint(t testing.TB, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, when := strings.TrimPrefix(p, dir), info.ModTime().UnixNano()
		if strings.HasPrefix(name, "/.git/objects/") && d.Type().IsRegular() {
			when = 0 // git in the agent's tree freshens objects that it would write and finds here
		}
		fmt.Fprintf(h, "%s %s %d\n", name, info.Mode(), when)
		if d.Type().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			h.Write(data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// script sets the turns of the model.
func (w *world) script(yaml string) *watched {
	w.t.Helper()
	p, err := scripted.Parse([]byte(yaml))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.model(p)
}

func (w *world) model(m agent.Model) *watched {
	seen := &watched{model: m}
	w.c.Model = func(context.Context, contract.Task) (runner.ModelSetup, error) {
		return runner.ModelSetup{Model: seen, Name: "scripted"}, nil
	}
	return seen
}

// run carries the task out and looks at what must hold after every run.
func (w *world) run(ctx context.Context) contract.Ending {
	w.t.Helper()
	t, ok := w.t.(*testing.T)
	if !ok {
		w.t.Fatal("run is for tests")
	}
	if w.s == nil {
		w.s = runlog.New(t, w.task)
	}
	e := runner.New(w.c).Run(ctx, w.job())
	w.holds(t, e)
	return e
}

func (w *world) job() runner.Job {
	now := contract.At(time.Now())
	return runner.Job{Run: contract.Run{ID: runlog.RunID, StartedAt: &now, Attempt: 1}, Task: w.task, Session: w.s, Dir: w.dir}
}

// holds checks the invariants of every ended run.
func (w *world) holds(t *testing.T, e contract.Ending) {
	t.Helper()
	if !e.State.Terminal() || e.Result == nil || (e.State == contract.Completed) != (e.Error == nil) {
		t.Fatalf("ending %+v", e)
	}
	if e.State != contract.Completed && e.Result.Outcome != "" {
		t.Errorf("a %s run claims %s", e.State, e.Result.Outcome)
	}
	if fingerprint(t, w.repo) != w.before {
		t.Error("the user's repository changed")
	}
	if err := w.s.Append(context.WithoutCancel(t.Context()), contract.NewEvent(0, contract.RunEnded{State: e.State, Result: e.Result, Error: e.Error})); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(w.s.Dir, contract.ArtifactEvents), string(w.s.Raw()))
	if strings.Contains(string(w.s.Raw()), secret) {
		t.Error("the log holds the secret")
	}
	crashed := e.Error != nil && (e.Error.Code == contract.FailInternal || e.Error.Code == contract.FailDisk)
	for name, n := range resultsOf(w.s.Events()) {
		if n != 1 && (n != 0 || !crashed) { // a resumed run answers what a crash left open
			t.Errorf("call %s has %d results", name, n)
		}
	}
}

// bundle gives what checking the run's bundle found; it must be whole.
func (w *world) bundle() *bundle.Report {
	w.t.Helper()
	r, err := bundle.Check(os.DirFS(w.s.Dir), w.c.Signer.Public())
	if err != nil {
		w.t.Fatal(err)
	}
	if !r.OK() {
		w.t.Fatalf("bundle: %+v", r.Findings)
	}
	return r
}

// resultsOf counts the results of each call that was asked for.
func resultsOf(events []contract.Event) map[string]int {
	n := map[string]int{}
	for _, m := range runlog.All[contract.ModelMessage](events) {
		for _, c := range m.ToolCalls {
			if !m.Interrupted {
				n[c.ID] = 0
			}
		}
	}
	for _, r := range runlog.All[contract.ToolResult](events) {
		n[r.CallID]++
	}
	return n
}

// want checks state and reason.
func want(t *testing.T, e contract.Ending, state contract.State, code contract.FailureCode) {
	t.Helper()
	got := contract.FailureCode("")
	if e.Error != nil {
		got = e.Error.Code
	}
	if e.State != state || got != code {
		t.Fatalf("ended %s %q (%+v), want %s %q", e.State, got, e.Error, state, code)
	}
}
