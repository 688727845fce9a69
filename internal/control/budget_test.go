package control

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/contract"
)

// spender is a world with a claimed run and an open capability.
func spender(t failer, limits contract.Limits) *world {
	w := newWorld(t, testConfig(contract.Server()))
	task := validTask()
	task.Limits = limits
	w.create(task)
	w.claim()
	w.must(w.activate(Grant{}))
	return w
}

func (w *world) activate(g Grant) error {
	return w.m.do(func(tx Tx) error { return w.core.Activate(tx, w.env(), 1, g) })
}

func (w *world) reserve(c Call) (Reservation, error) {
	var r Reservation
	err := w.m.do(func(tx Tx) (err error) {
		r, err = w.core.Reserve(tx, w.env(), 1, c)
		return err
	})
	return r, err
}

func (w *world) settle(id string, u contract.ModelUsage, answer string) {
	w.must(w.m.do(func(tx Tx) error { return w.core.Settle(tx, w.env(), id, u, []byte(answer)) }))
}

func (w *world) spent() capability {
	var k capability
	_, err := get(w.m, keyCapability, &k)
	w.must(err)
	return k
}

func TestSixtyFourInterleavedCallersNeverExceedTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := contract.Limits{MaxSteps: 1 + rapid.IntRange(0, 20).Draw(t, "steps"), WallTimeSeconds: 100}
		if rapid.Bool().Draw(t, "tokens") {
			limits.MaxOutputTokens = int64(rapid.IntRange(1, 5000).Draw(t, "max tokens"))
		}
		if rapid.Bool().Draw(t, "money") {
			limits.MaxCostUSD = rapid.Float64Range(0.001, 0.2).Draw(t, "max cost")
		}
		w := spender(t, limits)
		forwarded, tokens, money := 0, int64(0), 0.0
		for i := range 64 {
			size := int64(rapid.IntRange(1, 4000).Draw(t, "prompt"))
			r, err := w.reserve(Call{ID: fmt.Sprint(i), Model: "good", MaxTokens: rapid.IntRange(0, 2000).Draw(t, "most"), PromptBytes: size})
			if err == nil {
				forwarded++
				used := rapid.IntRange(0, r.MaxTokens).Draw(t, "used")
				tokens += int64(used)
				money += float64(size/2)*3/1e6 + float64(used)*15/1e6
				if rapid.Bool().Draw(t, "settles") {
					w.settle(r.CallID, contract.ModelUsage{Input: size / 2, Output: int64(used), Known: true}, "{}")
				}
			} else if s := contract.KindOf(err).Status(); s != 429 {
				t.Fatalf("refused with %d: %v", s, err)
			}
		}
		if forwarded > limits.ModelRequests() {
			t.Fatalf("%d calls forwarded, %d allowed", forwarded, limits.ModelRequests())
		}
		if limits.MaxOutputTokens > 0 && tokens > limits.MaxOutputTokens {
			t.Fatalf("%d tokens used, %d allowed", tokens, limits.MaxOutputTokens)
		}
		if limits.MaxCostUSD > 0 && money > limits.MaxCostUSD+1e-6 {
			t.Fatalf("%f dollars used, %f allowed", money, limits.MaxCostUSD)
		}
		if got := w.read().Usage.ModelRequests; got != forwarded {
			t.Fatalf("run counts %d requests, %d were forwarded", got, forwarded)
		}
	})
}

func TestACallIsPaidOnceAndAnsweredAgain(t *testing.T) {
	w := spender(t, contract.Limits{MaxSteps: 4, WallTimeSeconds: 100})
	first, err := w.reserve(Call{ID: "a", Model: "good"})
	w.must(err)
	if first.Remaining != 5 || first.MaxTokens != 32_768 {
		t.Errorf("%+v", first)
	}
	_, err = w.reserve(Call{ID: "a", Model: "good"})
	w.wants(err, contract.KindConflict) // in flight
	w.settle("a", contract.ModelUsage{Output: 9, Known: true}, `{"ok":true}`)
	w.settle("a", contract.ModelUsage{Output: 1, Known: true}, `{"other":true}`)
	again, err := w.reserve(Call{ID: "a", Model: "good"})
	w.must(err)
	if !again.Repeated || string(again.Answer) != `{"ok":true}` || w.spent().Used != 1 || w.spent().Tokens != 9 {
		t.Errorf("%+v, %+v", again, w.spent())
	}
	for i := range keptAnswers {
		id := fmt.Sprint(i)
		_, err := w.reserve(Call{ID: id, Model: "good"})
		w.must(err)
		w.settle(id, contract.ModelUsage{}, "{}")
	}
	_, err = w.reserve(Call{ID: "a", Model: "good"})
	w.wants(err, contract.KindConflict) // its answer is gone, and it is not made twice
}

func TestAnUnsettledCallCountsAsSpent(t *testing.T) {
	w := spender(t, contract.Limits{MaxSteps: 8, WallTimeSeconds: 100, MaxOutputTokens: 1000})
	r, err := w.reserve(Call{ID: "a", Model: "good", MaxTokens: 700})
	w.must(err)
	next, err := w.reserve(Call{ID: "b", Model: "good", MaxTokens: 700})
	w.must(err)
	if r.MaxTokens != 700 || next.MaxTokens != 300 {
		t.Errorf("%+v then %+v", r, next)
	}
	_, err = w.reserve(Call{ID: "c", Model: "good", MaxTokens: 1})
	w.wants(err, contract.KindTokensExhausted)
	w.settle("a", contract.ModelUsage{}, "") // an answer without usage stays charged
	_, err = w.reserve(Call{ID: "d", Model: "good", MaxTokens: 1})
	w.wants(err, contract.KindTokensExhausted)
	w.settle("b", contract.ModelUsage{Output: 100, Known: true}, "")
	last, err := w.reserve(Call{ID: "e", Model: "good", MaxTokens: 500})
	w.must(err)
	if last.MaxTokens != 200 {
		t.Errorf("%+v", last)
	}
}

func TestTheCapabilityOpensForOneAttemptOneModelOneLife(t *testing.T) {
	w := spender(t, contract.Limits{MaxSteps: 4, WallTimeSeconds: 100})
	w.wants(w.activate(Grant{}), contract.KindConflict)
	_, err := w.reserve(Call{ID: "a", Model: "other"})
	w.wants(err, contract.KindInactiveToken)
	w.wants(w.m.do(func(tx Tx) error {
		_, err := w.core.Reserve(tx, w.env(), 2, Call{ID: "a", Model: "good"})
		return err
	}), contract.KindInactiveToken)
	w.now = epoch.Add(180 * time.Second)
	_, err = w.reserve(Call{ID: "a", Model: "good"})
	w.wants(err, contract.KindInactiveToken)
	w.now = epoch
	w.must(w.m.do(func(tx Tx) error { return w.core.Revoke(tx, w.env()) }))
	_, err = w.reserve(Call{ID: "a", Model: "good"})
	w.wants(err, contract.KindInactiveToken)
	w.wants(w.activate(Grant{}), contract.KindConflict)
}

func TestMoneyWithoutAPriceFailsClosed(t *testing.T) {
	cfg := testConfig(contract.Server())
	cfg.Prices = nil
	w := newWorld(t, cfg)
	task := validTask()
	task.Limits.MaxCostUSD = 1
	w.create(task)
	w.claim()
	w.wants(w.activate(Grant{}), contract.KindInvalid)
}

func TestAfterACancelNoCallIsForwarded(t *testing.T) {
	w := spender(t, contract.Limits{MaxSteps: 4, WallTimeSeconds: 100})
	w.must(w.m.do(func(tx Tx) error {
		_, err := w.core.Cancel(tx, w.env(), "alice", "")
		return err
	}))
	_, err := w.reserve(Call{ID: "a", Model: "good"})
	w.wants(err, contract.KindInactiveToken)
}
