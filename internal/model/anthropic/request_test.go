package anthropic_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/anthropic"
	"github.com/rivumi/rivumi/internal/model/modeltest"
)

type seen struct {
	body   string
	header http.Header
	path   string
}

// capture sends one request and gives what arrived.
func capture(t *testing.T, o anthropic.Options, r model.Request) seen {
	t.Helper()
	var got seen
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		data, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		got = seen{string(data), req.Header, req.URL.Path}
		w.Header().Set("Content-Type", "application/json")
		if _, err := io.WriteString(w, `{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}`); err != nil {
			t.Log(err)
		}
	}))
	defer s.Close()
	o.BaseURL = s.URL
	m, err := anthropic.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.CloseIdle()
	if _, err := model.Collect(t.Context(), m, r); err != nil {
		t.Fatal(err)
	}
	return got
}

func history() model.Request {
	return model.Request{
		Model: "claude", System: "You <test>.", MaxTokens: 100,
		Tools: []model.Tool{{Name: "bash", Description: "runs", Parameters: json.RawMessage(`{"type":"object"}`)}, {Name: "read"}},
		Messages: []model.Message{
			{Role: model.RoleUser, Text: "go"},
			{
				Role: model.RoleAssistant, Text: "look", Calls: []model.Call{{ID: "t1", Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)}, {ID: "call.2", Name: "write", Arguments: json.RawMessage(`"{\"pa"`), Bad: "cut"}},
				Reasoning: []json.RawMessage{json.RawMessage(`{"type":"thinking","thinking":"h<m","signature":"s"}`), json.RawMessage(`{"reasoning_content":"of another wire"}`), json.RawMessage(`{"type":"redacted_thinking","data":"zz"}`)},
			},
			{Role: model.RoleTool, Results: []model.Result{{CallID: "call.2", Text: "not run", IsError: true}, {CallID: "t1", Text: "a b"}}},
			{Role: model.RoleUser, Text: "go on"},
		},
	}
}

const goldenMessages = `{"model":"claude","max_tokens":100,"system":[{"type":"text","text":"You <test>.","cache_control":{"type":"ephemeral"}}],` +
	`"tools":[{"name":"bash","description":"runs","input_schema":{"type":"object"}},{"name":"read","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],` +
	`"messages":[{"role":"user","content":[{"type":"text","text":"go","cache_control":{"type":"ephemeral"}}]},` +
	`{"role":"assistant","content":[{"type":"thinking","thinking":"h<m","signature":"s"},{"type":"redacted_thinking","data":"zz"},{"type":"text","text":"look"},` +
	`{"type":"tool_use","id":"t1","name":"bash","input":{"command":"ls"}},{"type":"tool_use","id":"call_2_1","name":"write","input":{"invalid_arguments":"{\"pa"}}]},` +
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a b"},{"type":"tool_result","tool_use_id":"call_2_1","content":"not run","is_error":true},` +
	`{"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}]}],"stream":true}`

func TestGoldenRequest(t *testing.T) {
	got := capture(t, anthropic.Options{Key: "k123456"}, history())
	if got.body != goldenMessages {
		t.Errorf("the request changed:\n got %s\nwant %s", got.body, goldenMessages)
	}
	if got.header.Get("X-Api-Key") != "k123456" || got.header.Get("Anthropic-Version") != anthropic.VersionGateway || got.path != "/v1/messages" || got.header.Get("Authorization") != "" {
		t.Errorf("header %v, path %s", got.header, got.path)
	}
	got = capture(t, anthropic.Options{Key: "k123456", Bearer: true, Version: "2026-10-21", NoCache: true}, history())
	if got.header.Get("Authorization") != "Bearer k123456" || got.header.Get("X-Api-Key") != "" || got.header.Get("Anthropic-Version") != "2026-10-21" || strings.Contains(got.body, "cache_control") {
		t.Errorf("header %v", got.header)
	}
}

func TestNoSamplingParameters(t *testing.T) {
	body := capture(t, anthropic.Options{}, history()).body
	for _, field := range []string{"temperature", "top_p", "top_k"} {
		if strings.Contains(body, field) {
			t.Errorf("%s was sent", field)
		}
	}
}

// The wire's own rules, checked as the service does.
func TestMD04EveryCallHasItsResultInTheNextMessage(t *testing.T) {
	r := history()
	r.Tools = nil
	r.Messages[2].Results = r.Messages[2].Results[:1] // t1 was interrupted
	r.Messages = append(r.Messages, model.Message{Role: model.RoleTool, Results: []model.Result{{CallID: "ghost", Text: "x"}}})
	var body struct {
		Tools    []struct{ Name string }
		Messages []struct {
			Role    string
			Content []struct {
				Type, ID, Text string
				CallID         string `json:"tool_use_id"`
			}
		}
	}
	if err := json.Unmarshal([]byte(capture(t, anthropic.Options{}, r).body), &body); err != nil {
		t.Fatal(err)
	}
	if len(body.Tools) != 2 {
		t.Errorf("tools %v: a history with calls needs them", body.Tools)
	}
	open := map[string]bool{}
	for i, m := range body.Messages {
		if i > 0 && m.Role == body.Messages[i-1].Role {
			t.Error("two messages of one role in a row")
		}
		texts := false
		for _, b := range m.Content {
			switch b.Type {
			case "tool_use":
				open[b.ID] = true
			case "tool_result":
				if texts || !open[b.CallID] {
					t.Errorf("result for %q is an orphan or stands after text", b.CallID)
				}
				delete(open, b.CallID)
			case "text":
				texts = true
				if strings.TrimSpace(b.Text) == "" {
					t.Error("an empty text block")
				}
			}
		}
		if m.Role == "user" && len(open) > 0 {
			t.Errorf("calls %v have no result in the next message", open)
		}
	}
}

func TestThinkingRoundTrip(t *testing.T) {
	const stream = "data: {\"type\":\"message_start\",\"message\":{}}\n\n" +
		"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n" +
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"a <b> & c\"}}\n\n" +
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"Sig+/==\"}}\n\n" +
		"data: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"redacted_thinking\",\"data\":\"opaque\"}}\n\n" +
		"data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"text\",\"text\":\"hi\"}}\n\n" +
		"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := io.WriteString(w, stream); err != nil {
			t.Log(err)
		}
	}))
	defer s.Close()
	m, err := anthropic.New(anthropic.Options{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer m.CloseIdle()
	turn, err := model.Collect(t.Context(), m, model.Request{Model: "m"})
	if err != nil || len(turn.Reasoning) != 2 {
		t.Fatalf("%+v %v", turn, err)
	}
	body := capture(t, anthropic.Options{}, model.Request{Model: "m", Messages: []model.Message{{Role: model.RoleUser, Text: "go"}, {Role: model.RoleAssistant, Text: turn.Text, Reasoning: turn.Reasoning}, {Role: model.RoleUser, Text: "more"}}}).body
	want := `[{"type":"thinking","thinking":"a <b> & c","signature":"Sig+/=="},{"type":"redacted_thinking","data":"opaque"},{"type":"text","text":"hi"}]`
	if !strings.Contains(body, want) {
		t.Errorf("%s", body)
	}
}

func TestCancelEndsTheRequest(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := io.WriteString(w, "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"hi\"}}\n\n"); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() == nil {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	m, err := anthropic.New(anthropic.Options{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	modeltest.Cancel(t, m)
}

func TestCacheBreakpointsAreFourAtMostAndAtTheEnd(t *testing.T) {
	r := history()
	for range 3 {
		r.Messages = append(r.Messages, model.Message{Role: model.RoleAssistant, Text: "a"}, model.Message{Role: model.RoleUser, Text: "u"})
	}
	body := capture(t, anthropic.Options{}, r).body
	if n := strings.Count(body, "cache_control"); n != 4 {
		t.Errorf("%d breakpoints", n)
	}
	if n := strings.Count(body, `{"type":"text","text":"u","cache_control":{"type":"ephemeral"}}`); n != 2 {
		t.Errorf("%d of the last two user messages have one", n)
	}
}
