package remote

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/model/openai"
	"github.com/rivumi/rivumi/internal/runner"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
)

func twoSteps() *brain {
	return &brain{turns: []turn{{bash: "cat a.txt && printf 'agent\\n' >> a.txt && printf 'new\\n' > b.txt"}, {say: "done"}}}
}

func dirty(t *testing.T) *gitrepo.Repo {
	r := gitrepo.New(t, gitrepo.Files{"a.txt": "one\n", "c.txt": "see\n"})
	r.Write(gitrepo.Files{"a.txt": "one\nmine\n", "u.txt": "untracked\n"})
	return r
}

// local carries the same task out on this machine.
func local(t *testing.T, b *brain, repo string, task contract.Task) (*host.Service, contract.Run) {
	t.Helper()
	upstream := httptest.NewServer(b)
	t.Cleanup(upstream.Close)
	dir := t.TempDir()
	signer, err := bundle.OpenSigner(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := runner.New(runner.Config{
		Signer: signer,
		Sandbox: func(context.Context, contract.Task) (runner.Place, error) {
			return runner.Place{Opener: proc.New(proc.Options{Want: sandbox.TierNone})}, nil
		},
		Model: func(_ context.Context, task contract.Task) (runner.ModelSetup, error) {
			m, err := openai.New(openai.Options{BaseURL: upstream.URL})
			return runner.ModelSetup{Model: m, Name: task.Model}, err
		},
	})
	s, err := host.Open(t.Context(), host.Options{Dir: dir, NoSocket: true, Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		return r.Run(ctx, runner.Job{Run: j.Run, Task: j.Task, Session: j.Session, Dir: j.Dir})
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	task.Repository = &contract.Repository{Path: repo}
	run, err := s.Start(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return s, run
}

type play func(context.Context, host.Job) contract.Ending

func (p play) Execute(ctx context.Context, j host.Job) contract.Ending { return p(ctx, j) }

func TestTheSameTaskGivesTheSameBundleInABox(t *testing.T) {
	r := dirty(t)
	before := gitrepo.Snapshot(t, r.Root)
	want := task()
	want.Checks = []contract.Check{{"grep", "-q", "agent", "a.txt"}}
	here, started := local(t, twoSteps(), r.Root, want)
	hereRun, hereLog := finished(t, here, started.ID)

	p := newPlane(t, twoSteps(), newChildren(t))
	want.Upload = &contract.Upload{ID: p.upload(r.Root)}
	c := p.client()
	there, err := c.Start(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	thereRun, thereLog := finished(t, c, there.ID)
	before.Same(t)
	if thereRun.Status != contract.Completed || thereRun.Result.Outcome != contract.OutcomeVerified {
		t.Fatalf("%+v %+v\n%s", thereRun, thereRun.Error, dump(thereLog))
	}
	if a, b := artifact(t, here, hereRun.ID, contract.ArtifactPatch), artifact(t, c, thereRun.ID, contract.ArtifactPatch); a != b || a == "" {
		t.Errorf("patches differ:\n%s\n%s", a, b)
	}
	for i := range hereRun.Result.Checks {
		hereRun.Result.Checks[i].DurationMS = 0
	}
	for i := range thereRun.Result.Checks {
		thereRun.Result.Checks[i].DurationMS = 0
	}
	if a, b := string(contract.MarshalJSON(hereRun.Result)), string(contract.MarshalJSON(thereRun.Result)); a != b {
		t.Errorf("results differ:\n%s\n%s", a, b)
	}
	if a, b := told(hereLog), told(thereLog); a != b {
		t.Errorf("logs differ:\n%s\n---\n%s", a, b)
	}
	var a, b bundle.Manifest
	for _, m := range []struct {
		into *bundle.Manifest
		text string
	}{{&a, artifact(t, here, hereRun.ID, contract.ArtifactManifest)}, {&b, artifact(t, c, thereRun.ID, contract.ArtifactManifest)}} {
		var envelope struct{ Manifest json.RawMessage }
		if err := json.Unmarshal([]byte(m.text), &envelope); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(envelope.Manifest, m.into); err != nil {
			t.Fatal(err)
		}
	}
	if x, y := string(contract.MarshalJSON(a.Files)), string(contract.MarshalJSON(b.Files)); x != y || len(a.Files) != 2 || a.BaseTree != b.BaseTree || a.FinalTree != b.FinalTree {
		t.Errorf("manifests differ:\n%s\n%s", x, y)
	}
}

// told is what a log says beside ids, times, places and pieces of streamed text.
func told(log []contract.Event) string {
	var b strings.Builder
	for _, e := range log {
		switch e.Type {
		case contract.TypeModelDelta, contract.TypeToolOutput, contract.TypeRunQueued, contract.TypeRunStarted, contract.TypeWorkspaceReady:
			continue
		default:
		}
		var data any
		_ = json.Unmarshal(e.Data, &data)
		b.WriteString(string(e.Type) + " " + string(contract.MarshalJSON(timeless(data))) + "\n")
	}
	return b.String()
}

func timeless(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, inner := range x {
			if k == "durationMs" || k == "elapsedMs" {
				delete(x, k)
				continue
			}
			x[k] = timeless(inner)
		}
	case []any:
		for i := range x {
			x[i] = timeless(x[i])
		}
	}
	return v
}

func TestInlineFilesRunInABox(t *testing.T) {
	p := newPlane(t, twoSteps(), newChildren(t))
	want := task()
	text := "one\n"
	want.Files = []contract.File{{Path: "a.txt", Content: &text}}
	c := p.client()
	run, err := c.Start(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	done, log := finished(t, c, run.ID)
	if done.Status != contract.Completed || len(done.Result.ChangedFiles) != 2 {
		t.Fatalf("%+v\n%s", done, dump(log))
	}
}

func TestCX05ARestartOfTheControlPlaneLosesNothing(t *testing.T) {
	b := twoSteps()
	gate := make(chan struct{})
	b.gates = map[int]chan struct{}{1: gate}
	p := newPlane(t, b, newChildren(t))
	want := task()
	text := "one\n"
	want.Files = []contract.File{{Path: "a.txt", Content: &text}}
	run, err := p.client().Start(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.n == 2 }) // the second call is under way
	close(gate)
	p.stop()
	time.Sleep(300 * time.Millisecond)
	p.start()
	c := p.client()
	done, log := finished(t, c, run.ID)
	if done.Status != contract.Completed || done.Attempt != 1 {
		t.Fatalf("%+v %+v\n%s", done, done.Error, dump(log))
	}
	for i, e := range log {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has number %d", i, e.Seq)
		}
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen")
		}
	}
}

func TestACancelReachesTheBox(t *testing.T) {
	b := &brain{turns: []turn{{bash: "echo here > here.txt; sleep 300"}, {say: "done"}}}
	p := newPlane(t, b, newChildren(t))
	want := task()
	text := "one\n"
	want.Files = []contract.File{{Path: "a.txt", Content: &text}}
	c := p.client()
	run, err := c.Start(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Events(t.Context(), run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == contract.TypeToolStarted {
			break
		}
	}
	time.Sleep(500 * time.Millisecond)
	began := time.Now()
	if err := c.Cancel(t.Context(), run.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	done, log := finished(t, c, run.ID)
	if done.Status != contract.Cancelled || time.Since(began) > 15*time.Second {
		t.Fatalf("after %s: %+v\n%s", time.Since(began), done, dump(log))
	}
	if !strings.Contains(artifact(t, c, run.ID, contract.ArtifactPatch), "here.txt") {
		t.Error("the patch so far is not kept")
	}
}
