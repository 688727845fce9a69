package runstest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
)

func finishes() Play {
	return func(context.Context, host.Job) contract.Ending { return Done() }
}

func badCursors(t *testing.T, open Open) {
	p := open(t, Setup{Executor: finishes()})
	run := start(t, p, Task())
	last := ended(t, p, run.ID)
	for after, kind := range map[int64]contract.Kind{last.LastSeq + 1: contract.KindCursorAhead, -1: contract.KindBadCursor} {
		n := 0
		for _, err := range p.Runs.Events(within(t), run.ID, after) {
			n++
			wantKind(t, "a bad cursor", err, kind)
		}
		if n != 1 {
			t.Errorf("cursor %d gave %d answers", after, n)
		}
	}
}

func unknownRuns(t *testing.T, open Open) {
	p := open(t, Setup{Executor: finishes()})
	ctx := within(t)
	forged := contract.NewRunID([]byte("another secret"), make([]byte, 64))
	for _, id := range []contract.RunID{forged, "run_x", "run_..%2f", "x"} {
		_, err := p.Runs.Run(ctx, id)
		wantKind(t, "run", err, contract.KindRunNotFound)
		for _, err := range p.Runs.Events(ctx, id, 0) {
			wantKind(t, "events", err, contract.KindRunNotFound)
		}
		wantKind(t, "cancel", p.Runs.Cancel(ctx, id, ""), contract.KindRunNotFound)
		wantKind(t, "send", p.Runs.Send(ctx, id, "x"), contract.KindRunNotFound)
		wantKind(t, "decide", p.Runs.Decide(ctx, id, "apr_0000000000000000", contract.Decision{Verdict: contract.Deny}), contract.KindRunNotFound)
		_, err = p.Runs.Artifacts(ctx, id)
		wantKind(t, "artifacts", err, contract.KindRunNotFound)
		_, err = p.Runs.Artifact(ctx, id, "patch.diff")
		wantKind(t, "artifact", err, contract.KindRunNotFound)
	}
}

func refusals(t *testing.T, open Open) {
	p := open(t, Setup{Executor: finishes()})
	task := Task()
	task.Instruction, task.AllowedPaths = " ", []string{"../x"}
	task.Limits.MaxSteps, task.Limits.WallTimeSeconds = 0, -1
	_, err := p.Runs.Start(within(t), task)
	wantKind(t, "a bad task", err, contract.KindInvalid)
	var fields []string
	if e, ok := errors.AsType[*contract.Error](err); ok {
		for _, r := range e.Refusals {
			fields = append(fields, r.Field)
		}
	}
	for _, want := range []string{"instruction", "allowedPaths", "limits.maxSteps", "limits.wallTimeSeconds"} {
		if !slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, want) }) {
			t.Errorf("no refusal of %s among %v", want, fields)
		}
	}
	for run, err := range p.Runs.List(within(t), contract.Filter{}) {
		t.Errorf("a refusal left %v, %v", run.ID, err)
	}
}

func idempotent(t *testing.T, open Open) {
	p := open(t, Setup{Executor: finishes()})
	task := Task()
	task.IdempotencyKey = "key-1"
	first := start(t, p, task)
	again := start(t, p, task)
	if again.ID != first.ID {
		t.Errorf("two runs: %s and %s", first.ID, again.ID)
	}
	task.Instruction = "something else"
	_, err := p.Runs.Start(within(t), task)
	wantKind(t, "another task", err, contract.KindIdempotencyConflict)
	if n := len(events(t, p, first.ID, 0)); n != 3 {
		t.Errorf("%d events: it ran more than once", n)
	}
}

func listing(t *testing.T, open Open) {
	p := open(t, Setup{Executor: finishes()})
	var ids []contract.RunID
	for i, name := range []string{"one", "two", "three", "four"} {
		task := Task()
		task.Name = name
		task.Labels = map[string]string{"parity": []string{"even", "odd"}[i%2]}
		task.Repository.Path = "/src/" + name
		run := start(t, p, task)
		ended(t, p, run.ID)
		ids = append(ids, run.ID)
	}
	slices.Reverse(ids) // newest first: four, three, two, one
	for _, c := range []struct {
		what string
		f    contract.Filter
		want []contract.RunID
	}{
		{"all", contract.Filter{}, ids},
		{"limit", contract.Filter{Limit: 2}, ids[:2]},
		{"state", contract.Filter{States: []contract.State{contract.Completed, contract.Failed}}, ids},
		{"other state", contract.Filter{States: []contract.State{contract.Running}}, nil},
		{"label", contract.Filter{Label: "parity:odd"}, []contract.RunID{ids[0], ids[2]}},
		{"search", contract.Filter{Search: "thre"}, ids[1:2]},
		{"repository", contract.Filter{Repository: "/src/two"}, ids[2:3]},
		{"label and limit", contract.Filter{Label: "parity:even", Limit: 1}, ids[1:2]},
	} {
		var got []contract.RunID
		for run, err := range p.Runs.List(within(t), c.f) {
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			got = append(got, run.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

func artifacts(t *testing.T, open Open) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		for _, body := range []string{"old", string(content)} {
			a, err := j.Session.PutArtifact(ctx, "check-1.log", "text/plain", strings.NewReader(body))
			if err != nil || a.Bytes != int64(len(body)) || a.Name != "check-1.log" {
				t.Errorf("put: %+v, %v", a, err)
			}
		}
		for _, name := range []string{"", "../x", "a/b", ".hidden", "UPPER", strings.Repeat("a", 200)} {
			if _, err := j.Session.PutArtifact(ctx, name, "text/plain", strings.NewReader("x")); err == nil {
				t.Errorf("name %q was taken", name)
			}
		}
		return Done()
	})})
	run := start(t, p, Task())
	ended(t, p, run.ID)
	eventually(t, "two artifacts", func() bool {
		list, err := p.Runs.Artifacts(within(t), run.ID)
		return err == nil && len(list) == 2
	})
	list, err := p.Runs.Artifacts(within(t), run.ID)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	if a := list[0]; a.Name != "check-1.log" || a.SHA256 != hex.EncodeToString(sum[:]) || a.MediaType != "text/plain" || a.CreatedAt.IsZero() {
		t.Errorf("listed as %+v", a)
	}
	if got := read(t, p, run.ID, "check-1.log"); got != string(content) {
		t.Errorf("read %d bytes, want %d", len(got), len(content))
	}
	for _, name := range []string{"patch.diff", "..", "secret"} {
		if r, err := p.Runs.Artifact(within(t), run.ID, name); err == nil {
			_ = r.Close()
			t.Errorf("%s is there", name)
		} else {
			wantKind(t, name, err, contract.KindNotFound)
		}
	}
}

func removal(t *testing.T, open Open) {
	release := make(chan struct{})
	p := open(t, Setup{Executor: Play(func(context.Context, host.Job) contract.Ending {
		<-release
		return Done()
	})})
	remover, ok := p.Runs.(contract.Remover)
	if !ok {
		t.Fatal("cannot remove")
	}
	run := start(t, p, Task())
	wantKind(t, "an unfinished run", remover.Remove(within(t), run.ID), contract.KindRunNotFinished)
	close(release)
	ended(t, p, run.ID)
	eventually(t, "events.ndjson", func() bool {
		list, err := p.Runs.Artifacts(within(t), run.ID)
		return err == nil && len(list) == 1
	})
	if err := remover.Remove(within(t), run.ID); err != nil {
		t.Fatal(err)
	}
	_, err := p.Runs.Run(within(t), run.ID)
	wantKind(t, "a removed run", err, contract.KindRunNotFound)
	for run := range p.Runs.List(within(t), contract.Filter{}) {
		t.Errorf("still listed: %s", run.ID)
	}
}

func panicking(t *testing.T, open Open) {
	p := open(t, Setup{Executor: Play(func(_ context.Context, j host.Job) contract.Ending {
		switch j.Run.Name {
		case "panics":
			panic("boom")
		case "nonsense":
			return contract.Ending{State: contract.Queued}
		}
		return Done()
	})})
	for name, want := range map[string]contract.State{"panics": contract.Failed, "nonsense": contract.Failed, "works": contract.Completed} {
		task := Task()
		task.Name = name
		run := start(t, p, task)
		if last := ended(t, p, run.ID); last.Status != want {
			t.Errorf("%s ended as %s: %+v", name, last.Status, last.Error)
		}
	}
}

func shutdown(t *testing.T, open Open) {
	p := open(t, Setup{Executor: Play(func(ctx context.Context, j host.Job) contract.Ending {
		if _, err := j.Session.PutArtifact(ctx, "patch.diff", "text/x-diff", strings.NewReader("so far")); err != nil {
			t.Error(err)
		}
		if err := j.Session.Append(ctx, say("working")); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return stopped(ctx)
	})})
	run := start(t, p, Task())
	until(t, p, run.ID, contract.TypeNotice)
	p.Runs = p.Restart(t)
	last := ended(t, p, run.ID)
	if last.Status != contract.Failed || last.Error == nil || last.Error.Code != contract.FailInterrupted {
		t.Errorf("ended as %s: %+v", last.Status, last.Error)
	}
	if read(t, p, run.ID, "patch.diff") != "so far" {
		t.Error("the patch so far is lost")
	}
}
