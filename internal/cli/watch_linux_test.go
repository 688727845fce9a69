package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rivumi/rivumi/internal/contract"
)

func watcherOn(s *screen, m *memory) (*watcher, *printer) {
	f := &Factory{IO: s.io(), Getenv: func(string) string { return "ada" }, Now: time.Now}
	p := newPrinter(f.IO)
	return &watcher{f: f, runs: m, id: idA, asks: true, show: func(e contract.Event) error {
		p.event(e)
		return nil
	}}, p
}

func TestWatcherAnswersAtTheTerminal(t *testing.T) {
	m := newMemory()
	m.add(contract.Run{ID: idA, Status: contract.Running}, contract.RunQueued{}, contract.ApprovalRequested{Approval: asked()})
	s := newScreen(t)
	w, _ := watcherOn(s, m)
	done := make(chan error, 1)
	go func() { done <- w.follow(t.Context(), 0) }()
	s.wait(t, "[a] once")
	<-time.After(deaf + 200*time.Millisecond)
	s.keys(t, "a")
	s.wait(t, "allowed once by ada")
	m.tell(idA, ending(contract.Completed, 0, nil))
	if err := <-done; err != nil {
		t.Error(err)
	}
	if d := m.decisions[asked().ID]; d.Verdict != contract.AllowOnce {
		t.Errorf("%+v", d)
	}
}

func TestWatcherTakesACardBackThatSomebodyElseAnswered(t *testing.T) {
	m := newMemory()
	m.add(contract.Run{ID: idA, Status: contract.Running}, contract.RunQueued{}, contract.ApprovalRequested{Approval: asked()})
	s := newScreen(t)
	before := s.settings(t)
	w, _ := watcherOn(s, m)
	done := make(chan error, 1)
	go func() { done <- w.follow(t.Context(), 0) }()
	s.wait(t, "[a] once")
	if err := m.Decide(t.Context(), idA, asked().ID, contract.Decision{Verdict: contract.Deny, By: "eve"}); err != nil {
		t.Fatal(err)
	}
	s.wait(t, "denied by eve")
	s.keys(t, "a")
	m.tell(idA, ending(contract.Failed, 5, nil))
	if err := <-done; err != nil {
		t.Error(err)
	}
	if m.decisions[asked().ID].Verdict != contract.Deny || s.settings(t) != before {
		t.Errorf("%+v", m.decisions)
	}
}

func TestWatcherLeavesNothingRunning(t *testing.T) {
	m := newMemory()
	m.add(contract.Run{ID: idA, Status: contract.Running}, contract.RunQueued{}, contract.ApprovalRequested{Approval: asked()})
	s := newScreen(t)
	w, p := watcherOn(s, m)
	ignore := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.follow(ctx, 0) }()
	s.wait(t, "[a] once")
	cancel(errLeave)
	if err := <-done; !errors.Is(err, errLeave) {
		t.Errorf("ended with %v", err)
	}
	goleak.VerifyNone(t, ignore)
	if len(p.pic.Approvals) != 1 || !strings.Contains(s.text(), "approval apr_") {
		t.Error("the approval was not shown")
	}
}
