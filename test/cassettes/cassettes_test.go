package cassettes

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/anthropic"
	"github.com/rivumi/rivumi/internal/model/openai"
)

// The recordings' module, pinned: the counts below belong to it.
const (
	source   = "charm.land/fantasy@v0.41.2"
	leastNow = 300 // exchanges; fewer means that the test looks at the wrong place
)

type cassette struct {
	Interactions []struct {
		Request struct {
			URL string `yaml:"url"`
		} `yaml:"request"`
		Response struct {
			Body    string              `yaml:"body"`
			Code    int                 `yaml:"code"`
			Headers map[string][]string `yaml:"headers"`
		} `yaml:"response"`
	} `yaml:"interactions"`
}

type exchange struct {
	name, host, body, contentType string
	messages                      bool
}

// fetch brings the module and gives its folder. RIVUMI_CI=1 makes a failure of that a failure of the test.
func fetch(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", source).Output()
	var m struct{ Dir, Error string }
	if jerr := json.Unmarshal(out, &m); err != nil || jerr != nil || m.Dir == "" {
		text := fmt.Sprintf("the recordings cannot be fetched: %v %v %s", err, jerr, m.Error)
		if os.Getenv("RIVUMI_CI") == "1" {
			t.Fatal(text)
		}
		t.Skip("SKIPPED, NOTHING WAS CHECKED: " + text)
	}
	return m.Dir
}

func load(t *testing.T, dir string) []exchange {
	t.Helper()
	var out []exchange
	root := filepath.Join(dir, "providertests", "testdata")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var c cassette
		if err := yaml.Unmarshal(data, &c); err != nil {
			return nil // a body in another encoding; the count below tells when there are too many
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for i, x := range c.Interactions {
			u, err := url.Parse(x.Request.URL)
			if err != nil || x.Response.Code != http.StatusOK {
				continue
			}
			e := exchange{name: fmt.Sprintf("%s#%d", filepath.ToSlash(rel), i), host: u.Host, body: x.Response.Body, messages: strings.HasSuffix(u.Path, "/v1/messages")}
			if ct := x.Response.Headers["Content-Type"]; len(ct) > 0 {
				e.contentType = ct[0]
			}
			if e.messages || strings.HasSuffix(u.Path, "/chat/completions") {
				out = append(out, e)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// serve writes the body in random pieces, each flushed.
func serve(t *testing.T, e exchange, r *rand.Rand) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		w.Header().Set("Content-Type", e.contentType)
		for rest := e.body; rest != ""; {
			n := 1 + r.IntN(min(len(rest), 1+r.IntN(4000)))
			if _, err := io.WriteString(w, rest[:n]); err != nil {
				return
			}
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			rest = rest[n:]
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestRecordedExchanges(t *testing.T) {
	exchanges := load(t, fetch(t))
	hosts := map[string]int{}
	passed, calls := 0, 0
	for i, e := range exchanges {
		want, err := expect(e)
		if err != nil {
			t.Errorf("%s: the plain reading of the recording failed: %v", e.name, err)
			continue
		}
		s := serve(t, e, rand.New(rand.NewPCG(uint64(i), 7)))
		var m model.Model
		if e.messages {
			m, err = anthropic.New(anthropic.Options{BaseURL: s.URL})
		} else {
			m, err = openai.New(openai.Options{BaseURL: s.URL})
		}
		if err != nil {
			t.Fatal(err)
		}
		turn, err := model.Collect(t.Context(), m, model.Request{Model: "m", Messages: []model.Message{{Role: model.RoleUser, Text: "go"}}})
		s.Close()
		if err != nil {
			t.Errorf("%s (%s): %v", e.name, e.host, err)
			continue
		}
		if diff := want.diff(turn); diff != "" {
			t.Errorf("%s (%s): %s", e.name, e.host, diff)
			continue
		}
		passed++
		calls += len(turn.Calls)
		hosts[e.host]++
	}
	fmt.Printf("cassettes: %d of %d recorded exchanges passed, %d hosts, %d tool calls\n", passed, len(exchanges), len(hosts), calls)
	if len(exchanges) < leastNow {
		t.Errorf("only %d exchanges were found, at least %d are recorded", len(exchanges), leastNow)
	}
}

// reading is what a recording says, read without care for anything hostile.
type reading struct {
	text    string
	calls   []string
	finish  string
	in, out int64
}

func (w reading) diff(t *model.Turn) string {
	var calls []string
	for _, c := range t.Calls {
		if c.Bad != "" {
			return fmt.Sprintf("call %s is bad: %s", c.Name, c.Bad)
		}
		calls = append(calls, c.Name+canonical(string(c.Arguments)))
	}
	switch {
	case t.Text != w.text:
		return fmt.Sprintf("text %.120q, recorded %.120q", t.Text, w.text)
	case !slices.Equal(calls, w.calls):
		return fmt.Sprintf("calls %q, recorded %q", calls, w.calls)
	case !t.Usage.Known || t.Usage.Input+t.Usage.CacheRead+t.Usage.CacheWrite != w.in || t.Usage.Output != w.out:
		return fmt.Sprintf("usage %+v, recorded %d in %d out", t.Usage, w.in, w.out)
	}
	want := map[string]model.Finish{
		"stop": model.FinishStop, "end_turn": model.FinishStop, "tool_calls": model.FinishCalls, "tool_use": model.FinishCalls,
		"length": model.FinishLength, "max_tokens": model.FinishLength,
	}[w.finish]
	if len(calls) > 0 && want == model.FinishStop {
		want = model.FinishCalls
	}
	if t.Finish != want {
		return fmt.Sprintf("finish %q, recorded %q", t.Finish, w.finish)
	}
	return ""
}

// canonical spells JSON one way.
func canonical(s string) string {
	if s == "" {
		s = "{}"
	}
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return "NOT JSON " + s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "NOT JSON " + s
	}
	return string(b)
}
