package control

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// Bounds of the model capability.
const (
	CapabilityMargin = 80 * time.Second // how long a capability outlives the wall time
	MaxCallID        = 200              // bytes
	MaxKeptAnswer    = 1 << 20          // bytes of an answer kept for a repeated call
	keptAnswers      = 4                // how many answers are kept at once
	micro            = 1e6              // millionths of a dollar in one
	leastTokens      = 256              // a call that cannot be paid with this much output is refused
)

// capability is what an attempt may still ask of the model. Tokens and money hold what was
// reserved until a call is settled: a call that is never settled counts as spent.
type capability struct {
	Attempt     int           `json:"attempt"`
	Model       string        `json:"model"`
	Expires     contract.Time `json:"expires"`
	Revoked     bool          `json:"revoked,omitempty"`
	MaxRequests int           `json:"maxRequests"`
	Used        int           `json:"used"`
	MaxTokens   int64         `json:"maxTokens,omitempty"` // output tokens of the run; 0: not limited
	Tokens      int64         `json:"tokens"`
	MaxMicro    int64         `json:"maxMicro,omitempty"` // millionths of a dollar; 0: not limited
	Micro       int64         `json:"micro"`
	Answers     []string      `json:"answers,omitempty"` // keys of the answers kept, oldest first
}

// spend is the record of one call.
type spend struct {
	Settled bool  `json:"settled"`
	Tokens  int64 `json:"tokens"`
	Micro   int64 `json:"micro"`
}

// Grant is the model capability of an attempt.
type Grant struct {
	Model     string    // "" is the task's
	ExpiresAt time.Time // zero: the task's wall time and 80 s from now
}

// Call asks to spend one model request.
type Call struct {
	ID          string // the same for every retry of one call; 1 to 200 bytes
	Model       string
	MaxTokens   int   // most output the call may produce; 0: what the profile allows
	PromptBytes int64 // size of the request, from which the price of its input is bounded
}

// Reservation is one model request that may be made, or the answer that stands for it.
type Reservation struct {
	CallID    string
	MaxTokens int    // clamped to the profile and to what is left; 0: not limited
	Remaining int    // requests left after this one
	Repeated  bool   // the call was settled before: Answer is what it got
	Answer    []byte // only with Repeated
}

// Activate opens the model capability of a running attempt. A second activation is KindConflict,
// also after Revoke. A money limit without a known price is KindInvalid.
func (c *Core) Activate(tx Tx, env Env, attempt int, g Grant) error {
	en, err := c.open(tx, env)
	if err != nil {
		return err
	}
	if err := en.fence(attempt); err != nil {
		return err
	}
	if found, err := get(tx, keyCapability, &capability{}); err != nil {
		return err
	} else if found {
		return contract.Errorf(contract.KindConflict, "model capability was activated before")
	}
	b, err := en.base()
	if err != nil {
		return err
	}
	l := b.Task.Limits
	k := capability{
		Attempt: attempt, Model: g.Model, Expires: contract.At(g.ExpiresAt), MaxRequests: l.ModelRequests(),
		MaxTokens: l.MaxOutputTokens, MaxMicro: int64(math.Ceil(l.MaxCostUSD * micro)),
	}
	if k.Model == "" {
		k.Model = b.Task.Model
	}
	if g.ExpiresAt.IsZero() {
		k.Expires = later(en.now, time.Duration(l.WallTimeSeconds)*time.Second+CapabilityMargin)
	}
	if _, priced := c.cfg.Prices[k.Model]; k.MaxMicro > 0 && !priced {
		return contract.Errorf(contract.KindInvalid, "maxCostUsd is set and the price of model %q is not known", k.Model)
	}
	en.h.Metered = true
	if err := en.save(); err != nil {
		return err
	}
	return put(tx, keyCapability, k)
}

// Reserve spends one model request before it is made. A call id that was settled gives the stored
// answer and spends nothing; one that is in flight, or whose answer was not kept, is KindConflict.
// KindInactiveToken means no live capability for this attempt and model; KindBudgetExhausted,
// KindTokensExhausted and KindCostExhausted name what is used up.
func (c *Core) Reserve(tx Tx, env Env, attempt int, call Call) (Reservation, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return Reservation{}, err
	}
	k, err := en.live(attempt, call.Model)
	if err != nil {
		return Reservation{}, err
	}
	if call.ID == "" || len(call.ID) > MaxCallID {
		return Reservation{}, contract.Errorf(contract.KindInvalid, "call id must be 1 to %d bytes", MaxCallID)
	}
	name := callName(call.ID)
	if r, done, err := en.repeatedCall(name, call.ID, k); done || err != nil {
		return r, err
	}
	if k.Used >= k.MaxRequests {
		return Reservation{}, contract.Errorf(contract.KindBudgetExhausted, "all %d model requests of the run are used", k.MaxRequests)
	}
	s, clamp, err := c.price(k, call)
	if err != nil {
		return Reservation{}, err
	}
	k.Used++
	k.Tokens += s.Tokens
	k.Micro += s.Micro
	if err := put(tx, prefixCall+name, s); err != nil {
		return Reservation{}, err
	}
	if err := put(tx, keyCapability, k); err != nil {
		return Reservation{}, err
	}
	en.h.Usage.ModelRequests = count(en.h.Usage.ModelRequests, k.Used)
	return Reservation{CallID: call.ID, MaxTokens: clamp, Remaining: k.MaxRequests - k.Used}, en.save()
}

// live gives the capability when this attempt may use it now.
func (en *entry) live(attempt int, model string) (capability, error) {
	var k capability
	found, err := get(en.tx, keyCapability, &k)
	if err != nil {
		return k, err
	}
	if !found || k.Revoked || k.Attempt != attempt || k.Model != model ||
		en.h.Status != contract.Running || en.h.Cancel || en.h.Stop != "" || !en.env.Now.Before(k.Expires.Time) {
		return k, contract.Errorf(contract.KindInactiveToken, "run token is not active")
	}
	return k, nil
}

// repeatedCall answers a call that was reserved before.
func (en *entry) repeatedCall(name, id string, k capability) (Reservation, bool, error) {
	var s spend
	found, err := get(en.tx, prefixCall+name, &s)
	if err != nil || !found {
		return Reservation{}, false, err
	}
	answer, kept, err := en.tx.Get(prefixAnswer + name)
	switch {
	case err != nil:
		return Reservation{}, true, err
	case !s.Settled:
		return Reservation{}, true, contract.Errorf(contract.KindConflict, "call is in flight or was never answered; it is not made twice")
	case !kept:
		return Reservation{}, true, contract.Errorf(contract.KindConflict, "call was answered before and its answer is not kept")
	}
	return Reservation{CallID: id, Remaining: k.MaxRequests - k.Used, Repeated: true, Answer: answer}, true, nil
}

// price says what a call takes from tokens and money at most, and how much output it may have.
func (c *Core) price(k capability, call Call) (spend, int, error) {
	clamp := int64(max(0, call.MaxTokens))
	if most := int64(c.cfg.Profile.ResponseTokens); most > 0 && (clamp == 0 || clamp > most) {
		clamp = most
	}
	if k.MaxTokens > 0 {
		left := k.MaxTokens - k.Tokens
		if left <= 0 {
			return spend{}, 0, contract.Errorf(contract.KindTokensExhausted, "all %d output tokens of the run are used", k.MaxTokens)
		}
		if clamp == 0 || clamp > left {
			clamp = left
		}
	}
	s := spend{Tokens: clamp}
	if k.MaxMicro == 0 {
		return s, int(clamp), nil
	}
	p := c.cfg.Prices[k.Model]
	// A token is at least about two bytes of a JSON request, so this bounds the input from above.
	left := k.MaxMicro - k.Micro - cost(p, call.PromptBytes/2+1, 0)
	affordable := contract.Unbounded
	if p.Output > 0 {
		affordable = int64(float64(left) / p.Output)
	}
	if left <= 0 || affordable < leastTokens {
		return spend{}, 0, contract.Errorf(contract.KindCostExhausted, "the next call could exceed the money of the run")
	}
	if clamp == 0 || clamp > affordable {
		clamp = min(affordable, math.MaxInt32)
		s.Tokens = clamp
	}
	s.Micro = cost(p, call.PromptBytes/2+1, clamp)
	return s, int(clamp), nil
}

// cost is what tokens cost in millionths of a dollar, rounded up: a price is in dollars for a
// million tokens, which is the same number in millionths for one.
func cost(p Price, input, output int64) int64 {
	return int64(math.Ceil(min(float64(input)*p.Input+float64(output)*p.Output, float64(contract.Unbounded))))
}

// Settle replaces what Reserve took for a call by what it used, and keeps the answer for a repeat
// where it is at most MaxKeptAnswer; nil keeps none. An answer without usage stays charged as
// reserved. Settling twice, or a call that was never reserved, changes nothing. It works after the
// end of the run too, because an answer may come late.
func (c *Core) Settle(tx Tx, env Env, callID string, u contract.ModelUsage, answer []byte) error {
	en, err := c.open(tx, env)
	if err != nil {
		return err
	}
	var k capability
	var s spend
	name := callName(callID)
	if found, err := get(tx, keyCapability, &k); err != nil || !found {
		return err
	}
	if found, err := get(tx, prefixCall+name, &s); err != nil || !found || s.Settled {
		return err
	}
	used := s
	if u.Known {
		used.Tokens = plus(0, u.Output)
		if k.MaxMicro > 0 {
			used.Micro = cost(c.cfg.Prices[k.Model], plus(plus(0, u.Input), u.CacheWrite)+plus(0, u.CacheRead), used.Tokens)
		}
	}
	used.Settled = true
	k.Tokens += used.Tokens - s.Tokens
	k.Micro += used.Micro - s.Micro
	if err := en.keep(&k, name, answer); err != nil {
		return err
	}
	if err := put(tx, prefixCall+name, used); err != nil {
		return err
	}
	return put(tx, keyCapability, k)
}

// keep stores an answer and forgets the oldest one beyond the bound.
func (en *entry) keep(k *capability, name string, answer []byte) error {
	if answer == nil || len(answer) > MaxKeptAnswer || en.h.Status.Terminal() {
		return nil
	}
	k.Answers = append(k.Answers, name)
	if len(k.Answers) > keptAnswers {
		if err := en.tx.Delete(prefixAnswer + k.Answers[0]); err != nil {
			return err
		}
		k.Answers = k.Answers[1:]
	}
	return en.tx.Put(prefixAnswer+name, answer)
}

// Revoke closes the capability for good. It is nil when there is none.
func (c *Core) Revoke(tx Tx, env Env) error {
	en, err := c.open(tx, env)
	if err != nil {
		return err
	}
	return en.revoke()
}

func (en *entry) revoke() error {
	var k capability
	found, err := get(en.tx, keyCapability, &k)
	if err != nil || !found || k.Revoked {
		return err
	}
	k.Revoked, k.Answers = true, nil
	if err := drop(en.tx, prefixAnswer); err != nil {
		return err
	}
	return put(en.tx, keyCapability, k)
}

// callName makes a key of a call id, which comes from outside.
func callName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}
