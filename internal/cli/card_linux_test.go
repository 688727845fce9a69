package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

func asked() contract.Approval {
	return contract.Approval{
		ID: "apr_0123456789abcdef", Title: "Run git push", Command: contract.Asked{Script: "git push origin HEAD\nrm -rf build"},
		Reason: "`git push` uses the network", Risk: contract.Risk{Level: "high", Why: []string{"it leaves this machine"}},
		SessionScope: contract.SessionScope{Pattern: "shell(git push:*)", Explain: "any git push"},
	}
}

type answer struct {
	d   contract.Decision
	err error
}

// ask shows the card on the screen and gives the channel of its answer.
func ask(ctx context.Context, s *screen, a contract.Approval) <-chan answer {
	f := &Factory{IO: s.io(), Getenv: func(string) string { return "ada" }, Now: time.Now}
	out := make(chan answer, 1)
	go func() {
		d, err := askKey(ctx, f, a, contract.ApprovalPolicy{Policy: contract.PolicyAsk})
		out <- answer{d, err}
	}()
	return out
}

func TestCardTakesOneKey(t *testing.T) {
	for key, want := range map[string]contract.Verdict{"a": contract.AllowOnce, "s": contract.AllowSession, "d": contract.Deny, "x": contract.CancelRun} {
		s := newScreen(t)
		before := s.settings(t)
		got := ask(t.Context(), s, asked())
		s.wait(t, "[a] once")
		<-time.After(deaf + 200*time.Millisecond)
		s.keys(t, key)
		if a := <-got; a.err != nil || a.d.Verdict != want || a.d.By != "ada" {
			t.Errorf("%s: %+v %v", key, a.d, a.err)
		}
		if s.settings(t) != before {
			t.Errorf("%s: the terminal is not as it was", key)
		}
		for _, line := range []string{"git push origin HEAD", "rm -rf build", "because  `git push` uses the network", "shell(git push:*)"} {
			if !strings.Contains(s.text(), line) {
				t.Errorf("the card does not show %q", line)
			}
		}
	}
}

// What was typed before the card could be read, Enter, Space, other keys and a paste decide nothing.
func TestCardHasNoDefaultAndIgnoresEarlyKeys(t *testing.T) {
	s := newScreen(t)
	s.keys(t, "a\n")
	got := ask(t.Context(), s, asked())
	s.wait(t, "[a] once")
	s.keys(t, "a")
	<-time.After(deaf + 200*time.Millisecond)
	for _, k := range []string{"\r", " ", "y", "aaaa"} {
		s.keys(t, k)
		select {
		case a := <-got:
			t.Fatalf("%q decided %+v", k, a)
		case <-time.After(150 * time.Millisecond):
		}
	}
	s.keys(t, "e")
	s.wait(t, "it leaves this machine")
	<-time.After(100 * time.Millisecond)
	s.keys(t, "v")
	<-time.After(200 * time.Millisecond)
	s.keys(t, "d")
	if a := <-got; a.d.Verdict != contract.Deny {
		t.Errorf("%+v", a)
	}
}

func TestCardWithoutScopeOffersNoSession(t *testing.T) {
	a := asked()
	a.SessionScope = contract.SessionScope{}
	s := newScreen(t)
	got := ask(t.Context(), s, a)
	s.wait(t, "[a] once")
	<-time.After(deaf + 200*time.Millisecond)
	s.keys(t, "s")
	s.wait(t, "only be allowed once")
	<-time.After(100 * time.Millisecond)
	s.keys(t, "a")
	if a := <-got; a.d.Verdict != contract.AllowOnce || strings.Contains(s.text(), "[s] session") {
		t.Errorf("%+v", a)
	}
}

func TestCardIsTakenBack(t *testing.T) {
	s := newScreen(t)
	before := s.settings(t)
	ctx, cancel := context.WithCancel(t.Context())
	got := ask(ctx, s, asked())
	s.wait(t, "[a] once")
	<-time.After(deaf)
	cancel()
	if a := <-got; !errors.Is(a.err, context.Canceled) {
		t.Errorf("%+v", a)
	}
	if s.settings(t) != before {
		t.Error("the terminal is not as it was")
	}
}
