package control

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// Bounds of approvals.
const (
	MaxPending  = 64     // pending at once
	MaxAsked    = 10_000 // of one run
	MaxNote     = 2000   // bytes of a decision's note
	approvalID  = "apr_"
	askPurpose  = "rivumi/approval/v1\x00"
	approvalLen = len(approvalID) + 16
)

// Ask stores an approval with its event and gives it with its id and times. The id is the same for
// the same question of the same attempt, so a repeated Ask finds the first one and its decision.
// Where the task says that nobody can answer, the decision is made in the same transaction: deny,
// by nobody, and for UnattendedStop the run can end as approval_denied (or cancelled) only.
func (c *Core) Ask(tx Tx, env Env, attempt int, a contract.Approval) (contract.Approval, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return contract.Approval{}, err
	}
	if err := en.fence(attempt); err != nil {
		return contract.Approval{}, err
	}
	b, err := en.base()
	if err != nil {
		return contract.Approval{}, err
	}
	a, err = en.question(a, b.Task.Approval)
	if err != nil {
		return contract.Approval{}, err
	}
	var standing contract.Approval
	if found, err := get(tx, prefixApproval+a.ID, &standing); err != nil || found {
		return standing, err
	}
	if len(en.h.Pending) >= MaxPending || en.h.Asked >= MaxAsked {
		return contract.Approval{}, contract.Errorf(contract.KindTooManyRequests, "too many approvals: %d are pending", len(en.h.Pending))
	}
	if err := en.ask(&a, b.Task.Approval.Unattended); err != nil {
		return contract.Approval{}, err
	}
	return a, en.save()
}

// question checks and cleans an approval and fills in what the control plane decides.
func (en *entry) question(a contract.Approval, p contract.ApprovalPolicy) (contract.Approval, error) {
	switch a.Kind {
	case contract.ApproveCommand, contract.ApproveWrite, contract.ApproveWriteOutside, contract.ApproveNetwork, contract.ApproveCheck:
	default:
		return a, contract.Errorf(contract.KindInvalid, "approval kind %q is unknown", short(string(a.Kind), 64))
	}
	a.Decision, a.Note, a.DecidedBy, a.DecidedAt = "", "", "", nil
	a.RequestedAt, a.ExpiresAt = en.now, later(en.now, time.Duration(p.Timeout())*time.Second)
	a.ID = en.approvalID(a)
	data, err := cleanData(contract.TypeApprovalRequested, contract.MarshalJSON(a))
	if err != nil {
		return a, err
	}
	var clean contract.Approval
	if err := json.Unmarshal(data, &clean); err != nil {
		return a, contract.Errorf(contract.KindInvalid, "approval: %w", err)
	}
	return clean, nil
}

// approvalID derives the id from the question; one without a call id is a new question each time.
func (en *entry) approvalID(a contract.Approval) string {
	m := hmac.New(sha256.New, en.c.cfg.Secret)
	m.Write([]byte(askPurpose + string(en.h.ID)))
	m.Write(contract.MarshalJSON([]any{en.h.Attempt, a.CallID, a.Kind, a.Command}))
	if a.CallID == "" {
		m.Write(en.env.Entropy[:])
	}
	return contract.RandomID(approvalID, m.Sum(nil))
}

func (en *entry) ask(a *contract.Approval, u contract.Unattended) error {
	en.h.Asked++
	if err := en.tell(0, contract.ApprovalRequested{Approval: *a}); err != nil {
		return err
	}
	if u == contract.UnattendedDeny || u == contract.UnattendedStop {
		if u == contract.UnattendedStop {
			en.h.Stop = contract.FailApproval
		}
		return en.decide(a, contract.Decision{
			Verdict: contract.Deny, By: contract.ByNobody, Note: "nobody can answer approvals of this run",
		})
	}
	en.h.Pending = append(en.h.Pending, waiting{ID: a.ID, At: a.ExpiresAt})
	return put(en.tx, prefixApproval+a.ID, a)
}

// decide stores a decision on an approval nobody has decided, with its event.
func (en *entry) decide(a *contract.Approval, d contract.Decision) error {
	d.At = en.now
	a.Decision, a.Note, a.DecidedBy, a.DecidedAt = d.Verdict, d.Note, d.By, &d.At
	en.h.unwait(a.ID)
	if err := put(en.tx, prefixApproval+a.ID, a); err != nil {
		return err
	}
	return en.tell(0, contract.ApprovalDecided{ID: a.ID, Decision: d})
}

// Decide answers an approval. The first decision stored wins: the same verdict again gives the
// approval as it stands, another one KindApprovalDecided together with the standing approval, and
// so does any after the time-out. After the end of the run every decision is KindRunFinished. The
// verdict CancelRun denies the call and asks for the end of the run; AllowSession also answers the
// pending approvals of exactly the same scope.
func (c *Core) Decide(tx Tx, env Env, id string, d contract.Decision) (contract.Approval, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return contract.Approval{}, err
	}
	if err := checkDecision(d); err != nil {
		return contract.Approval{}, err
	}
	a, err := c.ApprovalOf(tx, id)
	if err != nil {
		return contract.Approval{}, err
	}
	d.By, d.Note = short(d.By, maxOwner), short(d.Note, MaxNote)
	switch {
	case en.h.Status.Terminal():
		return a, finished()
	case a.Decision == d.Verdict:
		return a, nil
	case a.Decision != "":
		return a, decided(a)
	case !env.Now.Before(a.ExpiresAt.Time):
		a.Decision, a.DecidedBy, a.DecidedAt = contract.Deny, contract.ByTimeout, &a.ExpiresAt
		return a, decided(a)
	case d.Verdict == contract.AllowSession && a.SessionScope.Pattern == "":
		return a, contract.Errorf(contract.KindInvalid, "this approval offers no allow_session")
	}
	if err := en.decide(&a, d); err != nil {
		return contract.Approval{}, err
	}
	switch d.Verdict {
	case contract.CancelRun:
		err = en.requestCancel(d.By, d.Note)
	case contract.AllowSession:
		err = en.decideTwins(a, d)
	case contract.AllowOnce, contract.Deny:
	}
	if err != nil {
		return contract.Approval{}, err
	}
	return a, en.save()
}

// decideTwins answers the pending approvals that offer exactly the scope that was just granted for
// the session. Another kind, or another pattern, waits for its own decision.
func (en *entry) decideTwins(a contract.Approval, d contract.Decision) error {
	for _, w := range slices.Clone(en.h.Pending) {
		twin, err := en.c.ApprovalOf(en.tx, w.ID)
		if err != nil {
			return err
		}
		if twin.Kind != a.Kind || twin.SessionScope.Pattern != a.SessionScope.Pattern || !en.env.Now.Before(twin.ExpiresAt.Time) {
			continue
		}
		granted := contract.Decision{Verdict: contract.AllowSession, By: d.By, Note: "covered by the decision on " + a.ID}
		if err := en.decide(&twin, granted); err != nil {
			return err
		}
	}
	return nil
}

func checkDecision(d contract.Decision) error {
	if !d.Verdict.Valid() {
		return contract.Errorf(contract.KindInvalid, "decision must be allow_once, allow_session, deny or cancel")
	}
	if d.By == "" {
		return contract.Errorf(contract.KindInvalid, "decision names nobody")
	}
	return nil
}

func decided(a contract.Approval) error {
	return contract.Errorf(contract.KindApprovalDecided, "approval was decided before: %s, by %s", a.Decision, a.DecidedBy)
}

// Due says when a run needs another look.
type Due struct {
	At      time.Time // zero: never
	Expired int       // approvals denied by this call
}

// Expire denies the approvals whose time is over, by timeout, and says when the next one is due.
func (c *Core) Expire(tx Tx, env Env) (Due, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return Due{}, err
	}
	n, err := en.expire()
	if err != nil {
		return Due{}, err
	}
	due := Due{Expired: n}
	for _, w := range en.h.Pending {
		if due.At.IsZero() || w.At.Before(due.At) {
			due.At = w.At.Time
		}
	}
	if n == 0 {
		return due, nil
	}
	return due, en.save()
}

func (en *entry) expire() (int, error) {
	n := 0
	for _, w := range slices.Clone(en.h.Pending) {
		if en.env.Now.Before(w.At.Time) {
			continue
		}
		a, err := en.c.ApprovalOf(en.tx, w.ID)
		if err != nil {
			return n, err
		}
		if err := en.decide(&a, contract.Decision{Verdict: contract.Deny, By: contract.ByTimeout}); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// closeApprovals tells that the run ends before the pending approvals were answered. They stay
// without a decision; Decide refuses them from here on.
func (en *entry) closeApprovals(reason string) error {
	for _, w := range en.h.Pending {
		if err := en.tell(0, contract.ApprovalClosed{ID: w.ID, Reason: reason}); err != nil {
			return err
		}
	}
	en.h.Pending = nil
	return nil
}

// Withdraw closes a pending approval whose answer its runner does not need any more, with its event.
// Nobody can answer it from then on: it is KindNotFound. One that is decided, or none, stays as it is.
func (c *Core) Withdraw(tx Tx, env Env, attempt int, id string) error {
	en, err := c.open(tx, env)
	if err != nil {
		return err
	}
	if err := en.fence(attempt); err != nil {
		return err
	}
	if !slices.ContainsFunc(en.h.Pending, func(w waiting) bool { return w.ID == id }) {
		return nil
	}
	en.h.unwait(id)
	if err := tx.Delete(prefixApproval + id); err != nil {
		return err
	}
	if err := en.tell(0, contract.ApprovalClosed{ID: id, Reason: "not needed any more"}); err != nil {
		return err
	}
	return en.save()
}

// ApprovalOf gives one approval; an id that is none is KindNotFound.
func (c *Core) ApprovalOf(tx Tx, id string) (contract.Approval, error) {
	var a contract.Approval
	missing := contract.Errorf(contract.KindNotFound, "no approval of that id")
	if len(id) != approvalLen || id[:len(approvalID)] != approvalID {
		return a, missing
	}
	found, err := get(tx, prefixApproval+id, &a)
	if err == nil && !found {
		err = missing
	}
	return a, err
}

// Approvals gives the approvals of the run, oldest first. Those that the end of the run closed are
// neither pending nor decided and left out.
func (c *Core) Approvals(tx Tx) (ApprovalList, error) {
	en, err := c.open(tx, Env{})
	if err != nil {
		return ApprovalList{}, err
	}
	out := ApprovalList{Pending: []contract.Approval{}, Decided: []contract.Approval{}}
	err = each(tx, prefixApproval, func(r Record) error {
		var a contract.Approval
		if err := json.Unmarshal(r.Value, &a); err != nil {
			return contract.Errorf(contract.KindInternal, "read approval: %w", err)
		}
		switch {
		case a.Decision != "":
			out.Decided = append(out.Decided, a)
		case !en.h.Status.Terminal():
			out.Pending = append(out.Pending, a)
		}
		return nil
	})
	oldest := func(a, b contract.Approval) int {
		return cmp.Or(a.RequestedAt.Compare(b.RequestedAt.Time), cmp.Compare(a.ID, b.ID))
	}
	slices.SortFunc(out.Pending, oldest)
	slices.SortFunc(out.Decided, oldest)
	return out, err
}
