package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestOnlyTheDrawnMovesExist(t *testing.T) {
	allowed := map[[2]State]bool{
		{Queued, Running}: true, {Queued, Failed}: true, {Queued, Cancelled}: true,
		{Running, Completed}: true, {Running, Failed}: true, {Running, Cancelled}: true,
	}
	for _, a := range States() {
		for _, b := range States() {
			if a.CanBecome(b) != allowed[[2]State{a, b}] {
				t.Errorf("%s to %s: %v", a, b, a.CanBecome(b))
			}
			if a.Terminal() && a.CanBecome(b) {
				t.Errorf("terminal %s moves to %s", a, b)
			}
		}
	}
	if State("x").Valid() || State("x").CanBecome(Failed) {
		t.Error("an unknown state is valid or moves")
	}
}

func TestExitCodesComeFromTheEnd(t *testing.T) {
	for _, c := range []struct {
		state State
		f     *Failure
		want  int
	}{
		{Completed, nil, 0},
		{Failed, nil, 1},
		{Failed, &Failure{Code: FailModel}, 1},
		{Failed, &Failure{Code: FailChecks}, 3},
		{Failed, &Failure{Code: FailCredentials}, 4},
		{Failed, &Failure{Code: FailApproval}, 5},
		{Failed, &Failure{Code: FailSteps}, 6},
		{Failed, &Failure{Code: FailCost}, 6},
		{Failed, &Failure{Code: FailSandboxStart}, 7},
		{Failed, &Failure{Code: FailPaths}, 10},
		{Cancelled, nil, 130},
		{Cancelled, &Failure{Reason: ReasonTerminated}, 143},
		{Running, nil, 1},
	} {
		if got := ExitCode(c.state, c.f); got != c.want {
			t.Errorf("%s %+v: %d, want %d", c.state, c.f, got, c.want)
		}
	}
}

func TestErrorsKeepKindAndCause(t *testing.T) {
	err := fmt.Errorf("outer: %w", Errorf(KindConflict, "open %q: %w", "x", fs.ErrExist))
	if KindOf(err) != KindConflict || !errors.Is(err, fs.ErrExist) || !errors.Is(err, &Error{Kind: KindConflict}) {
		t.Errorf("kind %s, chain lost in %v", KindOf(err), err)
	}
	if KindOf(nil) != "" || KindOf(fs.ErrExist) != KindInternal {
		t.Error("kinds of nil and of a plain error")
	}
	p := ProblemOf(err, "req-1")
	back := p.Err()
	if back.Kind != KindConflict || back.Message != `open "x": file already exists` || p.Status != 409 {
		t.Errorf("problem %+v, back %+v", p, back)
	}
	if p := ProblemOf(errors.New("/secret/path"), "r"); p.Detail != "internal error" || p.Status != 500 {
		t.Errorf("a kindless error shows %+v", p)
	}
}

func TestEveryKindHasAStatusAndComesBack(t *testing.T) {
	for k, status := range statuses {
		e := &Error{Kind: k, Message: "m", Refusals: []Refusal{{Field: "f"}}, Next: 4}
		b, err := json.Marshal(ProblemOf(e, "i"))
		if err != nil {
			t.Fatal(err)
		}
		var p Problem
		if err := json.Unmarshal(b, &p); err != nil || p.Status != status {
			t.Fatalf("%s: %v, status %d", k, err, p.Status)
		}
		if got := p.Err(); got.Kind != k || k != KindInternal && (got.Message != "m" || len(got.Refusals) != 1 || got.Next != 4) {
			t.Errorf("%s came back as %+v", k, got)
		}
	}
}

func TestTheChainShowsAnyChange(t *testing.T) {
	var prev []byte
	var lines [][]byte
	for i := range 5 {
		e := NewEvent(1, Notice{Code: "c", Text: fmt.Sprint("<&>", i)})
		e.Seq, e.RunID, e.Attempt, e.Time = int64(i+1), "run_x", 1, At(time.Unix(1, 0))
		line, err := e.Seal(prev)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeEvent(line)
		if err != nil {
			t.Fatal(err)
		}
		again, err := back.Encode()
		if err != nil || !bytes.Equal(again, line) {
			t.Fatalf("an event changes on its way: %s / %s", line, again)
		}
		if bytes.ContainsAny(line, "\n") || !bytes.Contains(line, []byte("<&>")) {
			t.Errorf("line %s", line)
		}
		if i > 0 {
			sum := sha256.Sum256(lines[i-1])
			if back.Prev != hex.EncodeToString(sum[:16]) {
				t.Errorf("prev of %d is %s", i+1, back.Prev)
			}
		}
		prev, lines = line, append(lines, line)
	}
	if n, ok := As[Notice](Event{Type: TypeNotice, Data: json.RawMessage(`{"code":"c"}`)}); !ok || n.Code != "c" {
		t.Error("As does not decode")
	}
	if _, ok := As[StepStarted](Event{Type: TypeNotice}); ok {
		t.Error("As mixes types up")
	}
}

func TestSealRefusesAnEventOverTheBound(t *testing.T) {
	e := NewEvent(0, Notice{Text: strings.Repeat("x", MaxEventBytes)})
	if _, err := e.Seal(nil); KindOf(err) != KindTooLarge {
		t.Errorf("got %v", err)
	}
}

func TestRunIDsAreBoundToTheirSecret(t *testing.T) {
	entropy := []byte("0123456789abcdefghij")
	id := NewRunID([]byte("one"), entropy)
	if !id.Genuine([]byte("one")) || id.Genuine([]byte("two")) || !id.WellFormed() {
		t.Errorf("%s", id)
	}
	for _, bad := range []RunID{"", "run_", id[:len(id)-1], id + "0", "Run" + id[3:], RunID(strings.ToUpper(string(id)))} {
		if bad.WellFormed() || bad.Genuine([]byte("one")) {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestCleanText(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext é 漢":  "plain\n\ttext é 漢",
		"a\x00b\x1b[31m\r":   `a\x00b\x1b[31m\x0d`,
		"\xff\xc3":           `\xff\xc3`,
		"\u0085\u202e\u200b": `\x85\u{202E}\u{200B}`,
		"\U000e0041":         `\u{E0041}`,
	} {
		if got := CleanText(in); got != want {
			t.Errorf("%+q gives %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "s"))
		c := CleanText(s)
		if !utf8.ValidString(c) || !IsClean(c) || CleanText(c) != c {
			t.Fatalf("%+q gives %+q", s, c)
		}
	})
}

func TestTimesAreMilliseconds(t *testing.T) {
	b, err := json.Marshal(At(time.Date(2026, 1, 2, 3, 4, 5, 6_700_000, time.FixedZone("x", 3600))))
	if err != nil || string(b) != `"2026-01-02T02:04:05.006Z"` {
		t.Errorf("%s %v", b, err)
	}
	var back Time
	if err := json.Unmarshal([]byte(`"yesterday"`), &back); err == nil {
		t.Error("a word is a time")
	}
}

func TestNearestNamesOnlySlips(t *testing.T) {
	if got := Nearest("max_step", []string{"maxSteps", "model"}); got != "maxSteps" {
		t.Errorf("got %q", got)
	}
	if got := Nearest("zzz", []string{"instruction", "model"}); got != "" {
		t.Errorf("got %q", got)
	}
}
