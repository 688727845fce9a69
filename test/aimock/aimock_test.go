package aimock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/anthropic"
	"github.com/rivumi/rivumi/internal/model/openai"
)

const mockPackage = "@copilotkit/aimock@1.43.0"

// need skips loudly where something is missing, and fails where RIVUMI_CI=1 promises that it is there.
func need(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if os.Getenv("RIVUMI_CI") == "1" {
		t.Fatalf("%s: %v", what, err)
	}
	t.Skipf("SKIPPED, NOTHING WAS CHECKED: %s: %v", what, err)
}

// install gives the mock's program, from a cache folder that later runs share.
func install(t *testing.T) (node, script string) {
	t.Helper()
	node, err := exec.LookPath("node")
	need(t, "node is needed", err)
	npm, err := exec.LookPath("npm")
	need(t, "npm is needed", err)
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	dir := filepath.Join(cache, "rivumi-test", "aimock-1.43.0")
	script = filepath.Join(dir, "node_modules", "@copilotkit", "aimock", "dist", "cli.js")
	if _, err := os.Stat(script); err == nil {
		return node, script
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", dir, mockPackage)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	need(t, "the mock cannot be installed", err)
	return node, script
}

// output is a buffer that the server's process may write while the test reads.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs the mock on a free port of the loopback and gives its address.
func start(t *testing.T) string {
	t.Helper()
	node, script := install(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, node, script, "-h", "127.0.0.1", "-p", port, "-f", filepath.Join("testdata", "fixtures.json"), "--strict", "--validate-on-load", "-c", "7", "--log-level", "warn")
	log := &output{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = log, log, 5*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			t.Log(err)
		}
		if t.Failed() {
			t.Logf("the mock said:\n%s", log)
		}
	})
	base := "http://127.0.0.1:" + port
	for deadline := time.Now().Add(60 * time.Second); ; {
		if resp, err := http.Get(base + "/__aimock/health"); err == nil {
			ok := resp.StatusCode == http.StatusOK
			if err := resp.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if ok {
				return base
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the mock did not start:\n%s", log)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// chaos sets the mock's failure rates; nil clears them.
func chaos(t *testing.T, base string, rates map[string]float64) {
	t.Helper()
	method, body := http.MethodDelete, []byte(nil)
	if rates != nil {
		data, err := json.Marshal(rates)
		if err != nil {
			t.Fatal(err)
		}
		method, body = http.MethodPost, data
	}
	req, err := http.NewRequestWithContext(t.Context(), method, base+"/__aimock/chaos", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("chaos: %d %s %v", resp.StatusCode, text, err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
}

func request(text string) model.Request {
	return model.Request{
		Model: "gpt-4o", System: "You test.", MaxTokens: 200, Messages: []model.Message{{Role: model.RoleUser, Text: text}},
		Tools: []model.Tool{
			{Name: "bash", Description: "runs", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}}}`)},
			{Name: "read", Description: "reads", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)},
		},
	}
}

func TestBothAdaptersAgainstAnIndependentMock(t *testing.T) {
	base := start(t)
	chat, err := openai.New(openai.Options{BaseURL: base, Key: "sk-test"})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := anthropic.New(anthropic.Options{BaseURL: base, Key: "sk-test"})
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]model.Model{"chat": chat, "messages": messages} {
		t.Run(name, func(t *testing.T) {
			t.Run("text", func(t *testing.T) { text(t, m) })
			t.Run("calls and results", func(t *testing.T) { calls(t, m) })
			t.Run("length", func(t *testing.T) {
				turn, err := model.Collect(t.Context(), m, request("run out"))
				if err != nil || turn.Finish != model.FinishLength {
					t.Fatalf("%+v %v", turn, err)
				}
			})
			t.Run("errors", func(t *testing.T) { faults(t, m) })
			t.Run("chaos", func(t *testing.T) { disturbed(t, m, base) })
		})
	}
}

func text(t *testing.T, m model.Model) {
	pieces := 0
	var turn *model.Turn
	for c, err := range m.Stream(t.Context(), request("say hello")) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Kind == model.ChunkText {
			pieces++
		}
		turn = c.Turn
	}
	if turn == nil || turn.Text != "Hello from the mock, in several chunks of text: grüße 🙂." || pieces < 3 || turn.Finish != model.FinishStop {
		t.Fatalf("%d pieces, %+v", pieces, turn)
	}
	if u := turn.Usage; !u.Known || u.Input != 21 || u.Output != 9 {
		t.Errorf("usage %+v", u)
	}
}

func calls(t *testing.T, m model.Model) {
	r := request("list files")
	turn, err := model.Collect(t.Context(), m, r)
	if err != nil || len(turn.Calls) != 2 || turn.Finish != model.FinishCalls {
		t.Fatalf("%+v %v", turn, err)
	}
	for i, want := range []string{`{"command":"ls -l"}`, `{"path":"a.txt"}`} {
		if c := turn.Calls[i]; c.Bad != "" || string(c.Arguments) != want {
			t.Errorf("call %d: %+v", i, c)
		}
	}
	r.Messages = append(r.Messages, model.Message{Role: model.RoleAssistant, Text: turn.Text, Calls: turn.Calls},
		model.Message{Role: model.RoleTool, Results: []model.Result{{CallID: turn.Calls[0].ID, Text: "a.txt b.txt"}, {CallID: turn.Calls[1].ID, Text: "hello"}}})
	end, err := model.Collect(t.Context(), m, r)
	if err != nil || end.Text != "There are two files." || len(end.Calls) != 0 {
		t.Fatalf("%+v %v", end, err)
	}
}

func faults(t *testing.T, m model.Model) {
	for text, want := range map[string]int{"be busy": 529, "refuse me": 400} {
		_, err := model.Collect(t.Context(), m, request(text))
		if e, ok := model.AsError(err); !ok || e.Status != want || e.Kind != model.ErrStatus || e.Message == "" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func disturbed(t *testing.T, m model.Model, base string) {
	defer chaos(t, base, nil)
	chaos(t, base, map[string]float64{"rateLimitRate": 1})
	_, err := model.Collect(t.Context(), m, request("say hello"))
	if e, ok := model.AsError(err); !ok || e.Status != http.StatusTooManyRequests || e.RetryAfter <= 0 || !model.Retryable(e) {
		t.Errorf("rate limit: %v", err)
	}
	// The limit ends while the retry waits: the wait is the moment to end it.
	for c, err := range model.WithRetry(m, model.RetryOptions{}).Stream(t.Context(), request("say hello")) {
		if err != nil {
			t.Errorf("retry: %v", err)
		}
		if c.Kind == model.ChunkRetry {
			chaos(t, base, nil)
		}
		if c.Kind == model.ChunkEnd && !strings.HasPrefix(c.Turn.Text, "Hello") {
			t.Errorf("retry: %+v", c.Turn)
		}
	}
	chaos(t, base, map[string]float64{"disconnectRate": 1})
	_, err = model.Collect(t.Context(), m, request("say hello"))
	if e, ok := model.AsError(err); !ok || e.Kind != model.ErrTransport && e.Kind != model.ErrTruncated && e.Kind != model.ErrEmpty {
		t.Errorf("disconnect: %v", err)
	}
	chaos(t, base, map[string]float64{"malformedRate": 1})
	if turn, err := model.Collect(t.Context(), m, request("say hello")); err == nil {
		t.Errorf("malformed: a success %+v", turn)
	}
	chaos(t, base, map[string]float64{"dropRate": 1})
	if turn, err := model.Collect(t.Context(), m, request("say hello")); err == nil {
		t.Errorf("dropped: a success %+v", turn)
	}
}
