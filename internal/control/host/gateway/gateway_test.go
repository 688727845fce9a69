package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/host/gateway"
)

const key = "sk-test-000111222333"

// taken is a caller that keeps the answer.
type taken struct {
	bytes.Buffer
	status int
	header map[string]string
}

// Begin implements [gateway.Writer].
func (t *taken) Begin(status int, header map[string]string) { t.status, t.header = status, header }

// upstream starts a provider and a gateway in front of it.
func upstream(t *testing.T, wire control.Wire, answer http.HandlerFunc) *gateway.Gateway {
	t.Helper()
	srv := httptest.NewServer(answer)
	t.Cleanup(srv.Close)
	g, err := gateway.New([]gateway.Upstream{{Name: "m", Model: "real-m", URL: srv.URL, Wire: wire, Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.CloseIdle)
	return g
}

func call(wire control.Wire, streaming bool) control.ForwardModel {
	return control.ForwardModel{
		CallID: "c1", Wire: wire, Model: "m", Body: []byte(`{"messages":[{"role":"user","content":"model"}], "model" : "m","stream":false}`),
		Streaming: streaming, MaxBytes: 4096,
	}
}

func TestTheKeyIsAttachedToTheConfiguredModelOnly(t *testing.T) {
	g := upstream(t, control.WireChat, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer "+key ||
			string(b) != `{"messages":[{"role":"user","content":"model"}], "model" : "real-m","stream":false}` {
			t.Errorf("upstream got %s %q %s", r.URL, r.Header, b)
		}
		fmt.Fprintf(w, `{"choices":[],"echo":%q,"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":10}}}`, key)
	})
	w := &taken{}
	out, err := g.Forward(t.Context(), call(control.WireChat, false), w)
	if err != nil || w.status != 200 || strings.Contains(w.String(), key) || !bytes.Equal(out.Answer, w.Bytes()) {
		t.Errorf("answer %d %q, %v", w.status, w, err)
	}
	if want := (contract.ModelUsage{Input: 2, Output: 3, CacheRead: 10, Known: true}); out.Usage != want {
		t.Errorf("usage %+v, want %+v", out.Usage, want)
	}
	if _, err := g.Forward(t.Context(), call(control.WireMessages, false), &taken{}); contract.KindOf(err) != contract.KindInvalid {
		t.Errorf("other wire: %v", err)
	}
}

func TestOnlyWholeJSONFromTheUpstreamPasses(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   contract.Kind
	}{
		"a page":     {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>hello</html>") }, contract.KindUpstream},
		"two values": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"a":1}{"b":2}`) }, contract.KindUpstream},
		"a list":     {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `[1]`) }, contract.KindUpstream},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			io.WriteString(w, `{"a":1}`)
		}, contract.KindUpstream},
		"long": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"a":%q}`, strings.Repeat("x", 5000)) }, contract.KindUpstream},
		"claims long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			w.WriteHeader(200)
		}, contract.KindUpstream},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/steal", http.StatusTemporaryRedirect)
		}, contract.KindUpstream},
		"key refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401); io.WriteString(w, "bad key "+key) }, contract.KindUpstream},
	} {
		g := upstream(t, control.WireChat, c.answer)
		w := &taken{}
		out, err := g.Forward(t.Context(), call(control.WireChat, false), w)
		if contract.KindOf(err) != c.kind || w.status != 0 || strings.Contains(fmt.Sprint(err), key) || out.Answer != nil {
			t.Errorf("%s: %v, wrote %d %q", name, err, w.status, w)
		}
	}
}

func TestAProvidersRefusalPassesWithoutSecrets(t *testing.T) {
	g := upstream(t, control.WireChat, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(429)
		fmt.Fprintf(w, `{"error":{"message":"slow down, %s","type":"rate_limit_error"}}`, key)
	})
	w := &taken{}
	out, err := g.Forward(t.Context(), call(control.WireChat, true), w)
	if err != nil || w.status != 429 || w.header["Retry-After"] != "7" || !strings.Contains(w.String(), "slow down") || strings.Contains(w.String(), key) {
		t.Errorf("%d %v %q, %v", w.status, w.header, w, err)
	}
	if !out.Usage.Known || out.Usage.Output != 0 {
		t.Errorf("a refused call is charged: %+v", out.Usage)
	}
}

func TestAStreamIsCheckedEventByEvent(t *testing.T) {
	const chat = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n"
	for name, c := range map[string]struct {
		send  string
		whole bool
		has   string
	}{
		"good":     {chat, true, "[DONE]"},
		"not JSON": {"data: {\"a\":1}\n\ndata: nonsense\n\n", false, "upstream_error"},
		"cut":      {"data: {\"choices\":[]}\n\n", false, "choices"},
		"too long": {"data: {\"a\":1}\n\n" + strings.Repeat("data: {\"a\":\""+strings.Repeat("x", 1000)+"\"}\n\n", 9), false, "longer than is allowed"},
		"bad name": {"event: a b\ndata: {\"a\":1}\n\ndata: [DONE]\n\n", true, "data: {\"a\":1}"},
	} {
		g := upstream(t, control.WireChat, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, c.send) })
		w := &taken{}
		out, err := g.Forward(t.Context(), call(control.WireChat, true), w)
		if err != nil || w.status != 200 || !strings.Contains(w.String(), c.has) || (out.Answer != nil) != c.whole {
			t.Errorf("%s: %d %q, kept %q, %v", name, w.status, w, out.Answer, err)
		}
		if int64(w.Len()) > 4096+512 {
			t.Errorf("%s: %d bytes passed", name, w.Len())
		}
		if name == "good" && (out.Usage.Output != 2 || w.String() != chat) {
			t.Errorf("usage %+v, answer %q", out.Usage, w)
		}
		if name == "cut" && out.Usage.Known {
			t.Error("a stream that broke off is settled as whole")
		}
	}
}

func TestTheMessagesWire(t *testing.T) {
	g := upstream(t, control.WireMessages, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != key || r.Header.Get("Authorization") != "" {
			t.Errorf("upstream got %s %v", r.URL, r.Header)
		}
		io.WriteString(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"cache_read_input_tokens\":4,\"output_tokens\":1}}}\n\n"+
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":6}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	})
	w := &taken{}
	out, err := g.Forward(t.Context(), call(control.WireMessages, true), w)
	if want := (contract.ModelUsage{Input: 9, Output: 6, CacheRead: 4, Known: true}); err != nil || out.Usage != want || out.Answer == nil {
		t.Errorf("usage %+v, %v", out.Usage, err)
	}
}

func TestACallEndsWithItsCaller(t *testing.T) {
	began := make(chan struct{})
	g := upstream(t, control.WireChat, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(began)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	if out, err := g.Forward(ctx, call(control.WireChat, false), &taken{}); contract.KindOf(err) != contract.KindUnavailable || out.Usage.Known {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestUpstreamsAreChecked(t *testing.T) {
	for _, u := range []gateway.Upstream{
		{Name: "m", URL: "http://example.com/v1", Wire: control.WireChat},
		{Name: "m", URL: "https://user:pw@example.com/v1", Wire: control.WireChat},
		{Name: "m", URL: "https://example.com/v1?x=1", Wire: control.WireChat},
		{Name: "m", URL: "https://example.com/v1", Wire: "other"},
		{Name: "", URL: "https://example.com/v1", Wire: control.WireChat},
	} {
		if _, err := gateway.New([]gateway.Upstream{u}); contract.KindOf(err) != contract.KindInvalid {
			t.Errorf("%+v: %v", u, err)
		}
	}
}
