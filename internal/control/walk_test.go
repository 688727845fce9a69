package control

import (
	"slices"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
)

func TestARunGoesFromQueuedToItsOneEnd(t *testing.T) {
	w := newWorld(t, testConfig(contract.Edge()))
	created := w.create(validTask())
	if created.Status != contract.Queued || created.LastSeq != 1 || !w.core.Genuine(created.ID) {
		t.Fatalf("created: %+v", created)
	}
	run := w.claim()
	if run.Status != contract.Running || run.Attempt != 1 {
		t.Fatalf("claimed: %+v", run)
	}
	w.must(w.append(1,
		contract.NewEvent(0, contract.WorkspaceReady{BaseSHA: "abc", Sandbox: "L3"}),
		contract.NewEvent(1, contract.StepStarted{Step: 1}),
		contract.NewEvent(1, contract.ModelMessage{Text: "hi", Usage: contract.ModelUsage{Input: 7, Output: 3, Known: true}})))
	run, err := w.finish(1, provenEnding())
	w.must(err)
	if run.Status != contract.Completed || run.Error != nil || run.Result.Outcome != contract.OutcomeVerified {
		t.Fatalf("ended: %+v %+v", run, run.Error)
	}
	if run.Usage.Steps != 1 || run.Usage.InputTokens != 7 || run.BaseSHA != "abc" || run.Sandbox != "L3" {
		t.Errorf("folded: %+v", run)
	}
	want := []string{"run.queued", "run.started", "workspace.ready", "step.started", "model.message", "run.completed"}
	if got := types(w.log()); !slices.Equal(got, want) {
		t.Errorf("log is %v", got)
	}
	_, err = w.finish(1, provenEnding())
	w.wants(err, contract.KindRunFinished)
	w.wants(w.append(1, contract.NewEvent(0, contract.Notice{})), contract.KindRunFinished)
}
