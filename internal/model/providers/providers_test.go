package providers_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/providers"
	"github.com/rivumi/rivumi/internal/model/wire"
)

func keys(name string) string { return "key-of-" + name }

func TestOpenByName(t *testing.T) {
	script := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(script, []byte("turns: [{text: hi}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct{ model, endpoint string }{
		"openai/gpt-5.1":                      {"gpt-5.1", "https://api.openai.com/v1/chat/completions"},
		"anthropic/claude-sonnet-5":           {"claude-sonnet-5", "https://api.anthropic.com/v1/messages"},
		"openrouter/deepseek/deepseek-v4-pro": {"deepseek/deepseek-v4-pro", "https://openrouter.ai/api/v1/chat/completions"},
		"groq/openai/gpt-oss-20b":             {"openai/gpt-oss-20b", "https://api.groq.com/openai/v1/chat/completions"},
		"gemini/gemini-3.5-flash":             {"gemini-3.5-flash", "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"},
		"deepseek/deepseek-v4-flash":          {"deepseek-v4-flash", "https://api.deepseek.com/v1/chat/completions"},
		"ollama/qwen3:8b":                     {"qwen3:8b", "http://127.0.0.1:11434/v1/chat/completions"},
		"llamacpp/any":                        {"any", "http://127.0.0.1:8080/v1/chat/completions"},
		"lmstudio/any":                        {"any", "http://127.0.0.1:1234/v1/chat/completions"},
		"script:" + script:                    {script, script},
	} {
		_, info, err := providers.Open(name, providers.Settings{Key: keys})
		if err != nil || info.Model != want.model || info.Endpoint != want.endpoint {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}
}

func TestCF02ProviderURL(t *testing.T) {
	for _, base := range []string{"http://127.0.0.1:9", "http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1/chat/completions"} {
		_, info, err := providers.Open("house/special", providers.Settings{BaseURL: base})
		if err != nil || info.Endpoint != "http://127.0.0.1:9/v1/chat/completions" || info.Model != "house/special" || info.Provider != providers.Compatible {
			t.Errorf("%s: %+v, %v", base, info, err)
		}
	}
	_, info, err := providers.Open("compatible/special", providers.Settings{BaseURL: "http://127.0.0.1:9", Wire: providers.WireMessages})
	if err != nil || info.Endpoint != "http://127.0.0.1:9/v1/messages" || info.Model != "special" {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestRefusals(t *testing.T) {
	for name, want := range map[string]struct {
		s    providers.Settings
		code string
		text string
	}{
		"openai/gpt-5.1":  {providers.Settings{}, "no_key", "OPENAI_API_KEY"},
		"gpt-5.1":         {providers.Settings{}, "no_provider", "provider/model"},
		"nowhere/x":       {providers.Settings{}, "unknown_provider", "nowhere"},
		"openai/":         {providers.Settings{Key: keys}, "no_model", "provider/model"},
		"compatible/x":    {providers.Settings{}, "bad_url", "address"},
		"groq/x":          {providers.Settings{Key: keys, BaseURL: "http://example.com"}, "bad_url", "https"},
		"deepseek/x":      {providers.Settings{Key: keys, Reasoning: "loud"}, "bad_reasoning", "loud"},
		"script:/no/such": {providers.Settings{}, "bad_script", "no such"},
		"replay:/no/such": {providers.Settings{}, "bad_replay", "no such"},
	} {
		_, _, err := providers.Open(name, want.s)
		e, ok := model.AsError(err)
		if !ok || e.Kind != model.ErrConfig || e.Code != want.code || !strings.Contains(e.Message, want.text) {
			t.Errorf("%s: %v", name, err)
		}
		if ok && e.Credentials() != (want.code == "no_key") {
			t.Errorf("%s: credentials %t", name, e.Credentials())
		}
	}
}

// route sends local servers' addresses to test servers by port; the others are refused.
func route(servers map[string]string) wire.Options {
	return wire.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if to, ok := servers[port]; ok {
			addr = to
		} else {
			addr = "127.0.0.1:1"
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
}

func TestListTellsWhatIsUsableAndWhyNot(t *testing.T) {
	ollama := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if _, err := io.WriteString(w, `{"data":[{"id":"qwen3:8b"}]}`); err != nil {
			t.Log(err)
		}
	}))
	defer ollama.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	s := providers.Settings{
		HTTP: route(map[string]string{"11434": ollama.Listener.Addr().String(), "8080": silent.Listener.Addr().String()}),
		Key: func(name string) string {
			if name == "GROQ_API_KEY" {
				return "k"
			}
			return ""
		},
	}
	begin := time.Now()
	got := map[string]providers.Status{}
	for _, st := range providers.List(t.Context(), s) {
		got[st.Provider.Name] = st
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("listing took %s", d)
	}
	if st := got["ollama"]; !st.Usable || len(st.Models) != 1 || st.Models[0] != "qwen3:8b" {
		t.Errorf("ollama %+v", st)
	}
	for _, name := range []string{"llamacpp", "lmstudio"} {
		if st := got[name]; st.Usable || !strings.Contains(st.Why, "no server answers at http://127.0.0.1:") {
			t.Errorf("%s %+v", name, st)
		}
	}
	if st := got["groq"]; !st.Usable || len(st.Models) == 0 {
		t.Errorf("groq %+v", st)
	}
	if st := got["openai"]; st.Usable || st.Why != "OPENAI_API_KEY is not set" {
		t.Errorf("openai %+v", st)
	}
}
