package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/contract"
)

// machine drives one run by random decisions and holds what must be true after every one of them.
type machine struct {
	*world
	t         *rapid.T
	status    contract.State // "" before Create
	attempt   int
	lines     [][]byte
	decisions map[string]contract.Verdict
	asked     []string
	calls     []string
	clientSeq int64
	end       *contract.Run
	tokens    int64
	mode      contract.Unattended
	first     contract.Task // what the run was created with
}

var errCrash = errors.New("the host lost its transaction")

// step runs a decision; one time in eight the host loses the transaction after it.
func (m *machine) step(name string, f func(tx Tx) error) error {
	m.world.t = m.t
	crash := rapid.IntRange(0, 7).Draw(m.t, name+" crash") == 0
	err := m.m.do(func(tx Tx) error {
		if err := f(tx); err != nil || !crash {
			return err
		}
		return errCrash
	})
	if err != nil && !errors.Is(err, errCrash) && contract.KindOf(err) == contract.KindInternal {
		m.t.Fatalf("%s: internal error %v", name, err)
	}
	return err
}

func (m *machine) anyAttempt() int {
	return m.attempt + rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1}).Draw(m.t, "attempt off")
}

// fenced checks that a write that went through named the attempt that holds the run.
func (m *machine) fenced(what string, attempt int, err error) {
	if err == nil && (attempt != m.attempt || m.status != contract.Running) {
		m.t.Fatalf("%s by attempt %d went through, run is %s with attempt %d", what, attempt, m.status, m.attempt)
	}
}

func (m *machine) Create(t *rapid.T) {
	m.t = t
	task := validTask()
	task.IdempotencyKey = "key"
	task.Limits.MaxOutputTokens = 3000
	if rapid.Bool().Draw(t, "other body") {
		task.Instruction = "something else"
	}
	task.Approval.Unattended = m.mode
	existed := m.status
	var run contract.Run
	err := m.step("create", func(tx Tx) (err error) {
		run, err = m.core.Create(tx, m.env(), "alice", task)
		return err
	})
	switch {
	case errors.Is(err, errCrash):
	case existed == "" && err != nil:
		t.Fatalf("create: %v", err)
	case existed != "" && task.Instruction != m.first.Instruction:
		m.wants(err, contract.KindIdempotencyConflict)
	case existed != "" && err != nil:
		t.Fatalf("repeat: %v", err)
	case err == nil && existed == "":
		m.first = task
	case err == nil && run.ID != m.read().ID:
		t.Fatal("repeat gives another run")
	}
}

func (m *machine) Claim(t *rapid.T) {
	m.t = t
	err := m.step("claim", func(tx Tx) error {
		_, err := m.core.Claim(tx, m.env(), "owner", time.Duration(rapid.IntRange(10, 100).Draw(t, "lease"))*time.Second)
		return err
	})
	if err == nil && m.status != contract.Queued {
		t.Fatalf("claimed a run that is %q", m.status)
	}
	if err == nil {
		m.clientSeq = 0
	}
}

func (m *machine) Renew(t *rapid.T) {
	m.t = t
	a := m.anyAttempt()
	m.fenced("renew", a, m.step("renew", func(tx Tx) error {
		_, err := m.core.Renew(tx, m.env(), a, 50*time.Second)
		return err
	}))
}

func (m *machine) Append(t *rapid.T) {
	m.t = t
	a := m.anyAttempt()
	e := rapid.SampledFrom([]contract.Event{
		contract.NewEvent(1, contract.StepStarted{Step: 1}), contract.NewEvent(1, contract.ModelDelta{Text: "x"}),
		contract.NewEvent(1, contract.ToolStarted{CallID: "c"}), contract.NewEvent(0, contract.RunEnded{State: contract.Completed}),
		contract.NewEvent(0, contract.ApprovalDecided{ID: "apr_x"}), contract.NewEvent(0, contract.MessageUser{}),
		contract.NewEvent(1, contract.ModelMessage{Text: "m", Usage: contract.ModelUsage{Output: 5, Known: true}}),
	}).Draw(t, "event")
	err := m.step("append", func(tx Tx) error {
		_, err := m.core.Append(tx, m.env(), a, e, e)
		return err
	})
	m.fenced("append", a, err)
	if err == nil && (e.Ends() || e.Type == contract.TypeApprovalDecided || e.Type == contract.TypeMessageUser) {
		t.Fatalf("a runner wrote %s", e.Type)
	}
}

func (m *machine) AppendClient(t *rapid.T) {
	m.t = t
	a := m.anyAttempt()
	n := rapid.IntRange(0, 4).Draw(t, "batch")
	b := Batch{FirstClientSeq: m.clientSeq + int64(rapid.IntRange(-3, 3).Draw(t, "offset"))}
	for i := range n {
		b.Events = append(b.Events, contract.NewEvent(int(b.FirstClientSeq)+i, contract.StepStarted{}))
	}
	before := len(m.lines)
	var done Appended
	err := m.step("client", func(tx Tx) (err error) {
		done, err = m.core.AppendClient(tx, m.env(), a, b)
		return err
	})
	m.fenced("client append", a, err)
	if err != nil {
		if e, ok := errors.AsType[*contract.Error](err); ok && e.Kind == contract.KindClientSeqGap && e.Next != m.clientSeq+1 {
			t.Fatalf("gap names %d, expected %d", e.Next, m.clientSeq+1)
		}
		return
	}
	want := max(m.clientSeq, b.FirstClientSeq+int64(n)-1)
	if done.NextClientSeq != want+1 || done.LastSeq != int64(before)+want-m.clientSeq {
		t.Fatalf("batch %d+%d after %d: %+v", b.FirstClientSeq, n, m.clientSeq, done)
	}
	m.clientSeq = want
}

func (m *machine) Ask(t *rapid.T) {
	m.t = t
	a := m.anyAttempt()
	var got contract.Approval
	err := m.step("ask", func(tx Tx) (err error) {
		got, err = m.core.Ask(tx, m.env(), a, contract.Approval{
			Kind: contract.ApproveCommand, CallID: rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(t, "call"),
			Command: contract.Asked{Script: "make"}, Decision: contract.AllowOnce, DecidedBy: "the runner itself",
		})
		return err
	})
	m.fenced("ask", a, err)
	if err != nil {
		return
	}
	if got.Decision.Allows() && m.decisions[got.ID] == "" {
		t.Fatal("a question came with its own answer")
	}
	m.asked = append(m.asked, got.ID)
}

func (m *machine) Decide(t *rapid.T) {
	m.t = t
	if len(m.asked) == 0 {
		t.Skip("nothing asked")
	}
	id := rapid.SampledFrom(m.asked).Draw(t, "approval")
	v := rapid.SampledFrom([]contract.Verdict{contract.AllowOnce, contract.AllowSession, contract.Deny, contract.CancelRun}).Draw(t, "verdict")
	var got contract.Approval
	err := m.step("decide", func(tx Tx) (err error) {
		got, err = m.core.Decide(tx, m.env(), id, contract.Decision{Verdict: v, By: "alice"})
		return err
	})
	switch stood := m.decisions[id]; {
	case errors.Is(err, errCrash):
	case err == nil && (m.status.Terminal() || stood != "" && stood != v || v == contract.AllowSession):
		t.Fatalf("%s on a %s run, standing %q: accepted", v, m.status, stood)
	case contract.KindOf(err) == contract.KindApprovalDecided && (got.Decision == "" || got.Decision == v):
		t.Fatalf("standing decision is %q", got.Decision)
	}
}

func (m *machine) Cancel(t *rapid.T) {
	m.t = t
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		t.Skip("most runs are not cancelled")
	}
	_ = m.step("cancel", func(tx Tx) error {
		_, err := m.core.Cancel(tx, m.env(), "alice", "enough")
		return err
	})
}

func (m *machine) Mail(t *rapid.T) {
	m.t = t
	a := m.anyAttempt()
	_ = m.step("send", func(tx Tx) error {
		_, err := m.core.Send(tx, m.env(), "go on")
		return err
	})
	m.fenced("take", a, m.step("take", func(tx Tx) error {
		_, err := m.core.TakeMessages(tx, m.env(), a)
		return err
	}))
}

func (m *machine) Model(t *rapid.T) {
	m.t = t
	a := m.anyAttempt()
	_ = m.step("activate", func(tx Tx) error { return m.core.Activate(tx, m.env(), a, Grant{}) })
	id := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8"}).Draw(t, "call id")
	var r Reservation
	err := m.step("reserve", func(tx Tx) (err error) {
		r, err = m.core.Reserve(tx, m.env(), a, Call{ID: id, Model: "good", MaxTokens: 1000, PromptBytes: 100})
		return err
	})
	m.fenced("reserve", a, err)
	if err == nil && !r.Repeated {
		m.calls = append(m.calls, id)
		m.tokens += int64(r.MaxTokens)
	}
	if err == nil && rapid.Bool().Draw(t, "settle") {
		_ = m.step("settle", func(tx Tx) error {
			return m.core.Settle(tx, m.env(), id, contract.ModelUsage{Output: int64(r.MaxTokens), Known: true}, []byte("{}"))
		})
	}
}

func (m *machine) Finish(t *rapid.T) {
	m.t = t
	a := m.anyAttempt()
	e := provenEnding()
	switch rapid.IntRange(0, 9).Draw(t, "ending") {
	case 0:
		e.Result.Checks[0].Passed = false
	case 1:
		e.Result.ChangedFiles[0].Path = "../etc/passwd"
	case 2:
		e = contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: contract.FailSteps, Message: "steps"}}
	case 3:
		e = contract.Ending{State: contract.Cancelled}
	}
	var run contract.Run
	err := m.step("finish", func(tx Tx) (err error) {
		run, err = m.core.Finish(tx, m.env(), a, e)
		return err
	})
	if err == nil && run.Status == contract.Completed && (e.State != contract.Completed || !e.Result.Checks[0].Passed || e.Result.ChangedFiles[0].Path != "src/a.py") {
		t.Fatalf("%+v counts as completed", e)
	}
	if err == nil && run.CancelRequested && run.Status != contract.Cancelled {
		t.Fatalf("a completion after a cancel wins: %s", run.Status)
	}
	if err == nil && m.status != contract.Queued {
		m.fenced("finish", a, nil)
	}
}

func (m *machine) Interrupt(t *rapid.T) {
	m.t = t
	_ = m.step("interrupt", func(tx Tx) error {
		_, err := m.core.Interrupt(tx, m.env())
		return err
	})
}

func (m *machine) Time(t *rapid.T) {
	m.t = t
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
	if rapid.Bool().Draw(t, "alarm") {
		_ = m.step("alarm", func(tx Tx) error {
			_, err := m.core.Alarm(tx, m.env())
			return err
		})
		return
	}
	_ = m.step("expire", func(tx Tx) error {
		_, err := m.core.Expire(tx, m.env())
		return err
	})
}

// Check holds the invariants of design.md 5 and sandbox.md 4.4 after every step.
func (m *machine) Check(t *rapid.T) {
	m.t, m.world.t = t, t
	if _, found := m.m.records[keyHead]; !found {
		if len(m.m.records) > 0 {
			t.Fatalf("a refused create left %d records", len(m.m.records))
		}
		return
	}
	run := m.read()
	if m.status != "" && run.Status != m.status && !m.status.CanBecome(run.Status) {
		t.Fatalf("%s became %s", m.status, run.Status)
	}
	if run.Attempt < m.attempt {
		t.Fatalf("attempt went back from %d to %d", m.attempt, run.Attempt)
	}
	m.checkLog(run)
	m.checkApprovals(run)
	m.checkBudget()
	if m.end != nil && !reflect.DeepEqual(*m.end, run) {
		t.Fatalf("an ended run changed:\n%+v\n%+v", *m.end, run)
	}
	if run.Status.Terminal() && m.end == nil {
		m.end = &run
	}
	m.status, m.attempt = run.Status, run.Attempt
}

func (m *machine) checkLog(run contract.Run) {
	lines, err := m.core.Events(m.m, 0, 1<<20)
	m.must(err)
	if len(lines) < len(m.lines) || int64(len(lines)) != run.LastSeq {
		m.t.Fatalf("%d lines after %d, last is %d", len(lines), len(m.lines), run.LastSeq)
	}
	var prev []byte
	for i, l := range lines {
		if i < len(m.lines) && !bytes.Equal(l, m.lines[i]) {
			m.t.Fatalf("line %d changed", i+1)
		}
		var e contract.Event
		m.must(json.Unmarshal(l, &e))
		if e.Seq != int64(i+1) || e.Prev != contract.ChainHash(prev) || e.RunID != run.ID {
			m.t.Fatalf("line %d is %s", i+1, l)
		}
		if e.Ends() != (run.Status.Terminal() && i == len(lines)-1) {
			m.t.Fatalf("%s stands at %d of %d, run is %s", e.Type, i+1, len(lines), run.Status)
		}
		if end, ok := contract.EndedOf(e); ok && (end.State != run.Status || end.ExitCode != run.ExitCode() || !reflect.DeepEqual(end.Error, run.Error)) {
			m.t.Fatalf("end event %+v, run %+v", end, run)
		}
		prev = l
	}
	m.lines = lines
}

func (m *machine) checkApprovals(run contract.Run) {
	list, err := m.core.Approvals(m.m)
	m.must(err)
	if len(list.Pending) != run.PendingApprovals {
		m.t.Fatalf("%d pending, run says %d", len(list.Pending), run.PendingApprovals)
	}
	seen := map[string]int{}
	for _, l := range m.lines {
		var e contract.Event
		m.must(json.Unmarshal(l, &e))
		if d, ok := contract.As[contract.ApprovalDecided](e); ok {
			seen[d.ID]++
		}
		if c, ok := contract.As[contract.ApprovalClosed](e); ok {
			seen[c.ID]++
		}
	}
	for _, a := range list.Decided {
		if stood := m.decisions[a.ID]; stood != "" && stood != a.Decision {
			m.t.Fatalf("decision on %s went from %s to %s", a.ID, stood, a.Decision)
		}
		if a.Decision.Allows() && !a.DecidedAt.Before(a.ExpiresAt.Time) {
			m.t.Fatal("allowed after the time-out")
		}
		m.decisions[a.ID] = a.Decision
	}
	for id, n := range seen {
		if n != 1 {
			m.t.Fatalf("approval %s was answered or closed %d times", id, n)
		}
	}
}

func (m *machine) checkBudget() {
	var k capability
	found, err := get(m.m, keyCapability, &k)
	m.must(err)
	if found && (k.Used > k.MaxRequests || len(m.calls) > k.Used || k.Tokens > k.MaxTokens) {
		m.t.Fatalf("budget: %+v, %d calls allowed", k, len(m.calls))
	}
	if found && m.status.Terminal() && !k.Revoked {
		m.t.Fatal("the capability outlives the run")
	}
}

func TestAnyInterleavingKeepsTheInvariants(t *testing.T) {
	ended, completed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{world: newWorld(t, testConfig(contract.Edge())), decisions: map[string]contract.Verdict{}, t: t}
		m.mode = rapid.SampledFrom([]contract.Unattended{"", "", contract.UnattendedDeny, contract.UnattendedStop}).Draw(t, "unattended")
		if rapid.IntRange(0, 3).Draw(t, "started") > 0 { // the deeper states are worth most of the walks
			m.Create(t)
			m.Check(t)
			m.Claim(t)
			m.Check(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": m.Create, "claim": m.Claim, "renew": m.Renew, "append": m.Append, "client": m.AppendClient,
			"ask": m.Ask, "decide": m.Decide, "cancel": m.Cancel, "mail": m.Mail, "model": m.Model,
			"finish": m.Finish, "interrupt": m.Interrupt, "time": m.Time, "": m.Check,
		})
		m.conclude()
		if m.end != nil {
			ended++
			if m.end.Status == contract.Completed {
				completed++
			}
		}
	})
	t.Logf("%d runs ended, %d completed", ended, completed)
	if !testing.Short() && (ended == 0 || completed == 0) {
		t.Errorf("%d runs ended, %d completed: the test sees too little", ended, completed)
	}
}

// conclude lets time pass: a claimed run ends without anybody's help, and what ended can be removed.
func (m *machine) conclude() {
	if m.status == "" || m.status == contract.Queued {
		return
	}
	m.now = m.now.Add(time.Hour)
	m.must(m.m.do(func(tx Tx) error {
		_, err := m.core.Alarm(tx, m.env())
		return err
	}))
	m.Check(m.t)
	if m.end == nil {
		m.t.Fatal("an hour after its wall time the run has not ended")
	}
	m.must(m.m.do(func(tx Tx) error { return m.core.Delete(tx) }))
	if len(m.m.records) > 0 {
		m.t.Fatalf("delete left %d records", len(m.m.records))
	}
}
