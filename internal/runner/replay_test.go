package runner_test

import (
	"context"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/scripted"
	"github.com/rivumi/rivumi/internal/runner"
	"github.com/rivumi/rivumi/internal/testkit/runlog"
)

// words is the repository of testdata/toy-words.jsonl at its start.
func words() map[string]string {
	return map[string]string{
		"README.md":      "# words\n\nCounts words.\n",
		"count.sh":       "#!/bin/sh\n# count.sh FILE prints how many words FILE has\nwc -l < \"$1\" | tr -d \" \"\n",
		"test.sh":        "#!/bin/sh\nset -e\nprintf \"one two\\nthree\\n\" > in.txt\ntest \"$(./count.sh in.txt)\" = 3\necho ok\n",
		"notes/crlf.txt": "a\r\nb\r\nc\r\n",
		".gitignore":     "*.log\n",
	}
}

// recording is the recorded run and the tree its patch leads to.
func recording(t *testing.T) (*scripted.Replay, string) {
	t.Helper()
	r, err := scripted.LoadReplay(filepath.Join("testdata", "toy-words.jsonl"), scripted.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	repo := makeRepo(t, words())
	put(t, filepath.Join(repo, "../patch"), r.End.Patch)
	git(t, repo, "apply", "--index", "--whitespace=nowarn", "../patch")
	return r, strings.TrimSpace(git(t, repo, "write-tree"))
}

// replayWorld is a world with the recording's repository and room for all its steps.
func replayWorld(t *testing.T, m agent.Model) *world {
	w := newWorld(t, words())
	w.task.Instruction = "count.sh counts lines; make it count words"
	w.task.Checks = []contract.Check{{"./test.sh"}}
	w.task.Limits.MaxSteps, w.task.Limits.MaxModelRequests = 30, 200
	w.model(m)
	return w
}

func TestRecordedRunEndsInItsRecordedPatch(t *testing.T) {
	r, tree := recording(t)
	w := replayWorld(t, r)
	e := w.run(t.Context())
	want(t, e, contract.Completed, "")
	if e.Result.FinalTree != tree || e.Result.Outcome != contract.OutcomeVerified {
		t.Errorf("final tree %s, recorded %s, outcome %s", e.Result.FinalTree, tree, e.Result.Outcome)
	}
	if got, rec := w.s.Artifact(t, contract.ArtifactPatch), r.End.Patch; got != rec {
		t.Errorf("the patch is not the recorded one:\n%s\n---\n%s", got, rec)
	}
	s := scripted.Summarise(r.Report())
	t.Logf("%d calls, %d readable, exit code same in %d, output same in %d", s.Calls, s.Readable, s.SameExit, s.SameOutput)
	if s.Calls == 0 || s.SameExit != s.Calls {
		t.Errorf("exit codes differ from the recording: %+v", r.Report())
	}
	w.bundle()
}

func TestReplayCancelledAtAnyStepAndResumedEndsInTheSamePatch(t *testing.T) {
	r, tree := recording(t)
	for k := 1; k <= r.Steps(); k++ {
		w := replayWorld(t, r)
		ctx, cancel := context.WithCancelCause(t.Context())
		w.s = runlog.New(t, w.task)
		w.s.OnAppend = func(e contract.Event) error {
			if e.Type == contract.TypeStepStarted && e.Step == k {
				cancel(w.errStop)
			}
			return nil
		}
		e := w.run(ctx)
		cancel(nil)
		want(t, e, contract.Cancelled, contract.FailCancelled)
		w.bundle()
		w.goOn(t, w.s.Events(), tree)
	}
}

// goOn resumes and looks that the run ends as the recorded one did.
func (w *world) goOn(t *testing.T, history []contract.Event, tree string) {
	t.Helper()
	e, s := w.resume(t.Context(), history)
	want(t, e, contract.Completed, "")
	if e.Result.FinalTree != tree {
		t.Errorf("resumed run ends in %s, not %s", e.Result.FinalTree, tree)
	}
	for id, n := range resultsOf(append(history, s.Events()...)) {
		if n != 1 {
			t.Errorf("call %s has %d results over both logs", id, n)
		}
	}
	if fingerprint(t, w.repo) != w.before {
		t.Error("the user's repository changed")
	}
}

func TestReplayThatLosesItsOwnerInACommandGoesOnWithoutRunningItAgain(t *testing.T) {
	r, tree := recording(t)
	const calls = 9 // of the recording
	for k := 1; k <= calls; k++ {
		w := replayWorld(t, r)
		w.s = runlog.New(t, w.task)
		started, lost := 0, false
		w.s.OnAppend = func(e contract.Event) error {
			if e.Type == contract.TypeToolStarted {
				started++
			}
			if e.Type == contract.TypeToolResult && started == k {
				lost = true
			}
			if lost { // from here on the log is closed, as for an owner that was killed
				return contract.Errorf(contract.KindFenced, "another attempt owns the run")
			}
			return nil
		}
		e := runner.New(w.c).Run(t.Context(), w.job())
		want(t, e, contract.Failed, contract.FailInternal)
		w.goOn(t, w.s.Events(), tree)
	}
}

func TestReplayWithEveryThirdApprovalDenied(t *testing.T) {
	r, _ := recording(t)
	w := replayWorld(t, r)
	w.task.Checks = nil
	w.task.Approval.Policy = contract.PolicyAsk
	w.s = runlog.New(t, w.task)
	n := 0
	w.s.Decide = func(contract.Approval) contract.Decision {
		if n++; n%3 == 0 {
			return contract.Decision{Verdict: contract.Deny, By: "ann"}
		}
		return contract.Decision{Verdict: contract.AllowOnce, By: "ann"}
	}
	e := w.run(t.Context())
	want(t, e, contract.Completed, "")
	denied := 0
	for _, res := range runlog.All[contract.ToolResult](w.s.Events()) {
		if res.Denied {
			denied++
		}
	}
	if n < 3 || denied != n/3 {
		t.Errorf("%d approvals, %d results say denied", n, denied)
	}
	w.bundle()
}

// busy answers each new request twice with 429 before it lets it through.
type busy struct {
	model agent.Model
	n     *int
}

func (b busy) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	*b.n++
	if *b.n%3 != 0 {
		return func(yield func(model.Chunk, error) bool) {
			yield(model.Chunk{}, &model.Error{Kind: model.ErrStatus, Status: 429, Message: "slow down"})
		}
	}
	return b.model.Stream(ctx, r)
}

func TestReplayWithTwo429BeforeEachAnswer(t *testing.T) {
	r, tree := recording(t)
	n := 0
	w := replayWorld(t, busy{r, &n})
	e := w.run(t.Context())
	want(t, e, contract.Completed, "")
	if e.Result.FinalTree != tree {
		t.Errorf("final tree %s, recorded %s", e.Result.FinalTree, tree)
	}
	if got := len(runlog.All[contract.ModelRetry](w.s.Events())); got != 2*(r.Steps()+1) {
		t.Errorf("%d retries told", got)
	}
}
