package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
)

// serve opens a service with an HTTP server on loopback.
func serve(t testing.TB, exec host.Executor) (*host.Service, string) {
	t.Helper()
	s := open(t, host.Options{Executor: exec, NoSocket: true})
	srv := httptest.NewServer(s.Handler(func(r *http.Request) (string, error) {
		who, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		return who, nil
	}))
	t.Cleanup(srv.Close)
	return s, srv.URL
}

type reply struct {
	status int
	header http.Header
	body   string
}

// ask makes one request as the local principal; headers come in pairs.
func ask(t *testing.T, method, url, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+host.LocalPrincipal)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func wantProblem(t *testing.T, what string, r reply, code contract.Kind) {
	t.Helper()
	var p contract.Problem
	if err := json.Unmarshal([]byte(r.body), &p); err != nil || p.Code != code || r.status != code.Status() || r.header.Get("Content-Type") != contract.ProblemType {
		t.Errorf("%s: %d %s %q, want problem %s", what, r.status, r.header.Get("Content-Type"), r.body, code)
	}
	if r.header.Get("X-Request-Id") == "" {
		t.Errorf("%s: no request id", what)
	}
}

func TestHTTPRefusesWhatItShould(t *testing.T) {
	_, url := serve(t, play(done))
	jsonType := []string{"Content-Type", "application/json"}
	wantProblem(t, "no token", ask(t, "GET", url+"/v1/runs", "", "Authorization", ""), contract.KindUnauthorized)
	wantProblem(t, "no route", ask(t, "GET", url+"/v1/nothing", ""), contract.KindNotFound)
	wantProblem(t, "method", ask(t, "PUT", url+"/v1/runs", ""), contract.KindMethodNotAllowed)
	wantProblem(t, "made-up id", ask(t, "GET", url+"/v1/runs/run_00000000000000000000000000", ""), contract.KindRunNotFound)
	wantProblem(t, "unknown field", ask(t, "POST", url+"/v1/runs", `{"instructions":"x"}`, jsonType...), contract.KindUnknownField)
	wantProblem(t, "not JSON", ask(t, "POST", url+"/v1/runs", `{`, jsonType...), contract.KindInvalid)
	wantProblem(t, "media type", ask(t, "POST", url+"/v1/runs", `{}`, "Content-Type", "text/plain"), contract.KindUnsupportedMedia)
	wantProblem(t, "long body", ask(t, "POST", url+"/v1/runs", strings.Repeat(" ", 5<<20), jsonType...), contract.KindTooLarge)
	wantProblem(t, "upload", ask(t, "POST", url+"/v1/uploads", "x", "Content-Type", "text/plain"), contract.KindUnsupportedMedia)
	if r := ask(t, "GET", url+"/v1/runs", "", "X-Request-Id", "my-id.1"); r.header.Get("X-Request-Id") != "my-id.1" || r.status != 200 {
		t.Errorf("own request id: %v", r)
	}
	for _, bad := range []string{"a b", "<script>", strings.Repeat("a", 65), "a\tb"} {
		if r := ask(t, "GET", url+"/v1/runs", "", "X-Request-Id", bad); r.header.Get("X-Request-Id") == bad {
			t.Errorf("request id %q came back", bad)
		}
	}
}

func TestAnotherPrincipalsRunIsUnknown(t *testing.T) {
	s, url := serve(t, play(done))
	run := start(t, s)
	follow(t, s, run.ID, 0)
	for _, path := range []string{"", "/events", "/approvals", "/artifacts", "/artifacts/events.ndjson"} {
		wantProblem(t, path, ask(t, "GET", url+"/v1/runs/"+string(run.ID)+path, "", "Authorization", "Bearer mallory"), contract.KindRunNotFound)
	}
	wantProblem(t, "cancel", ask(t, "POST", url+"/v1/runs/"+string(run.ID)+"/cancel", "", "Authorization", "Bearer mallory"), contract.KindRunNotFound)
	if r := ask(t, "GET", url+"/v1/runs", "", "Authorization", "Bearer mallory"); r.status != 200 || strings.Contains(r.body, string(run.ID)) {
		t.Errorf("mallory's list: %v", r)
	}
}

func TestArtifactsOverHTTP(t *testing.T) {
	s, url := serve(t, play(func(ctx context.Context, j host.Job) contract.Ending {
		if _, err := j.Session.PutArtifact(ctx, "a.txt", "text/plain", strings.NewReader("0123456789")); err != nil {
			t.Error(err)
		}
		return done(ctx, j)
	}))
	run := start(t, s)
	follow(t, s, run.ID, 0)
	at := url + "/v1/runs/" + string(run.ID) + "/artifacts/a.txt"
	whole := ask(t, "GET", at, "", "Accept-Encoding", "gzip")
	tag := whole.header.Get("ETag")
	if whole.status != 200 || whole.body != "0123456789" || whole.header.Get("Content-Encoding") != "" || whole.header.Get("Accept-Ranges") != "bytes" ||
		!strings.HasPrefix(whole.header.Get("Repr-Digest"), "sha-256=:") || len(tag) != 66 || whole.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("whole: %+v", whole)
	}
	if part := ask(t, "GET", at, "", "Range", "bytes=2-4", "If-Range", tag); part.status != 206 || part.body != "234" {
		t.Errorf("part: %+v", part)
	}
	if same := ask(t, "GET", at, "", "If-None-Match", tag); same.status != 304 || same.body != "" {
		t.Errorf("not modified: %+v", same)
	}
	wantProblem(t, "range", ask(t, "GET", at, "", "Range", "bytes=99-"), contract.KindRange)
}

func TestTheEventStreamOnTheWire(t *testing.T) {
	s, url := serve(t, play(func(ctx context.Context, j host.Job) contract.Ending {
		if err := j.Session.Append(ctx, notice("a\nb\n\nid: 999\ndata: x")); err != nil {
			t.Error(err)
		}
		return done(ctx, j)
	}))
	run := start(t, s)
	follow(t, s, run.ID, 0)
	at := url + "/v1/runs/" + string(run.ID) + "/events"
	sse := ask(t, "GET", at+"?stream=1", "", "Accept-Encoding", "gzip")
	if sse.status != 200 || !strings.HasPrefix(sse.body, ": keep-alive\n\nid: 1\nevent: run.queued\ndata: {") || strings.Count(sse.body, "\nid: ") != 4 ||
		sse.header.Get("Content-Type") != "text/event-stream" || sse.header.Get("Cache-Control") != "no-store" || sse.header.Get("X-Accel-Buffering") != "no" || sse.header.Get("Content-Encoding") != "" {
		t.Errorf("stream: %+v", sse)
	}
	if rest := ask(t, "GET", at, "", "Accept", "text/event-stream", "Last-Event-ID", "3"); !strings.HasPrefix(rest.body, ": keep-alive\n\nid: 4\nevent: run.completed\n") {
		t.Errorf("SS-03: after 3: %+v", rest)
	}
	if over := ask(t, "GET", at, "", "Accept", "text/event-stream", "Last-Event-ID", "4"); over.status != 204 {
		t.Errorf("after the end: %+v", over)
	}
	plain := ask(t, "GET", at+"?after=1", "")
	if lines := strings.Split(strings.TrimSpace(plain.body), "\n"); len(lines) != 3 || plain.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("NDJSON: %+v", plain)
	}
	for cursor, kind := range map[string]contract.Kind{"x": contract.KindBadCursor, "-1": contract.KindBadCursor, "1.5": contract.KindBadCursor, "9007199254740993": contract.KindBadCursor, "5": contract.KindCursorAhead} {
		wantProblem(t, cursor, ask(t, "GET", at, "", "Last-Event-ID", cursor), kind)
	}
}

// SS-05: a reader that stops reading delays nobody, and is dropped or resumed at its own cost.
func TestSS05AStuckReaderDelaysNobody(t *testing.T) {
	const events, size = 300, 64 << 10
	attached := make(chan struct{})
	s, url := serve(t, play(func(ctx context.Context, j host.Job) contract.Ending {
		<-attached
		for range events {
			if err := j.Session.Append(ctx, notice(strings.Repeat("x", size))); err != nil {
				t.Error(err)
			}
		}
		return done(ctx, j)
	}))
	run := start(t, s)
	stuck, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	fmt.Fprintf(stuck, "GET /v1/runs/%s/events?stream=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", run.ID, host.LocalPrincipal)
	first := make([]byte, 64)
	if _, err := io.ReadFull(stuck, first); err != nil || !bytes.HasPrefix(first, []byte("HTTP/1.1 200")) {
		t.Fatalf("%q, %v", first, err)
	}
	close(attached)
	began := time.Now()
	if n := len(follow(t, s, run.ID, 0)); n != events+3 {
		t.Errorf("the other reader saw %d events", n)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the other reader took %s", took)
	}
}

// SS-06: a silent stream carries a comment at once and again before proxies lose patience.
func TestSS06AQuietStreamIsKeptAlive(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 16 s")
	}
	release := make(chan struct{})
	s, url := serve(t, play(func(ctx context.Context, j host.Job) contract.Ending {
		<-release
		return done(ctx, j)
	}))
	defer close(release)
	run := start(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url+"/v1/runs/"+string(run.ID)+"/events?stream=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+host.LocalPrincipal)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	began, last := time.Now(), time.Now()
	var got []byte
	buf := make([]byte, 4096)
	for bytes.Count(got, []byte(": keep-alive\n\n")) < 2 {
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if gap := time.Since(last); gap > 18*time.Second {
			t.Errorf("silent for %s", gap)
		}
		last = time.Now()
		got = append(got, buf[:n]...)
	}
	if took := time.Since(began); took < 10*time.Second {
		t.Errorf("two comments in %s", took)
	}
}
