package host_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
)

const inlineTask = `{"instruction":"x","model":"m","files":[{"path":"a.txt","content":"a"}],"allowedPaths":["a.txt"],
 "limits":{"maxSteps":5,"wallTimeSeconds":60},"approval":{"policy":"deny-all"}}`

func TestPrincipalsTakeTurns(t *testing.T) {
	var mu sync.Mutex
	var order []contract.RunID
	gate := make(chan struct{})
	s, url := serverProfile(t, host.Options{MaxRuns: 1, MaxQueued: 12, Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		mu.Lock()
		order = append(order, j.Run.ID)
		mu.Unlock()
		<-gate
		return done(ctx, j)
	})})
	create := func(who string) contract.RunID {
		t.Helper()
		r := ask(t, "POST", url+"/v1/runs", inlineTask, "Content-Type", "application/json", "Authorization", "Bearer "+who)
		if r.status != 202 {
			t.Fatalf("%s: %+v", who, r)
		}
		return contract.RunID(strings.TrimPrefix(r.header.Get("Location"), "/v1/runs/"))
	}
	alice := []contract.RunID{create("alice")}
	for s.Load().Active == 0 {
		<-time.After(time.Millisecond)
	}
	for range 4 {
		alice = append(alice, create("alice"))
	}
	bob := create("bob")
	if l := s.Load(); l.Active != 1 || l.Queued != 5 {
		t.Errorf("load %+v", l)
	}
	for range 2 {
		create("alice")
	}
	wantProblem(t, "alice's seventh", ask(t, "POST", url+"/v1/runs", inlineTask, "Content-Type", "application/json", "Authorization", "Bearer alice"), contract.KindTooManyRequests)
	create("bob")
	close(gate)
	for s.Load() != (host.Load{}) {
		<-time.After(time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	if at := slices.Index(order, bob); at < 1 || at > 2 {
		t.Errorf("bob's run came as number %d of %v", at, order)
	}
	if !slices.Equal(order[:1], alice[:1]) {
		t.Errorf("order %v", order)
	}
}

func TestDrainLetsRunsEndAndClaimsNoMore(t *testing.T) {
	gate, begun := make(chan struct{}), make(chan struct{}, 9)
	s, url := serverProfile(t, host.Options{MaxRuns: 1, Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		begun <- struct{}{}
		<-gate
		return done(ctx, j)
	})})
	for range 2 {
		if r := ask(t, "POST", url+"/v1/runs", inlineTask, "Content-Type", "application/json"); r.status != 202 {
			t.Fatal(r)
		}
	}
	<-begun
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if n := s.Drain(short); n != 1 {
		t.Errorf("%d under way", n)
	}
	wantProblem(t, "a run while draining", ask(t, "POST", url+"/v1/runs", inlineTask, "Content-Type", "application/json"), contract.KindUnavailable)
	if err := s.Ready(t.Context()); contract.KindOf(err) != contract.KindUnavailable {
		t.Errorf("ready: %v", err)
	}
	close(gate)
	if n := s.Drain(t.Context()); n != 0 || len(begun) != 0 {
		t.Errorf("%d under way, %d claimed", n, len(begun))
	}
	if r := ask(t, "GET", url+"/v1/runs?status=queued", ""); strings.Count(r.body, `"id":`) != 1 {
		t.Errorf("queued: %s", fmt.Sprint(r))
	}
}
