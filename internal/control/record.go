package control

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// The records of a run. Numbers in keys have a fixed width, so that byte order is their order. Keys
// that begin with host/ are the host's own; the core removes them with the run.
const (
	keyBase        = "base" // what never changes: identity, principal, the task without its files
	keyTask        = "task" // the whole task as it was asked
	keyHead        = "head" // what changes with every decision; small
	keyEnd         = "end"  // result and failure, once the run has ended
	keyCapability  = "cap"
	prefixEvent    = "e/" // one stored line each
	prefixApproval = "a/"
	prefixMessage  = "m/" // messages nobody has taken yet
	prefixArtifact = "f/"
	prefixCall     = "c/"
	prefixAnswer   = "r/"
)

// base is written once, by Create.
type base struct {
	Run       contract.Run   `json:"run"`
	Principal string         `json:"principal"`
	Digest    string         `json:"digest"` // of the task, for idempotency
	From      contract.RunID `json:"from,omitempty"`
	Task      contract.Task  `json:"task"` // without instruction and files
}

// end is written once, with the terminal event.
type end struct {
	Result *contract.Result  `json:"result"`
	Error  *contract.Failure `json:"error"`
}

// waiting is a pending approval as the head knows it.
type waiting struct {
	ID string        `json:"id"`
	At contract.Time `json:"at"` // when it expires
}

// head is the changing part of a run. It carries number and hash of the last line, so that an
// append reads no event.
type head struct {
	ID            contract.RunID       `json:"id"`
	Status        contract.State       `json:"status"`
	Attempt       int                  `json:"attempt"`
	Owner         string               `json:"owner,omitempty"`
	Lease         *contract.Time       `json:"lease,omitempty"`
	StartedAt     *contract.Time       `json:"startedAt,omitempty"`
	EndedAt       *contract.Time       `json:"endedAt,omitempty"`
	Cancel        bool                 `json:"cancel,omitempty"`
	CancelBy      string               `json:"cancelBy,omitempty"`
	CancelReason  string               `json:"cancelReason,omitempty"`
	Stop          contract.FailureCode `json:"stop,omitempty"` // the run must end with this
	FirstSeq      int64                `json:"first"`          // oldest kept event
	LastSeq       int64                `json:"last"`
	Prev          string               `json:"prev"` // chain hash of the last line
	Bytes         int64                `json:"bytes"`
	Thinned       bool                 `json:"thinned,omitempty"` // deltas are no longer kept
	ClientSeq     int64                `json:"clientSeq,omitempty"`
	Metered       bool                 `json:"metered,omitempty"` // model calls are counted as they are reserved, not as they are told
	Usage         contract.Usage       `json:"usage"`
	BaseSHA       string               `json:"baseSha,omitempty"`
	Sandbox       string               `json:"sandbox,omitempty"`
	Pending       []waiting            `json:"pending,omitempty"`
	Asked         int                  `json:"asked,omitempty"` // approvals in all
	Mail          int                  `json:"mail,omitempty"`  // messages nobody has taken
	ArtifactBytes int64                `json:"artifactBytes,omitempty"`
}

// entry is one run's records open for one decision.
type entry struct {
	c     *Core
	tx    Tx
	env   Env
	now   contract.Time
	h     head
	lines [][]byte // stored by this decision
}

// open loads the head; a run that is not there is KindRunNotFound.
func (c *Core) open(tx Tx, env Env) (*entry, error) {
	en := &entry{c: c, tx: tx, env: env, now: contract.At(env.Now)}
	found, err := get(tx, keyHead, &en.h)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, notFound()
	}
	return en, nil
}

// save writes the head. It is the last step of every decision that changed something.
func (en *entry) save() error { return put(en.tx, keyHead, en.h) }

// base loads the part that never changes.
func (en *entry) base() (base, error) {
	var b base
	found, err := get(en.tx, keyBase, &b)
	if err == nil && !found {
		err = contract.Errorf(contract.KindInternal, "run has a head and no base")
	}
	return b, err
}

// run composes the run as front ends see it.
func (en *entry) run() (contract.Run, error) {
	b, err := en.base()
	if err != nil {
		return contract.Run{}, err
	}
	return en.compose(b)
}

func (en *entry) compose(b base) (contract.Run, error) {
	r, h := b.Run, en.h
	r.Status, r.Attempt, r.CancelRequested = h.Status, h.Attempt, h.Cancel
	r.BaseSHA, r.Sandbox = h.BaseSHA, h.Sandbox
	r.StartedAt, r.EndedAt = h.StartedAt, h.EndedAt
	r.Usage, r.PendingApprovals, r.LastSeq = h.Usage, len(h.Pending), h.LastSeq
	if h.Status.Terminal() {
		var e end
		if _, err := get(en.tx, keyEnd, &e); err != nil {
			return contract.Run{}, err
		}
		r.Result, r.Error = e.Result, e.Error
	}
	return r, nil
}

// fence lets only the attempt that holds the run write.
func (en *entry) fence(attempt int) error {
	switch {
	case en.h.Status.Terminal():
		return finished()
	case en.h.Status != contract.Running:
		return contract.Errorf(contract.KindConflict, "run is %s, no attempt holds it", en.h.Status)
	case attempt != en.h.Attempt:
		return contract.Errorf(contract.KindFenced, "attempt %d does not hold the run, attempt %d does", attempt, en.h.Attempt)
	}
	return nil
}

func notFound() error {
	return contract.Errorf(contract.KindRunNotFound, "no run of that id")
}

func finished() error {
	return contract.Errorf(contract.KindRunFinished, "run has ended")
}

func get(tx Tx, key string, v any) (bool, error) {
	raw, found, err := tx.Get(key)
	if err != nil || !found {
		return false, err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return false, contract.Errorf(contract.KindInternal, "read record %s: %w", key, err)
	}
	return true, nil
}

func put(tx Tx, key string, v any) error { return tx.Put(key, contract.MarshalJSON(v)) }

func numbered(prefix string, n int64) string { return fmt.Sprintf("%s%016d", prefix, n) }

// page is how many records one List of the core asks for.
const page = 256

// each calls f for every record under prefix that sorts after a key, in order. Records may be
// changed by f only through the keys it was given, after the page they came in.
func each(tx Tx, prefix string, f func(Record) error) error {
	after := ""
	for {
		batch, err := listed(tx, prefix, after, page)
		if err != nil {
			return err
		}
		for _, r := range batch {
			if err := f(r); err != nil {
				return err
			}
		}
		if len(batch) < page {
			return nil
		}
		after = batch[len(batch)-1].Key
	}
}

// listed reads one page to its end, so that nothing is written while a host's cursor is open.
func listed(tx Tx, prefix, after string, limit int) ([]Record, error) {
	var out []Record
	for r, err := range tx.List(prefix, after, limit) {
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// drop removes every record under a prefix.
func drop(tx Tx, prefix string) error {
	return each(tx, prefix, func(r Record) error { return tx.Delete(r.Key) })
}

func (h *head) unwait(id string) {
	h.Pending = slices.DeleteFunc(h.Pending, func(w waiting) bool { return w.ID == id })
}

func later(t contract.Time, d time.Duration) contract.Time { return contract.At(t.Add(d)) }
