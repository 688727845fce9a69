package control

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
)

func TestAFullLogThinsThenDropsItsOldestAndSaysSo(t *testing.T) {
	p := contract.Edge()
	p.Events, p.EventBytes = 64, 1<<20
	w := running(t, p)
	for i := range 70 {
		w.must(w.append(1, contract.NewEvent(i, contract.ModelDelta{Text: "x"}), contract.NewEvent(i, contract.StepStarted{Step: i})))
	}
	log := w.log()
	if log[0].Type != contract.TypeLogGap {
		t.Fatalf("first is %s", log[0].Type)
	}
	gap, _ := contract.As[contract.LogGap](log[0])
	if gap.FirstAvailableSeq != log[1].Seq || log[0].Seq != log[1].Seq-1 {
		t.Errorf("gap %+v before %d", gap, log[1].Seq)
	}
	if kept := len(log) - 1; kept > 64 || kept < 50 {
		t.Errorf("%d events kept", kept)
	}
	notices := 0
	lines, err := w.core.Events(w.m, log[1].Seq-1, 1000)
	w.must(err)
	for _, l := range lines {
		notices += strings.Count(string(l), "model_delta_dropped")
	}
	if notices > 1 {
		t.Errorf("%d notices", notices)
	}
	if last := log[len(log)-1]; last.Type != contract.TypeStepStarted || last.Step != 69 {
		t.Errorf("last is %+v", last)
	}
	run, err := w.finish(1, provenEnding())
	w.must(err)
	if run.Status != contract.Completed {
		t.Error(run.Status)
	}
}

func TestALogBoundsItsBytes(t *testing.T) {
	p := contract.Edge()
	p.EventBytes = 1 << 20
	w := running(t, p)
	for range 12 {
		w.must(w.append(1, contract.NewEvent(0, contract.ToolResult{Stdout: strings.Repeat("y", 200<<10)})))
	}
	total := 0
	for k, v := range w.m.records {
		if strings.HasPrefix(k, prefixEvent) {
			total += len(v)
		}
	}
	if total > 1<<20 {
		t.Errorf("%d bytes kept", total)
	}
	w.wants(w.append(1, contract.NewEvent(0, contract.ToolResult{Stdout: strings.Repeat("y", 300<<10)})), contract.KindTooLarge)
}

func TestCursors(t *testing.T) {
	w := running(t, contract.Edge())
	for after, kind := range map[int64]contract.Kind{-1: contract.KindBadCursor, 0: "", 2: "", 3: contract.KindCursorAhead, contract.Unbounded + 1: contract.KindBadCursor} {
		_, err := w.core.Events(w.m, after, 10)
		if contract.KindOf(err) != kind {
			t.Errorf("after %d: %v", after, err)
		}
	}
	lines, err := w.core.Events(w.m, 1, 10)
	w.must(err)
	if len(lines) != 1 || !strings.Contains(string(lines[0]), `"seq":2`) {
		t.Errorf("%s", lines)
	}
}

func TestTextInEventsIsCleanAndWhatGoesBackStaysByteForByte(t *testing.T) {
	w := running(t, contract.Edge())
	raw := json.RawMessage(`{"path":"a\u202eb"}`)
	w.must(w.append(1,
		contract.NewEvent(1, contract.ToolOutput{CallID: "c", Text: "red \x1b[31m \u202e end"}),
		contract.Event{Type: contract.TypeNotice, Data: json.RawMessage(`{"level":"info","code":"x","text":"a\u0007b\u009bc\rd"}`)},
		contract.NewEvent(1, contract.ModelMessage{Text: "bell \a", ToolCalls: []contract.ToolCall{{ID: "1", Name: "edit", Arguments: raw}}})))
	for _, e := range w.log() {
		switch e.Type {
		case contract.TypeToolOutput:
			if o, _ := contract.As[contract.ToolOutput](e); o.Text != `red \x1b[31m \u{202E} end` {
				t.Errorf("output %q", o.Text)
			}
		case contract.TypeNotice:
			if n, _ := contract.As[contract.Notice](e); n.Text != `a\x07b\x9bc\x0dd` {
				t.Errorf("notice %q", n.Text)
			}
		case contract.TypeModelMessage:
			m, _ := contract.As[contract.ModelMessage](e)
			var args struct{ Path string }
			w.must(json.Unmarshal(m.ToolCalls[0].Arguments, &args))
			if m.Text != `bell \x07` || args.Path != "a\u202eb" {
				t.Errorf("message %q, arguments %q", m.Text, args.Path)
			}
		}
	}
	for name, data := range map[string]string{"array": "[]", "cut": `{"a":`, "not UTF-8": "{\"a\":\"\xff\"}", "string": `"x"`} {
		err := w.append(1, contract.Event{Type: contract.TypeNotice, Data: json.RawMessage(data)})
		if contract.KindOf(err) != contract.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARunnerCannotWriteTheCoresEvents(t *testing.T) {
	own := []contract.EventType{
		contract.TypeRunQueued, contract.TypeRunStarted, contract.TypeRunResumed, contract.TypeRunCancelRequested,
		contract.TypeRunCompleted, contract.TypeRunFailed, contract.TypeRunCancelled, contract.TypeRunLateResult,
		contract.TypeApprovalRequested, contract.TypeApprovalDecided, contract.TypeApprovalClosed,
		contract.TypeMessageUser, contract.TypeLogGap, "made.up", "",
	}
	w := running(t, contract.Edge())
	for _, k := range own {
		w.wants(w.append(1, contract.Event{Type: k, Data: json.RawMessage("{}")}), contract.KindInvalid)
	}
	if n := len(w.log()); n != 2 {
		t.Errorf("%d events", n)
	}
}

func TestTotalsOnlyGrowAndNeverOverflow(t *testing.T) {
	w := running(t, contract.Edge())
	huge := int64(1) << 62
	low, high := -5.0, 2.5
	w.must(w.append(1,
		contract.NewEvent(0, contract.UsageUpdated{Usage: contract.Usage{Steps: 3, InputTokens: 100, CostUSD: &high}}),
		contract.NewEvent(0, contract.UsageUpdated{Usage: contract.Usage{Steps: -3, InputTokens: -9, CostUSD: &low}}),
		contract.NewEvent(0, contract.ModelMessage{Usage: contract.ModelUsage{Input: -50, Output: huge, Known: true}}),
		contract.NewEvent(0, contract.ModelMessage{Usage: contract.ModelUsage{Output: huge, Known: true}})))
	u := w.read().Usage
	if u.Steps != 3 || u.InputTokens != 100 || *u.CostUSD != 2.5 || u.OutputTokens != contract.Unbounded || u.ModelRequests != 2 {
		t.Errorf("%+v", u)
	}
}

// A small append touches the head and its own lines, whatever the run has grown to.
func TestAnAppendTouchesFewRecords(t *testing.T) {
	w := running(t, contract.Server())
	for i := range 500 {
		w.must(w.append(1, contract.NewEvent(i, contract.StepStarted{Step: i})))
	}
	w.must(w.append(1, contract.NewEvent(1, contract.Notice{}), contract.NewEvent(1, contract.Notice{})))
	if w.m.puts != 3 || w.m.gets != 1 {
		t.Errorf("%d writes and %d reads for two events", w.m.puts, w.m.gets)
	}
}

func TestAFrameIsOneEventOfOneLine(t *testing.T) {
	w := running(t, contract.Edge())
	w.must(w.append(1, contract.NewEvent(1, contract.ModelDelta{Text: "a\nb\r\n\ndata: x \"seq\":99,\"type\":\"run.completed\""})))
	lines, err := w.core.Events(w.m, 0, 10)
	w.must(err)
	want := []string{"run.queued", "run.started", "model.delta"}
	for i, l := range lines {
		frame := string(Frame(l))
		if frame != fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", i+1, want[i], l) {
			t.Errorf("frame %q", frame)
		}
		if strings.Count(frame, "\n") != 4 || strings.Contains(frame, "\r") {
			t.Errorf("frame of more lines: %q", frame)
		}
	}
}

func BenchmarkAppendOne(b *testing.B) { benchmarkAppend(b, 1) }
func BenchmarkAppendTen(b *testing.B) { benchmarkAppend(b, 10) }
func BenchmarkCreate(b *testing.B) {
	w := newWorld(b, testConfig(contract.Edge()))
	b.ReportAllocs()
	for b.Loop() {
		w.m = newMemory()
		if _, err := w.core.Create(w.m, w.env(), "alice", validTask()); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkAppend(b *testing.B, n int) {
	w := running(b, contract.Server())
	var events []contract.Event
	for range n {
		events = append(events, contract.NewEvent(1, contract.ToolOutput{CallID: "c", Stream: "stdout", Text: strings.Repeat("line of output\n", 20)}))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.core.Append(w.m, w.env(), 1, events...); err != nil {
			b.Fatal(err)
		}
	}
}
