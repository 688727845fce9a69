package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/modeltest"
	"github.com/rivumi/rivumi/internal/model/openai"
)

const okAnswer = `{"choices":[{"index":0,"message":{"content":"ok"},"finish_reason":"stop"}]}`

// fake keeps the bodies it was sent; refuse gives an answer with status 400, or "".
type fake struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	header http.Header
	path   string
}

func newFake(t *testing.T, refuse func(body map[string]json.RawMessage) string) *fake {
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var body map[string]json.RawMessage
		if err != nil || json.Unmarshal(data, &body) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		f.mu.Lock()
		f.bodies, f.header, f.path = append(f.bodies, string(data)), r.Header, r.URL.Path
		f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		answer := okAnswer
		if refuse != nil {
			if why := refuse(body); why != "" {
				w.WriteHeader(http.StatusBadRequest)
				answer = fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error"}}`, why)
			}
		}
		if _, err := io.WriteString(w, answer); err != nil {
			t.Log(err)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func ask(t *testing.T, o openai.Options, r model.Request) (*model.Turn, error) {
	t.Helper()
	m, err := openai.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.CloseIdle)
	return model.Collect(t.Context(), m, r)
}

// history has a turn with a call, one with a bad call, a cancelled call and follow-ups.
func history() model.Request {
	return model.Request{
		Model: "m", System: "You <test> & work.", MaxTokens: 100, Effort: "low", CacheKey: "run_1",
		Tools: []model.Tool{{Name: "bash", Description: "runs", Parameters: json.RawMessage(`{"type":"object"}`)}},
		Messages: []model.Message{
			{Role: model.RoleUser, Text: "go"},
			{Role: model.RoleAssistant, Text: "look", Calls: []model.Call{{ID: "c1", Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`), Extra: json.RawMessage(`{"extra_content":{"google":{"thought_signature":"sig=="}},"id":"evil"}`)}}, Reasoning: []json.RawMessage{json.RawMessage(`{"reasoning_content":"hm"}`)}},
			{Role: model.RoleTool, Results: []model.Result{{CallID: "c1", Text: "a b"}, {CallID: "ghost", Text: "orphan"}}},
			{Role: model.RoleAssistant, Calls: []model.Call{{ID: "c2", Name: "write", Arguments: json.RawMessage(`"{\"path\":\"cut"`), Bad: "cut"}, {ID: "c3", Name: "bash", Arguments: json.RawMessage(`{}`)}}},
			{Role: model.RoleTool, Results: []model.Result{{CallID: "c2", Text: "not run", IsError: true}}},
			{Role: model.RoleUser, Text: "go on"},
		},
	}
}

const goldenChat = `{"model":"m","messages":[{"role":"system","content":"You <test> & work."},{"role":"user","content":"go"},` +
	`{"role":"assistant","content":"look","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"},"extra_content":{"google":{"thought_signature":"sig=="}}}]},` +
	`{"role":"tool","tool_call_id":"c1","content":"a b"},` +
	`{"role":"assistant","content":null,"tool_calls":[{"id":"c2","type":"function","function":{"name":"write","arguments":"{\"invalid_arguments\":\"{\\\"path\\\":\\\"cut\"}"}},{"id":"c3","type":"function","function":{"name":"bash","arguments":"{}"}}]},` +
	`{"role":"tool","tool_call_id":"c2","content":"not run"},{"role":"tool","tool_call_id":"c3","content":"no result: the call was interrupted and its effects are unknown"},` +
	`{"role":"user","content":"go on"}],"tools":[{"type":"function","function":{"name":"bash","description":"runs","parameters":{"type":"object"},"strict":false}}],` +
	`"stream":true,"stream_options":{"include_usage":true},"max_tokens":100,"reasoning_effort":"low"}`

func TestGoldenRequest(t *testing.T) {
	f := newFake(t, nil)
	if _, err := ask(t, openai.Options{BaseURL: f.URL, Key: "k123456"}, history()); err != nil {
		t.Fatal(err)
	}
	if f.bodies[0] != goldenChat {
		t.Errorf("the request changed:\n got %s\nwant %s", f.bodies[0], goldenChat)
	}
	if f.header.Get("Authorization") != "Bearer k123456" || f.path != "/v1/chat/completions" {
		t.Errorf("header %v, path %s", f.header, f.path)
	}
}

func TestHistoryIsAPrefix(t *testing.T) {
	f := newFake(t, nil)
	long := history()
	short := long
	short.Messages = long.Messages[:3]
	for _, r := range []model.Request{short, long} {
		if _, err := ask(t, openai.Options{BaseURL: f.URL}, r); err != nil {
			t.Fatal(err)
		}
	}
	head, _, _ := strings.Cut(f.bodies[0], `],"tools"`)
	if !strings.HasPrefix(f.bodies[1], head) {
		t.Error("a longer history does not begin with the bytes of the shorter one: every prompt cache is lost")
	}
}

func TestMD06ReasoningGoesBackAsTheProviderWants(t *testing.T) {
	demands := newFake(t, func(body map[string]json.RawMessage) string {
		var messages []map[string]json.RawMessage
		if json.Unmarshal(body["messages"], &messages) != nil {
			return "messages"
		}
		for _, m := range messages {
			if _, has := m["reasoning_content"]; m["tool_calls"] != nil && !has {
				return "the reasoning_content in the thinking mode must be passed back"
			}
		}
		return ""
	})
	strict := newFake(t, func(body map[string]json.RawMessage) string {
		var messages []map[string]json.RawMessage
		if json.Unmarshal(body["messages"], &messages) != nil {
			return "messages"
		}
		for _, m := range messages {
			for k := range m {
				if k != "role" && k != "content" && k != "tool_calls" && k != "tool_call_id" {
					return "property " + k + " is unsupported"
				}
			}
		}
		return ""
	})
	for _, c := range []struct {
		f    *fake
		way  openai.Reasoning
		fine bool
	}{{demands, openai.ReasoningContent, true}, {demands, openai.ReasoningOff, false}, {strict, openai.ReasoningOff, true}, {strict, openai.ReasoningContent, false}} {
		_, err := ask(t, openai.Options{BaseURL: c.f.URL, Reasoning: c.way}, history())
		if (err == nil) != c.fine {
			t.Errorf("way %q: %v", c.way, err)
		}
	}
	if !strings.Contains(demands.bodies[0], `"content":"look","reasoning_content":"hm"`) || !strings.Contains(demands.bodies[0], `"content":null,"reasoning_content":""`) {
		t.Errorf("%s", demands.bodies[0])
	}
}

func TestMD06ReasoningRoundTrip(t *testing.T) {
	const details = `[{"type":"reasoning.text","text":"hm so","index":0,"signature":"s"},{"type":"reasoning.encrypted","data":"x","index":1}]`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range []string{
			`{"type":"reasoning.text","text":"hm ","index":0}`, `{"type":"reasoning.text","text":"so","index":0,"signature":"s"}`, `{"type":"reasoning.encrypted","data":"x","index":1}`,
		} {
			if _, err := fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"a\",\"reasoning_details\":[%s]}}]}\n\n", d); err != nil {
				return
			}
		}
		if _, err := io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"); err != nil {
			t.Log(err)
		}
	}))
	t.Cleanup(s.Close)
	turn, err := ask(t, openai.Options{BaseURL: s.URL}, model.Request{Model: "m"})
	if err != nil || len(turn.Reasoning) != 1 {
		t.Fatalf("%+v %v", turn, err)
	}
	f := newFake(t, nil)
	r := model.Request{Model: "m", Messages: []model.Message{{Role: model.RoleAssistant, Text: turn.Text, Reasoning: turn.Reasoning}}}
	if _, err := ask(t, openai.Options{BaseURL: f.URL, Reasoning: openai.ReasoningDetails}, r); err != nil {
		t.Fatal(err)
	}
	var body struct {
		Messages []struct {
			Reasoning string          `json:"reasoning"`
			Details   json.RawMessage `json:"reasoning_details"`
		} `json:"messages"`
	}
	if err := json.Unmarshal([]byte(f.bodies[0]), &body); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if json.Unmarshal(body.Messages[0].Details, &got) != nil || json.Unmarshal([]byte(details), &want) != nil || fmt.Sprint(got) != fmt.Sprint(want) || body.Messages[0].Reasoning != "aaa" {
		t.Errorf("sent back %s", f.bodies[0])
	}
}

func TestMD09TokenFieldIsSwappedOnceAndRemembered(t *testing.T) {
	refuse := func(field, why string) func(map[string]json.RawMessage) string {
		return func(body map[string]json.RawMessage) string {
			if body[field] != nil {
				return why
			}
			return ""
		}
	}
	for _, c := range []struct{ name, field, start, why string }{
		{"A", "max_tokens", "", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."},
		{"B", "max_completion_tokens", "max_completion_tokens", "Unrecognized request argument supplied: max_completion_tokens"},
		{"C", "stream_options", "", "stream_options: extra fields not permitted"},
	} {
		f := newFake(t, refuse(c.field, c.why))
		m, err := openai.New(openai.Options{BaseURL: f.URL, TokenField: c.start})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := model.Collect(t.Context(), m, model.Request{Model: "m", MaxTokens: 77}); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		if len(f.bodies) != 3 || !strings.Contains(f.bodies[2], `tokens":77`) {
			t.Errorf("%s: %d requests, last %s", c.name, len(f.bodies), f.bodies[len(f.bodies)-1])
		}
		m.CloseIdle()
	}
	both := newFake(t, func(map[string]json.RawMessage) string { return "unsupported: max_tokens, max_completion_tokens" })
	_, err := ask(t, openai.Options{BaseURL: both.URL}, model.Request{Model: "m", MaxTokens: 77})
	if err == nil || len(both.bodies) != 2 {
		t.Errorf("refused both: %d requests, %v", len(both.bodies), err)
	}
	value := newFake(t, func(map[string]json.RawMessage) string { return "max_tokens is too large: 77. At most 50 are possible" })
	if _, err := ask(t, openai.Options{BaseURL: value.URL}, model.Request{Model: "m", MaxTokens: 77}); err == nil || len(value.bodies) != 1 {
		t.Errorf("a value was taken for a field: %d requests", len(value.bodies))
	}
}

func TestCallExtrasComeBack(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","extra_content":{"google":{"thought_signature":"sig=="}},"function":{"name":"bash","arguments":"{}"}}]},"finish_reason":"stop"}]}`+"\n\n"); err != nil {
			t.Log(err)
		}
	}))
	t.Cleanup(s.Close)
	turn, err := ask(t, openai.Options{BaseURL: s.URL}, model.Request{Model: "m"})
	if err != nil || len(turn.Calls) != 1 || string(turn.Calls[0].Extra) != `{"extra_content":{"google":{"thought_signature":"sig=="}}}` {
		t.Fatalf("%+v %v", turn, err)
	}
}

func TestCancelEndsTheRequest(t *testing.T) {
	m, err := openai.New(openai.Options{BaseURL: hang(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	modeltest.Cancel(t, m)
}

// hang sends one piece of text and then nothing, until the client is gone.
func hang(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n"); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() == nil {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	return s
}
