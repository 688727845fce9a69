// Package runstest is the suite that every [contract.Runs] passes: the same run stories in process,
// over a unix socket and over TCP.
package runstest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
)

// Place is where the runs of one story live.
type Place struct {
	Runs contract.Runs
	// Restart shuts the service down with its runs under way, opens another one on the same state, and
	// gives the way to it.
	Restart func(t *testing.T) contract.Runs
}

// Setup is what a story needs of its place.
type Setup struct {
	Executor host.Executor
	MaxRuns  int
}

// Open makes a fresh place for one story, closed by its test.
type Open func(t *testing.T, s Setup) Place

// Play is an executor made of a function.
type Play func(ctx context.Context, j host.Job) contract.Ending

// Execute implements [host.Executor].
func (p Play) Execute(ctx context.Context, j host.Job) contract.Ending { return p(ctx, j) }

// Run plays every story.
func Run(t *testing.T, open Open) {
	stories := []struct {
		name string
		play func(*testing.T, Open)
	}{
		{"AStartedRunIsFollowedToItsEnd", startToEnd},
		{"AttachFromAnyNumber", attachAnywhere},
		{"TwoFollowersSeeTheSame", twoFollowers},
		{"SS02TextArrivesExactly", textArrives},
		{"SS01BigEventsArrive", bigEvents},
		{"CursorsOutsideTheLogAreRefused", badCursors},
		{"UnknownRunsAreNotFound", unknownRuns},
		{"AllRefusalsComeAtOnceAndLeaveNothing", refusals},
		{"ARepeatedStartIsOneRun", idempotent},
		{"RunsAreListedAndFiltered", listing},
		{"ADecisionReachesTheAgent", decision},
		{"AP05ALateWatcherSeesTheQuestion", lateWatcher},
		{"AnUnansweredApprovalIsDenied", approvalTimeout},
		{"AP02ASessionGrantCoversPendingTwins", twins},
		{"AP02AQuestionThatIsTakenBackIsClosed", takenBack},
		{"TheVerdictCancelEndsTheRun", verdictCancel},
		{"ACancelledQueuedRunNeverStarts", cancelQueued},
		{"ACancelStopsARunningRun", cancelRunning},
		{"CX01ALateCompletionStaysCancelled", lateCompletion},
		{"TheWallTimeStopsARun", wallTime},
		{"MessagesReachTheAgent", messages},
		{"ArtifactsAreKeptAndRead", artifacts},
		{"AnEndedRunCanBeRemoved", removal},
		{"ABrokenExecutorFailsItsRunOnly", panicking},
		{"AShutdownInterruptsItsRuns", shutdown},
	}
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) { s.play(t, open) })
	}
}

// Task gives a task that every profile's rules about steps and time accept.
func Task() contract.Task {
	return contract.Task{
		Instruction: "say hello", Model: "scripted/one", AllowedPaths: []string{"**"},
		Repository: &contract.Repository{Path: "/src/one"},
		Limits:     contract.Limits{MaxSteps: 5, WallTimeSeconds: 120},
		Approval:   contract.ApprovalPolicy{Policy: contract.PolicyAsk, TimeoutSeconds: 20},
	}
}

// Done is the ending of a run that changed nothing.
func Done() contract.Ending {
	return contract.Ending{State: contract.Completed, Result: &contract.Result{Outcome: contract.OutcomeNoChanges, Summary: "done"}}
}

// stopped is what an executor says when it was asked to stop.
func stopped(ctx context.Context) contract.Ending {
	if errors.Is(context.Cause(ctx), host.ErrCancelRequested) {
		return contract.Ending{State: contract.Cancelled, Error: &contract.Failure{Code: contract.FailCancelled, Message: "cancelled"}}
	}
	code := contract.FailInterrupted
	if errors.Is(context.Cause(ctx), host.ErrWallTime) {
		code = contract.FailWallTime
	}
	return contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: code, Message: "stopped"}}
}

func say(text string) contract.Event {
	return contract.NewEvent(1, contract.Notice{Level: "info", Code: "said", Text: text})
}

// limit is how long a story may wait for anything.
const limit = 30 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, p Place, task contract.Task) contract.Run {
	t.Helper()
	run, err := p.Runs.Start(within(t), task)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return run
}

// events follows a run to its end.
func events(t *testing.T, p Place, id contract.RunID, after int64) (out []contract.Event) {
	t.Helper()
	for e, err := range p.Runs.Events(within(t), id, after) {
		if err != nil {
			t.Fatalf("events after %d: %v", after, err)
		}
		out = append(out, e)
	}
	return out
}

// until follows a run up to the first event of a type.
func until(t *testing.T, p Place, id contract.RunID, typ contract.EventType) contract.Event {
	t.Helper()
	for e, err := range p.Runs.Events(within(t), id, 0) {
		if err != nil {
			t.Fatalf("events: %v", err)
		}
		if e.Type == typ {
			return e
		}
	}
	t.Fatalf("no event %s", typ)
	return contract.Event{}
}

// ended waits for the end of a run and gives it.
func ended(t *testing.T, p Place, id contract.RunID) contract.Run {
	t.Helper()
	all := events(t, p, id, 0)
	for i, e := range all {
		if e.Ends() != (i == len(all)-1) || e.Seq != int64(i+1) {
			t.Errorf("event %d of %d is number %d, %s", i+1, len(all), e.Seq, e.Type)
		}
	}
	run, err := p.Runs.Run(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := contract.EndedOf(all[len(all)-1]); !ok || r.State != run.Status || r.ExitCode != run.ExitCode() {
		t.Errorf("the last event says %+v, the run %s with exit code %d", r, run.Status, run.ExitCode())
	}
	return run
}

func types(events []contract.Event) (out []contract.EventType) {
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

func read(t *testing.T, p Place, id contract.RunID, name string) string {
	t.Helper()
	r, err := p.Runs.Artifact(within(t), id, name)
	if err != nil {
		t.Fatalf("artifact %s: %v", name, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read artifact %s: %v", name, err)
	}
	return string(b)
}

// eventually waits for something that is not told by an event.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func wantKind(t *testing.T, what string, err error, kind contract.Kind) {
	t.Helper()
	if got := contract.KindOf(err); got != kind {
		t.Errorf("%s: %q (%v), want %q", what, got, err, kind)
	}
}

func startToEnd(t *testing.T, open Open) {
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		if j.Run.Status != contract.Running || j.Task.Instruction != "say hello" || j.Dir == "" {
			t.Errorf("job: %+v", j)
		}
		err := j.Session.Append(ctx, contract.NewEvent(1, contract.StepStarted{Step: 1, Max: 5}), say("one"))
		if err = errors.Join(err, j.Session.Append(ctx, say("two"))); err != nil {
			t.Error(err)
		}
		var seen []contract.EventType
		for e, err := range j.Session.Log(ctx) {
			if err != nil {
				t.Error(err)
			}
			seen = append(seen, e.Type)
		}
		if len(seen) != 5 {
			t.Errorf("the session's log: %v", seen)
		}
		return Done()
	})})
	run := start(t, p, Task())
	if run.Status != contract.Queued || run.LastSeq != 1 || run.ID.Short() == "" {
		t.Errorf("a started run: %+v", run)
	}
	all := events(t, p, run.ID, 0)
	want := []contract.EventType{
		contract.TypeRunQueued, contract.TypeRunStarted, contract.TypeStepStarted, contract.TypeNotice, contract.TypeNotice, contract.TypeRunCompleted,
	}
	if !slices.Equal(types(all), want) {
		t.Errorf("events: %v, want %v", types(all), want)
	}
	last := ended(t, p, run.ID)
	if last.Status != contract.Completed || last.ExitCode() != 0 || last.Result == nil || last.Result.Outcome != contract.OutcomeNoChanges || last.Usage.Steps != 1 || last.EndedAt == nil {
		t.Errorf("the ended run: %+v", last)
	}
	eventually(t, "events.ndjson", func() bool {
		list, err := p.Runs.Artifacts(within(t), run.ID)
		return err == nil && len(list) == 1 && list[0].Name == contract.ArtifactEvents
	})
	lines := strings.Split(strings.TrimSuffix(read(t, p, run.ID, contract.ArtifactEvents), "\n"), "\n")
	if len(lines) != len(all) {
		t.Fatalf("events.ndjson has %d lines, the log %d", len(lines), len(all))
	}
	for i, line := range lines {
		if e, err := contract.DecodeEvent([]byte(line)); err != nil || e.Seq != all[i].Seq || i > 0 && e.Prev != contract.ChainHash([]byte(lines[i-1])) {
			t.Errorf("line %d: %+v, %v", i+1, e, err)
		}
	}
}

func attachAnywhere(t *testing.T, open Open) {
	const said = 150
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		for range said / 10 {
			batch := slices.Repeat([]contract.Event{say("x")}, 10)
			if err := j.Session.Append(ctx, batch...); err != nil {
				t.Error(err)
			}
		}
		return Done()
	})})
	run := start(t, p, Task())
	total := int64(len(events(t, p, run.ID, 0)))
	if total != said+3 {
		t.Fatalf("%d events", total)
	}
	for _, after := range []int64{0, 1, 2, 63, 64, 65, total - 1, total} {
		got := events(t, p, run.ID, after)
		if int64(len(got)) != total-after {
			t.Errorf("after %d: %d events, want %d", after, len(got), total-after)
		}
		for i, e := range got {
			if e.Seq != after+int64(i)+1 {
				t.Fatalf("after %d: event %d has number %d", after, i, e.Seq)
			}
		}
	}
}

func twoFollowers(t *testing.T, open Open) {
	go1 := make(chan struct{})
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		<-go1
		for range 50 {
			if err := j.Session.Append(ctx, say("x")); err != nil {
				t.Error(err)
			}
		}
		return Done()
	})})
	run := start(t, p, Task())
	results := make(chan []int64, 4)
	for n := range 4 {
		go func() {
			var seqs []int64
			for e, err := range p.Runs.Events(t.Context(), run.ID, 0) {
				if err != nil {
					t.Error(err)
					break
				}
				seqs = append(seqs, e.Seq)
				if n == 3 && e.Seq == 5 {
					break // one goes early; nobody else minds
				}
			}
			results <- seqs
		}()
	}
	until(t, p, run.ID, contract.TypeRunStarted)
	close(go1)
	short := 0
	for range 4 {
		seqs := <-results
		if len(seqs) == 5 {
			short++
			continue
		}
		if len(seqs) != 53 || !slices.IsSorted(seqs) || seqs[52] != 53 {
			t.Errorf("a follower saw %v", seqs)
		}
	}
	if short != 1 {
		t.Errorf("%d followers went early", short)
	}
}

func textArrives(t *testing.T, open Open) {
	texts := []string{"a\nb", ": colon", "", "data: x\n\nid: 999\n\n", "tab\tand \"quotes\" <&> ünïcode 😀"}
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		for _, s := range texts {
			if err := j.Session.Append(ctx, say(s)); err != nil {
				t.Error(err)
			}
		}
		return Done()
	})})
	run := start(t, p, Task())
	var got []string
	for _, e := range events(t, p, run.ID, 0) {
		if n, ok := contract.As[contract.Notice](e); ok {
			got = append(got, n.Text)
		}
	}
	if !slices.Equal(got, texts) {
		t.Errorf("got %q, want %q", got, texts)
	}
}

func bigEvents(t *testing.T, open Open) {
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		for _, n := range []int{70 << 10, 200 << 10} {
			e := contract.NewEvent(1, contract.ToolResult{CallID: "c", Stdout: strings.Repeat("x", n)})
			if err := j.Session.Append(ctx, e); err != nil {
				t.Error(err)
			}
		}
		over := contract.NewEvent(1, contract.ToolResult{CallID: "c", Stdout: strings.Repeat("x", 1<<20)})
		if err := j.Session.Append(ctx, over); contract.KindOf(err) != contract.KindTooLarge {
			t.Errorf("an event above the bound: %v", err)
		}
		return Done()
	})})
	run := start(t, p, Task())
	all := events(t, p, run.ID, 0)
	if len(all) != 5 || len(all[3].Data) < 200<<10 || !all[4].Ends() {
		t.Errorf("%d events: %v", len(all), types(all))
	}
}
