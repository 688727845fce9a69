package control

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

func (v *visit) create() (Response, []Effect, error) {
	task, err := contract.DecodeTask(v.r.Body)
	if err != nil {
		return Response{}, nil, err
	}
	task.IdempotencyKey = v.r.Header["idempotency-key"]
	run, fresh, err := v.c.create(v.tx, v.env, v.r.Principal, task)
	if err != nil {
		return Response{}, nil, err
	}
	resp := answer(202, linked(run))
	resp.set("Location", "/v1/runs/"+string(run.ID))
	var effects []Effect
	if fresh {
		effects = append(effects, v.notify(run))
	}
	if run.Status == contract.Queued { // a repeat mends a crash between commit and queue
		effects = append(effects, StartRun{Run: run.ID})
	}
	return resp, effects, nil
}

// linked gives the run with the addresses of its resources.
func linked(r contract.Run) contract.Run {
	self := "/v1/runs/" + string(r.ID)
	r.URLs = &contract.URLs{
		Self: self, Events: self + "/events", Approvals: self + "/approvals",
		Cancel: self + "/cancel", Messages: self + "/messages", Artifacts: self + "/artifacts",
	}
	return r
}

// Bounds of a listing.
const (
	DefaultPage = 50
	MaxPage     = 200
)

func (v *visit) list() (Response, []Effect, error) {
	q, err := query(v.r.Query, "status", "label", "limit", "cursor", "search")
	if err != nil {
		return Response{}, nil, err
	}
	out := ListRuns{Principal: v.r.Principal, Filter: contract.Filter{Limit: DefaultPage}}
	for _, s := range q["status"] {
		for word := range strings.SplitSeq(s, ",") {
			if !contract.State(word).Valid() {
				return Response{}, nil, badQuery("status", "must be queued, running, completed, failed or cancelled")
			}
			out.Filter.States = append(out.Filter.States, contract.State(word))
		}
	}
	if l := q.Get("label"); l != "" {
		if !strings.Contains(l, ":") {
			return Response{}, nil, badQuery("label", "must be key:value")
		}
		out.Filter.Label = l
	}
	if l := q.Get("limit"); l != "" {
		n, err := strconv.Atoi(l)
		if err != nil || n < 1 || n > MaxPage {
			return Response{}, nil, badQuery("limit", "must be 1 to 200")
		}
		out.Filter.Limit = n
	}
	out.Filter.Search = q.Get("search")
	if cur := q.Get("cursor"); cur != "" {
		if out.Before, out.BeforeTime, err = v.c.readCursor(cur); err != nil {
			return Response{}, nil, err
		}
	}
	return Response{}, []Effect{out}, nil
}

// cursorOf names the place behind a run in a listing, which stays when the run is removed.
func cursorOf(r contract.Run) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(r.CreatedAt.UnixMilli(), 10) + "." + string(r.ID)))
}

func (c *Core) readCursor(s string) (contract.RunID, contract.Time, error) {
	bad := contract.Errorf(contract.KindBadCursor, "cursor is not one of a listing")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return "", contract.Time{}, bad
	}
	ms, id, ok := strings.Cut(string(raw), ".")
	n, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil || n < 0 || n > contract.Unbounded || !c.Genuine(contract.RunID(id)) {
		return "", contract.Time{}, bad
	}
	return contract.RunID(id), contract.At(time.UnixMilli(n)), nil
}

// runPage is the body of GET /v1/runs.
type runPage struct {
	Runs       []contract.Run `json:"runs"`
	NextCursor *string        `json:"nextCursor"`
}

// Listing renders a page of runs, newest first; more says that older ones follow.
func (c *Core) Listing(runs []contract.Run, more bool) Response {
	out := runPage{Runs: make([]contract.Run, 0, len(runs))}
	for _, r := range runs {
		out.Runs = append(out.Runs, linked(r))
	}
	if more && len(runs) > 0 {
		next := cursorOf(runs[len(runs)-1])
		out.NextCursor = &next
	}
	return answer(200, out)
}

func (v *visit) get() (Response, []Effect, error) {
	run, err := v.c.Read(v.tx)
	if err != nil {
		return Response{}, nil, err
	}
	return answer(200, linked(run)), nil, nil
}

func (v *visit) remove() (Response, []Effect, error) {
	if err := v.c.Delete(v.tx); err != nil {
		return Response{}, nil, err
	}
	return Response{Status: 204}, []Effect{Forget{Run: v.m.Run}}, nil
}

func (v *visit) approvals() (Response, []Effect, error) {
	list, err := v.c.Approvals(v.tx)
	if err != nil {
		return Response{}, nil, err
	}
	return answer(200, list), nil, nil
}

// verdict is the body of POST /v1/runs/{id}/approvals/{approval}.
type verdict struct {
	Decision contract.Verdict `json:"decision"`
	Note     string           `json:"note"`
}

// standing is the problem document of a decision that came second.
type standing struct {
	contract.Problem
	Approval contract.Approval `json:"approval"`
}

func (v *visit) decide() (Response, []Effect, error) {
	in, err := body[verdict](v)
	if err != nil {
		return Response{}, nil, err
	}
	d := contract.Decision{Verdict: in.Decision, Note: in.Note, By: v.r.Principal}
	a, err := v.c.Decide(v.tx, v.env, v.m.Param, d)
	if contract.KindOf(err) == contract.KindApprovalDecided {
		p := standing{Problem: contract.ProblemOf(err, instance(v.r.ID)), Approval: a}
		return problem(err, p, v.r.ID), nil, nil
	}
	if err != nil {
		return Response{}, nil, err
	}
	effects := []Effect{Notify{Run: v.m.Run}}
	if a.Decision == contract.CancelRun {
		effects = append(effects, StopRun{Run: v.m.Run, Reason: "cancelled"})
	}
	return answer(200, a), effects, nil
}

func (v *visit) cancel() (Response, []Effect, error) {
	in, err := optional[struct {
		Reason string `json:"reason"`
	}](v)
	if err != nil {
		return Response{}, nil, err
	}
	before, err := v.c.Read(v.tx)
	if err != nil {
		return Response{}, nil, err
	}
	run, err := v.c.Cancel(v.tx, v.env, v.r.Principal, in.Reason)
	switch {
	case err != nil:
		return Response{}, nil, err
	case before.Status.Terminal():
		return answer(200, linked(run)), nil, nil
	}
	effects := []Effect{v.notify(run)}
	if run.Status == contract.Running {
		effects = append(effects, StopRun{Run: run.ID, Reason: "cancelled"})
	}
	return answer(202, linked(run)), effects, nil
}

func (v *visit) send() (Response, []Effect, error) {
	in, err := body[struct {
		Text string `json:"text"`
	}](v)
	if err != nil {
		return Response{}, nil, err
	}
	m, err := v.c.Send(v.tx, v.env, in.Text)
	if err != nil {
		return Response{}, nil, err
	}
	return answer(202, m), []Effect{Notify{Run: v.m.Run}}, nil
}
