package control

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/token"
)

// desk is a site with one claimed run and its tokens.
type desk struct {
	*site
	run    contract.Run
	tokens map[token.Audience]string
}

func newDesk(t failer, p contract.Profile) *desk {
	s := newSite(t, p)
	run := s.start()
	return &desk{site: s, run: run, tokens: s.work(run)}
}

// internal asks an internal route of the run.
func (d *desk) internal(a token.Audience, method, path string, body any) (Response, []Effect) {
	if !strings.HasPrefix(path, "/internal") {
		path = "/internal/v1/runs/" + string(d.run.ID) + path
	}
	return d.ask(withToken(jsonRequest(method, path, body), d.tokens[a]))
}

func (d *desk) public(method, path string, body any) (Response, []Effect) {
	return d.ask(jsonRequest(method, "/v1/runs/"+string(d.run.ID)+path, body))
}

func TestARemoteRunFromClaimToResult(t *testing.T) {
	d := newDesk(t, contract.Edge())
	batch := Batch{FirstClientSeq: 1, Events: []contract.Event{contract.NewEvent(1, contract.StepStarted{Step: 1}), contract.NewEvent(1, contract.ModelMessage{Text: "x"})}}
	for range 2 { // the second is a repeat after a lost answer
		resp, _ := d.internal(token.Events, "POST", "/events", batch)
		if got := decoded[Appended](t, resp); resp.Status != 200 || got.NextClientSeq != 3 || got.LastSeq != 4 {
			t.Errorf("%d %s", resp.Status, resp.Body)
		}
	}
	batch.FirstClientSeq = 5
	resp, _ := d.internal(token.Events, "POST", "/events", batch)
	if p := decoded[contract.Problem](t, resp); p.Code != contract.KindClientSeqGap || p.Next != 3 {
		t.Errorf("%s", resp.Body)
	}
	resp, effects := d.internal(token.Approvals, "POST", "/approvals", question("c1"))
	a := decoded[contract.Approval](t, resp)
	if resp.Status != 201 || !effectOf[SetAlarm](t, effects).At.Equal(a.ExpiresAt.Time) {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	_, effects = d.ask(withToken(Request{Method: "GET", Path: "/internal/v1/runs/" + string(d.run.ID) + "/approvals/" + a.ID, Query: "wait=25", Header: map[string]string{}}, d.tokens[token.Approvals]))
	wait := effectOf[AwaitApproval](t, effects)
	if _, done := d.core.Awaited(d.m, wait, ""); done || wait.Wait != 25*time.Second {
		t.Errorf("%+v is over", wait)
	}
	resp, _ = d.public("POST", "/approvals/"+a.ID, `{"decision":"allow_once"}`)
	if got := decoded[contract.Approval](t, resp); resp.Status != 200 || got.DecidedBy != "alice" {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
	if resp, done := d.core.Awaited(d.m, wait, ""); !done || decoded[contract.Approval](t, resp).Decision != contract.AllowOnce {
		t.Errorf("%s", resp.Body)
	}
	resp, _ = d.public("POST", "/approvals/"+a.ID, `{"decision":"deny"}`)
	var second struct {
		Code     contract.Kind
		Approval contract.Approval
	}
	if err := json.Unmarshal(resp.Body, &second); err != nil || resp.Status != 409 || second.Code != contract.KindApprovalDecided || second.Approval.Decision != contract.AllowOnce {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
	d.public("POST", "/messages", `{"text":"look at b.py too"}`)
	for _, want := range []int{1, 0} {
		resp, effects = d.internal(token.Events, "POST", "/heartbeat", nil)
		if p := decoded[Pulse](t, resp); len(p.Messages) != want || p.CancelRequested || !effectOf[SetAlarm](t, effects).At.Equal(epoch.Add(Lease)) {
			t.Errorf("%s", resp.Body)
		}
	}
	e := provenEnding()
	e.Result.ChangedFiles, e.Result.Patch, e.Result.Outcome = nil, nil, contract.OutcomeNoChanges // nil goes as null
	resp, effects = d.internal(token.Events, "POST", "/result", Report{RunID: d.run.ID, State: e.State, Result: e.Result})
	if run := decoded[contract.Run](t, resp); resp.Status != 200 || run.Status != contract.Completed {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
	effectOf[StopRun](t, effects)
	if resp, _ = d.internal(token.Events, "POST", "/result", Report{RunID: d.run.ID, State: e.State, Result: e.Result}); code(t, resp) != contract.KindRunFinished {
		t.Errorf("a second result: %d %s", resp.Status, resp.Body)
	}
}

func TestAResultThatContradictsItselfFails(t *testing.T) {
	e := provenEnding()
	for name, r := range map[string]Report{
		"other run": {RunID: contract.NewRunID(secret, []byte(strings.Repeat("z", 20))), State: e.State, Result: e.Result},
		"exit code": {State: e.State, Result: e.Result, ExitCode: 1},
		"failed, 0": {State: contract.Failed, Error: &contract.Failure{Code: contract.FailSteps}},
	} {
		d := newDesk(t, contract.Edge())
		if r.RunID == "" {
			r.RunID = d.run.ID
		}
		resp, _ := d.internal(token.Events, "POST", "/result", r)
		if run := decoded[contract.Run](t, resp); run.Status != contract.Failed || run.Error.Code != contract.FailResult {
			t.Errorf("%s: %s", name, resp.Body)
		}
	}
}

func TestModelCallsGoThroughTheBudget(t *testing.T) {
	d := newDesk(t, contract.Edge())
	body := `{"messages":[{"role":"user","content":"\u00e9 <b>"}],"model":"good","max_tokens":9999,"stream":true,"stream_options":{"include_usage":true}}`
	ok, exhausted := 0, 0
	for range 40 {
		resp, effects := d.internal(token.Model, "POST", "/internal/v1/chat/completions", body)
		if resp.Status == 0 {
			f := effectOf[ForwardModel](t, effects)
			if string(f.Body) != `{"messages":[{"role":"user","content":"\u00e9 <b>"}],"model":"good","max_tokens":4096,"stream":false}` || f.Streaming || f.MaxBytes != 1<<20 {
				t.Fatalf("forwarded %s %+v", f.Body, f)
			}
			ok++
		} else if code(t, resp) == contract.KindBudgetExhausted {
			exhausted++
		}
	}
	if ok != 6 || exhausted != 34 {
		t.Errorf("%d forwarded, %d refused", ok, exhausted)
	}
}

func TestARepeatedModelCallGetsItsAnswerAgain(t *testing.T) {
	d := newDesk(t, contract.Server())
	r := withToken(jsonRequest("POST", "/internal/v1/messages", `{"model":"good","max_tokens":10,"messages":[{"role":"user","content":"x"}]}`), "")
	delete(r.Header, "authorization")
	r.Header["x-api-key"], r.Header["idempotency-key"] = d.tokens[token.Model], "call-1"
	_, effects := d.ask(r)
	f := effectOf[ForwardModel](t, effects)
	d.must(d.core.ModelReply(d.m, d.env(), Outcome{CallID: f.CallID, Usage: contract.ModelUsage{Output: 3, Known: true}, Answer: []byte("event: x\ndata: {}\n\n")}))
	resp, effects := d.ask(r)
	if resp.Status != 200 || len(effects) > 0 || resp.Header["Content-Type"] != "text/event-stream" || string(resp.Body) != "event: x\ndata: {}\n\n" {
		t.Errorf("%d %v %s", resp.Status, effects, resp.Body)
	}
}

func TestModelBodies(t *testing.T) {
	msg := `"messages":[{"role":"user","content":"x"}]`
	chat := map[string]int{
		`{"model":"good",` + msg + `}`:                                             0,
		`{"model":"good",` + msg + `,"tools":[{"type":"function","function":{}}]}`: 0,
		`{"model":"good","messages":[{"role":"assistant","content":null}]}`:        0,
		`{"model":"good","messages":[{"role":"user","role":"user"}]}`:              400,
		`{"model":"good",` + msg + `,"store":true}`:                                400,
		`{"model":"good",` + msg + `,"n":8}`:                                       400,
		`{"model":"good",` + msg + `,"tools":[{"type":"web_search"}]}`:             400,
		`{"model":"good",` + msg + `,"tools":[{}]}`:                                400,
		`{"model":"good",` + msg + `,"tools":{}}`:                                  400,
		`{"model":"good",` + msg + `,"max_tokens":0}`:                              400,
		`{"model":"good",` + msg + `,"max_tokens":1e3}`:                            400,
		`{"model":"good",` + msg + `,"max_tokens":"9"}`:                            400,
		`{"model":"good",` + msg + `,"stream":null}`:                               400,
		`{"model":"good",` + msg + `,"stream":1}`:                                  400,
		`{"model":"better",` + msg + `}`:                                           400,
		`{"model":"good","model":"better",` + msg + `}`:                            400,
		`{"Model":"good",` + msg + `}`:                                             400,
		`{"model":"good"}`:                                                         400,
		`{` + msg + `}`:                                                            400,
		`{"model":"good","messages":[]}`:                                           400,
		`{"model":"good","messages":[{"role":"root"}]}`:                            400,
		`{"model":"good","messages":["x"]}`:                                        400,
		`{"model":"good","messages":null}`:                                         400,
		`[]`:                                                                       400,
		`null`:                                                                     400,
		``:                                                                         400,
		`{"model":"good",` + msg + `} {}`:                                          400,
	}
	d := newDesk(t, contract.Server())
	for body, want := range chat {
		resp, effects := d.internal(token.Model, "POST", "/internal/v1/chat/completions", body)
		if resp.Status != want {
			t.Errorf("%s: %d %s", body, resp.Status, resp.Body)
		}
		if want == 0 && !json.Valid(effectOf[ForwardModel](t, effects).Body) {
			t.Errorf("%s is forwarded broken", body)
		}
	}
	for body, want := range map[string]int{
		`{"model":"good",` + msg + `,"max_tokens":5,"system":"s","thinking":{"type":"enabled"}}`: 0,
		`{"model":"good",` + msg + `,"tools":[{"name":"bash","input_schema":{}}]}`:               0,
		`{"model":"good",` + msg + `,"tools":[{"type":"web_search_20250305","name":"w"}]}`:       400,
		`{"model":"good",` + msg + `,"mcp_servers":[]}`:                                          400,
	} {
		if resp, _ := d.internal(token.Model, "POST", "/internal/v1/messages", body); resp.Status != want {
			t.Errorf("%s: %d %s", body, resp.Status, resp.Body)
		}
	}
	if used := d.read().Usage.ModelRequests; used != 5 {
		t.Errorf("%d requests spent: a refused body costs nothing", used)
	}
}

func TestEventStreamsStartWhereTheReaderIs(t *testing.T) {
	d := newDesk(t, contract.Edge())
	cases := []struct {
		query, last, accept string
		status              int
		after               int64
		sse                 bool
	}{
		{"", "", "", 200, 0, false},
		{"after=1", "", "", 200, 1, false},
		{"after=1&stream=1", "", "", 200, 1, true},
		{"after=0", "2", "text/event-stream", 200, 2, true},
		{"after=9", "", "", 400, 0, false},
		{"after=-1", "", "", 400, 0, false},
		{"after=1.5", "", "", 400, 0, false},
		{"after=9007199254740993", "", "", 400, 0, false},
		{"", "x", "", 400, 0, false},
		{"stream=yes", "", "", 400, 0, false},
		{"since=1", "", "", 400, 0, false},
	}
	for _, c := range cases {
		r := jsonRequest("GET", "/v1/runs/"+string(d.run.ID)+"/events", nil)
		r.Query, r.Header["last-event-id"], r.Header["accept"] = c.query, c.last, c.accept
		resp, effects := d.ask(r)
		if resp.Status != c.status {
			t.Errorf("%+v: %d %s", c, resp.Status, resp.Body)
			continue
		}
		if c.status == 200 {
			if s := effectOf[Stream](t, effects); s.After != c.after || s.SSE != c.sse {
				t.Errorf("%+v: %+v", c, s)
			}
		}
	}
	_, err := d.finish(1, provenEnding())
	d.must(err)
	r := jsonRequest("GET", "/v1/runs/"+string(d.run.ID)+"/events", nil)
	r.Query, r.Header["last-event-id"] = "stream=1", "3"
	if resp, effects := d.ask(r); resp.Status != 204 || len(effects) > 0 {
		t.Errorf("after the end: %d %v", resp.Status, effects)
	}
}

func TestArtifactsOverTheWire(t *testing.T) {
	d := newDesk(t, contract.Edge())
	for name, want := range map[string]int{"a.txt": 0, "..": 400, ".x": 400, "A": 400, "events.ndjson": 403, strings.Repeat("a", 129): 400} {
		if resp, _ := d.internal(token.Events, "PUT", "/artifacts/"+name, nil); resp.Status != want {
			t.Errorf("%s: %d %s", name, resp.Status, resp.Body)
		}
	}
	r := withToken(jsonRequest("PUT", "/internal/v1/runs/"+string(d.run.ID)+"/artifacts/a.txt", nil), d.tokens[token.Events])
	r.Header["content-type"], r.Header["content-digest"] = "text/html; charset=x", "sha-256=:"+strings.Repeat("A", 43)+"=:"
	_, effects := d.ask(r)
	store := effectOf[StoreArtifact](t, effects)
	if store.SHA256 != strings.Repeat("0", 64) || store.MaxBytes != 16<<20 || store.MediaType != "text/html" {
		t.Errorf("%+v", store)
	}
	stored := func(sha string, size int64) Response {
		var resp Response
		d.must(d.m.do(func(tx Tx) error {
			resp, _ = d.core.ArtifactStored(tx, d.env(), store, contract.Artifact{SHA256: sha, Bytes: size}, "")
			return nil
		}))
		return resp
	}
	if resp := stored(strings.Repeat("1", 64), 5); resp.Status != 400 {
		t.Errorf("another digest: %d", resp.Status)
	}
	if resp := stored(strings.Repeat("0", 64), 17<<20); resp.Status != 413 {
		t.Errorf("too big: %d", resp.Status)
	}
	if resp := stored(strings.Repeat("0", 64), 5); resp.Status != 201 {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
	resp, effects := d.public("GET", "/artifacts/a.txt", nil)
	if resp.Status != 200 || resp.Header["X-Content-Type-Options"] != "nosniff" || effectOf[ServeArtifact](t, effects).Artifact.Bytes != 5 {
		t.Errorf("%d %v", resp.Status, resp.Header)
	}
	again := jsonRequest("GET", "/v1/runs/"+string(d.run.ID)+"/artifacts/a.txt", nil)
	again.Header["if-none-match"] = resp.Header["ETag"]
	if resp, _ := d.ask(again); resp.Status != 304 {
		t.Errorf("known already: %d", resp.Status)
	}
	_, err := d.finish(1, provenEnding())
	d.must(err)
	if resp := stored(strings.Repeat("0", 64), 5); resp.Status != 409 {
		t.Errorf("after the end: %d", resp.Status)
	}
}

func TestListingsUploadsAndRemoval(t *testing.T) {
	d := newDesk(t, contract.Server())
	page := d.core.Listing([]contract.Run{d.run}, true)
	next := decoded[runPage](t, page).NextCursor
	r := jsonRequest("GET", "/v1/runs", nil)
	r.Query = "status=running,failed&label=a:b&limit=7&cursor=" + *next
	_, effects := d.ask(r)
	l := effectOf[ListRuns](t, effects)
	if l.Before != d.run.ID || !l.BeforeTime.Equal(epoch) || l.Principal != "alice" || l.Filter.Limit != 7 || len(l.Filter.States) != 2 {
		t.Errorf("%+v", l)
	}
	for _, bad := range []string{"status=x", "limit=0", "limit=201", "cursor=zz", "label=x", "page=2", "%zz"} {
		r.Query = bad
		if resp, _ := d.ask(r); resp.Status != 400 {
			t.Errorf("%s: %d", bad, resp.Status)
		}
	}
	if resp, _ := d.public("DELETE", "", nil); code(t, resp) != contract.KindRunNotFinished {
		t.Errorf("%d", resp.Status)
	}
	_, err := d.finish(1, provenEnding())
	d.must(err)
	resp, effects := d.public("DELETE", "", nil)
	if resp.Status != 204 || effectOf[Forget](t, effects).Run != d.run.ID || len(d.m.records) > 0 {
		t.Errorf("%d, %d records", resp.Status, len(d.m.records))
	}
	up := jsonRequest("POST", "/v1/uploads", nil)
	if resp, _ := d.ask(up); resp.Status != 415 {
		t.Errorf("JSON as an upload: %d", resp.Status)
	}
	up.Header["content-type"] = "application/zstd"
	_, effects = d.ask(up)
	store := effectOf[StoreUpload](t, effects)
	if store.MaxBytes != 512<<20 || !strings.HasPrefix(store.ID, "upl_") {
		t.Errorf("%+v", store)
	}
	if resp := d.core.UploadStored(store, 512<<20+1, "", ""); resp.Status != 413 {
		t.Errorf("%d", resp.Status)
	}
	edge := newSite(t, contract.Edge())
	if resp, _ := edge.ask(up); resp.Status != 403 {
		t.Errorf("upload on the edge: %d", resp.Status)
	}
}

func TestCancelOverTheWire(t *testing.T) {
	d := newDesk(t, contract.Edge())
	resp, effects := d.public("POST", "/cancel", nil)
	if resp.Status != 202 || effectOf[StopRun](t, effects).Kill {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
	resp, _ = d.internal(token.Events, "POST", "/heartbeat", "{}")
	if !decoded[Pulse](t, resp).CancelRequested {
		t.Errorf("%s", resp.Body)
	}
	_, err := d.finish(1, contract.Ending{State: contract.Cancelled})
	d.must(err)
	if resp, _ = d.public("POST", "/cancel", `{"reason":"again"}`); resp.Status != 200 {
		t.Errorf("a finished run: %d", resp.Status)
	}
	if resp, _ = d.public("POST", "/messages", `{"text":"x"}`); code(t, resp) != contract.KindRunFinished {
		t.Errorf("%d", resp.Status)
	}
}
