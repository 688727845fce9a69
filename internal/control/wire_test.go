package control

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/token"
)

// site is a host as small as it can be: the records of any number of runs, and one request at a time.
type site struct {
	*world
	runs map[contract.RunID]*memory
}

func newSite(t failer, p contract.Profile) *site {
	return &site{world: newWorld(t, testConfig(p)), runs: map[contract.RunID]*memory{}}
}

// ask routes and handles a request as a host does, rolling back a status of 400 or more.
func (s *site) ask(r Request) (Response, []Effect) {
	env := s.env()
	m, err := s.core.Route(env, r)
	if err != nil {
		return Refuse(err, r.ID), nil
	}
	if m.Run == "" {
		return s.core.Handle(nil, env, r)
	}
	records := s.runs[m.Run]
	if records == nil {
		records = newMemory()
	}
	var resp Response
	var effects []Effect
	_ = records.do(func(tx Tx) error {
		resp, effects = s.core.Handle(tx, env, r)
		if resp.Status >= 400 {
			return errCrash
		}
		return nil
	})
	if len(records.records) > 0 {
		s.runs[m.Run] = records
	}
	return resp, effects
}

func jsonRequest(method, path string, body any) Request {
	r := Request{Method: method, Path: path, Principal: "alice", ID: "req-1", Header: map[string]string{"content-type": "application/json"}}
	switch b := body.(type) {
	case nil:
	case string:
		r.Body = []byte(b)
	default:
		r.Body = contract.MarshalJSON(b)
	}
	return r
}

// start creates a run over the wire.
func (s *site) start() contract.Run {
	s.t.Helper()
	resp, _ := s.ask(jsonRequest("POST", "/v1/runs", validTask()))
	if resp.Status != 202 {
		s.t.Fatalf("create: %d %s", resp.Status, resp.Body)
	}
	run := decoded[contract.Run](s.t, resp)
	s.m = s.runs[run.ID]
	return run
}

// work claims a run and gives the tokens of its attempt, with the model capability open.
func (s *site) work(run contract.Run) map[token.Audience]string {
	s.t.Helper()
	s.m = s.runs[run.ID]
	claimed := s.claim()
	s.must(s.m.do(func(tx Tx) error { return s.core.Activate(tx, s.env(), claimed.Attempt, Grant{}) }))
	tokens, err := s.core.Tokens(s.env(), claimed, 0)
	s.must(err)
	return tokens
}

func withToken(r Request, tok string) Request {
	r.Principal = ""
	r.Header["authorization"] = "Bearer " + tok
	return r
}

func decoded[T any](t failer, r Response) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(r.Body, &v); err != nil {
		t.Fatalf("answer %d %s: %v", r.Status, r.Body, err)
	}
	return v
}

func effectOf[T Effect](t failer, effects []Effect) T {
	t.Helper()
	for _, e := range effects {
		if v, ok := e.(T); ok {
			return v
		}
	}
	var zero T
	t.Fatalf("no %T among %v", zero, effects)
	return zero
}

func code(t failer, r Response) contract.Kind {
	t.Helper()
	if r.Status < 400 {
		return ""
	}
	if r.Header["Content-Type"] != contract.ProblemType {
		t.Fatalf("status %d without a problem document: %v", r.Status, r.Header)
	}
	p := decoded[contract.Problem](t, r)
	if p.Status != r.Status {
		t.Fatalf("problem says %d, status is %d", p.Status, r.Status)
	}
	return p.Code
}

func TestCreateAnswersWithTheRunAndItsAddresses(t *testing.T) {
	s := newSite(t, contract.Edge())
	resp, effects := s.ask(jsonRequest("POST", "/v1/runs", validTask()))
	run := decoded[contract.Run](t, resp)
	if resp.Status != 202 || resp.Header["Location"] != "/v1/runs/"+string(run.ID) || resp.Header["X-Request-Id"] != "req-1" {
		t.Errorf("%d %v", resp.Status, resp.Header)
	}
	if run.Status != contract.Queued || run.URLs == nil || run.URLs.Events != "/v1/runs/"+string(run.ID)+"/events" {
		t.Errorf("%+v", run)
	}
	if effectOf[StartRun](t, effects).Run != run.ID {
		t.Error("another run is started")
	}
}

func TestAnIdempotencyKeyGivesOneRun(t *testing.T) {
	s := newSite(t, contract.Edge())
	r := jsonRequest("POST", "/v1/runs", validTask())
	r.Header["idempotency-key"] = "once"
	first, _ := s.ask(r)
	second, effects := s.ask(r)
	a, b := decoded[contract.Run](t, first), decoded[contract.Run](t, second)
	if second.Status != 202 || a.ID != b.ID || len(s.runs) != 1 {
		t.Errorf("%d, %s and %s", second.Status, a.ID, b.ID)
	}
	effectOf[StartRun](t, effects) // a crash before the queue saw it mends itself
	r.Principal = "bob"
	if other, _ := s.ask(r); decoded[contract.Run](t, other).ID == a.ID {
		t.Error("two principals share a key")
	}
	r.Principal = "alice"
	task := validTask()
	task.Instruction = "another"
	r.Body = contract.MarshalJSON(task)
	if resp, _ := s.ask(r); code(t, resp) != contract.KindIdempotencyConflict {
		t.Errorf("other body: %d %s", resp.Status, resp.Body)
	}
	for _, bad := range []string{"", "with space", strings.Repeat("k", 256), "n\u00f6"} {
		r.Header["idempotency-key"] = bad
		if resp, _ := s.ask(r); resp.Status != 400 {
			t.Errorf("key %q: %d", bad, resp.Status)
		}
	}
}

func TestForeignUnknownAndMadeUpRunsLookTheSame(t *testing.T) {
	s := newSite(t, contract.Edge())
	run := s.start()
	unknown := string(contract.NewRunID(secret, []byte(strings.Repeat("z", 20))))
	forged := string(contract.NewRunID([]byte("another secret"), []byte(strings.Repeat("z", 20))))
	var first string
	for name, id := range map[string]string{"foreign": string(run.ID), "unknown": unknown, "forged": forged, "junk": "run_x", "longer": string(run.ID) + "0"} {
		r := jsonRequest("GET", "/v1/runs/"+id, nil)
		r.Principal = "bob"
		resp, _ := s.ask(r)
		if code(t, resp) != contract.KindRunNotFound {
			t.Errorf("%s: %d %s", name, resp.Status, resp.Body)
		}
		if first == "" {
			first = string(resp.Body)
		}
		if string(resp.Body) != first {
			t.Errorf("%s is told apart: %s", name, resp.Body)
		}
	}
	if _, err := s.core.Route(s.env(), jsonRequest("GET", "/v1/runs/"+forged, nil)); contract.KindOf(err) != contract.KindRunNotFound {
		t.Error("a forged id reaches the store")
	}
}

func TestAuthenticationComesBeforeNamingAnything(t *testing.T) {
	s := newSite(t, contract.Edge())
	run := s.start()
	for _, path := range []string{"/v1/runs/" + string(run.ID), "/v1/runs/run_x", "/v1/nothing", "/v1/runs"} {
		r := jsonRequest("GET", path, nil)
		r.Principal = ""
		resp, _ := s.ask(r)
		if resp.Status != 401 || resp.Header["WWW-Authenticate"] != "Bearer" {
			t.Errorf("%s: %d", path, resp.Status)
		}
	}
}

func TestMethodsAndRoutesThatAreNotThere(t *testing.T) {
	s := newSite(t, contract.Edge())
	run := s.start()
	resp, _ := s.ask(jsonRequest("PATCH", "/v1/runs/"+string(run.ID), nil))
	if resp.Status != 405 || resp.Header["Allow"] != "GET, DELETE" {
		t.Errorf("%d %v", resp.Status, resp.Header)
	}
	for _, path := range []string{"/v1/", "/v1/runs/", "/v1/runs//events", "/v1/runs/" + string(run.ID) + "/", "/v2/runs", "/v1/runs/" + strings.Repeat("a/", 600)} {
		if resp, _ := s.ask(jsonRequest("GET", path, nil)); resp.Status != 404 {
			t.Errorf("%s: %d", path, resp.Status)
		}
	}
}

// Every route of the table: which credentials open it, and which do not.
func TestTokenMatrix(t *testing.T) {
	for _, info := range Routes() {
		t.Run(string(info.Name), func(t *testing.T) {
			s := newSite(t, contract.Edge())
			run := s.start()
			tokens := s.work(run)
			otherRun := s.start()
			others := s.work(otherRun)
			path := strings.NewReplacer("{id}", string(run.ID), "{approval}", "apr_0000000000000000", "{name}", "a.txt", "{digest}", strings.Repeat("0", 64)).Replace(info.Pattern)
			base := jsonRequest(info.Method, path, nil)
			if info.Audience == "" {
				for a, tok := range tokens {
					if resp, _ := s.ask(withToken(base, tok)); resp.Status != 401 {
						t.Errorf("a %s token opens an API route: %d", a, resp.Status)
					}
				}
				return
			}
			forged, _ := s.ask(withToken(base, tokens[info.Audience]+"x"))
			if code(t, forged) != contract.KindInactiveToken {
				t.Fatalf("forged: %d %s", forged.Status, forged.Body)
			}
			refused := map[string]string{"api": "", "other run": others[info.Audience], "other attempt": s.attemptToken(run, info.Audience, 2), "expired": s.oldToken(run, info.Audience)}
			for _, a := range token.Audiences() {
				if a != info.Audience {
					refused["audience "+string(a)] = tokens[a]
				}
			}
			for name, tok := range refused {
				resp, _ := s.ask(withToken(base, tok))
				switch {
				case name == "other run" && info.Audience == token.Model: // it names its own run; the route has none
				case name == "other attempt" && info.Audience != token.Model:
					if code(t, resp) != contract.KindFenced {
						t.Errorf("%s: %d %s", name, resp.Status, resp.Body)
					}
				case string(resp.Body) != string(forged.Body) || resp.Status != 401:
					t.Errorf("%s is told apart: %d %s", name, resp.Status, resp.Body)
				}
			}
			right, _ := s.ask(withToken(base, tokens[info.Audience]))
			if right.Status == 401 {
				t.Errorf("the right token: %s", right.Body)
			}
			away := withToken(base, tokens[info.Audience])
			away.ChannelRun = otherRun.ID
			if resp, _ := s.ask(away); resp.Status != 401 {
				t.Errorf("over another run's channel: %d", resp.Status)
			}
			s.m = s.runs[run.ID]
			_, err := s.finish(1, provenEnding())
			s.must(err)
			if resp, _ := s.ask(withToken(base, tokens[info.Audience])); resp.Status != 401 && resp.Status != 409 {
				t.Errorf("after the end: %d %s", resp.Status, resp.Body)
			}
		})
	}
}

func (s *site) attemptToken(run contract.Run, a token.Audience, attempt int) string {
	run.Attempt = attempt
	tokens, err := s.core.Tokens(s.env(), run, 0)
	s.must(err)
	return tokens[a]
}

func (s *site) oldToken(run contract.Run, a token.Audience) string {
	run.Attempt = 1
	env := s.env()
	env.Now = s.now.Add(-time.Hour)
	tokens, err := s.core.Tokens(env, run, time.Minute)
	s.must(err)
	return tokens[a]
}

func TestTokensLiveNoLongerThanTheRunMayTake(t *testing.T) {
	s := newSite(t, contract.Edge())
	run := s.start()
	s.m = s.runs[run.ID]
	tokens, err := s.core.Tokens(s.env(), s.claim(), 48*time.Hour)
	s.must(err)
	r := withToken(jsonRequest("POST", "/internal/v1/runs/"+string(run.ID)+"/heartbeat", nil), tokens[token.Events])
	s.now = epoch.Add(179 * time.Second) // wall time 100 s and 80 s
	if resp, _ := s.ask(r); resp.Status != 200 {
		t.Errorf("just before: %d %s", resp.Status, resp.Body)
	}
	s.now = epoch.Add(180 * time.Second)
	if resp, _ := s.ask(r); resp.Status != 401 {
		t.Errorf("at its end: %d", resp.Status)
	}
}
