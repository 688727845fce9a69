package wire_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/wire"
)

func TestCF02BaseAddresses(t *testing.T) {
	for _, c := range []struct {
		want  string
		bases []string
	}{
		{"https://h.example/v1/chat/completions", []string{"https://h.example", "https://h.example/", "https://h.example/v1", "https://h.example/v1/", "https://h.example//v1//", "https://h.example/v1/chat/completions", "https://h.example/v1/chat/completions/", " https://h.example/v1 "}},
		{"https://h.example/openai/v1/chat/completions", []string{"https://h.example/openai", "https://h.example/openai/v1", "https://h.example/openai/v1/chat/completions"}},
		{"https://h.example/v1beta/openai/chat/completions", []string{"https://h.example/v1beta/openai", "https://h.example/v1beta/openai/"}},
		{"https://h.example/api/paas/v4/chat/completions", []string{"https://h.example/api/paas/v4"}},
		{"https://h.example/chat/completions", []string{"https://h.example/chat/completions"}},
		{"https://h.example/custom/chat/completions", []string{"https://h.example/custom/chat/completions"}},
		{"http://127.0.0.1:8080/v1/chat/completions", []string{"http://127.0.0.1:8080"}},
		{"http://[::1]:8080/v1/chat/completions", []string{"http://[::1]:8080/v1"}},
		{"http://localhost/v1/chat/completions", []string{"http://localhost"}},
	} {
		for _, base := range c.bases {
			if got, err := wire.Endpoint(base, "chat/completions"); err != nil || got != c.want {
				t.Errorf("%q gives %q, %v; want %q", base, got, err, c.want)
			}
		}
	}
	for _, bad := range []string{"", "h.example/v1", "http://h.example/v1", "http://localhost.evil.example", "https://h.example/v1?x=1", "https://h.example/v1#a", "https://u:p@h.example", "ftp://h.example", "https://", "mailto:a@b", "http://127.0.0.1.evil.example"} {
		got, err := wire.Endpoint(bad, "chat/completions")
		if e, ok := model.AsError(err); !ok || e.Kind != model.ErrConfig {
			t.Errorf("%q gives %q, %v", bad, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("the error shows user info: %v", err)
		}
	}
}

func TestErrorShapes(t *testing.T) {
	for body, want := range map[string]model.Error{
		`{"error":{"message":"m","type":"t","code":"c"}}`:                            {Kind: model.ErrStatus, Code: "c", Message: "m"},
		`{"error":{"message":"m","type":"t","code":null}}`:                           {Kind: model.ErrStatus, Code: "t", Message: "m"},
		`{"error":{"message":"m","code":502,"metadata":{"raw":"upstream said no"}}}`: {Kind: model.ErrStatus, Message: "m: upstream said no"},
		`{"error":"text"}`:                 {Kind: model.ErrStatus, Message: "text"},
		`{"message":"m"}`:                  {Kind: model.ErrStatus, Message: "m"},
		`{"error":{"message":{"deep":1}}}`: {Kind: model.ErrStatus, Message: `{"deep":1}`},
		`[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}]`:                                     {Kind: model.ErrStatus, Code: "RESOURCE_EXHAUSTED", Message: "m"},
		`{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}`:                        {Kind: model.ErrStatus, Code: "BadRequestError", Message: "m"},
		`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`:                                       {Kind: model.ErrStatus, Code: "overloaded_error", Message: "m"},
		`{"error":{"message":"prompt is too long: 5 tokens > 4 maximum"}}`:                                         {Kind: model.ErrContext, Message: "prompt is too long: 5 tokens > 4 maximum"},
		`{"type":"about:blank","title":"t","status":429,"code":"model_request_budget_exhausted","detail":"spent"}`: {Kind: model.ErrBudget, Code: "model_request_budget_exhausted", Message: "spent"},
		"plain\ntext": {Kind: model.ErrStatus, Message: "plain text"},
		"":            {Kind: model.ErrStatus, Message: "Bad Request"},
		`{"broken`:    {Kind: model.ErrStatus, Message: `{"broken`},
	} {
		got := wire.ParseError(400, http.Header{}, []byte(body))
		want.Status = 400
		if got.Kind != want.Kind || got.Code != want.Code || got.Message != want.Message || got.Status != want.Status {
			t.Errorf("%s\n got %+v\nwant %+v", body, got, &want)
		}
	}
}

func TestRetryAfterForms(t *testing.T) {
	for header, want := range map[string]time.Duration{"2": 2 * time.Second, "0.5": 500 * time.Millisecond, "-1": 0, "soon": 0, "": 0, "NaN": 0} {
		if got := wire.ParseError(429, http.Header{"Retry-After": {header}}, nil).RetryAfter; got != want {
			t.Errorf("%q: %s", header, got)
		}
	}
	date := time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat)
	if got := wire.ParseError(429, http.Header{"Retry-After": {date}}, nil).RetryAfter; got < 10*time.Second || got > 20*time.Second {
		t.Errorf("a date 20 s ahead: %s", got)
	}
}

func TestExcerpt(t *testing.T) {
	if got := wire.Excerpt("a\x1b[31m  b\n\u202ec", 50); got != `a\x1b[31m b \u{202E}c` {
		t.Errorf("%q", got)
	}
	if got := wire.Excerpt(strings.Repeat("é", 900), 120); len([]rune(got)) != 120 {
		t.Errorf("%d characters", len([]rune(got)))
	}
	if got := wire.Excerpt("<html><script>x()</script><p>Sign &amp; in</p>", 120); got != "Sign &amp; in" {
		t.Errorf("%q", got)
	}
}

func readAll(r io.Reader) (events []wire.Event, err error) {
	in := wire.NewEventReader(r)
	for {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

func TestEventReader(t *testing.T) {
	got, err := readAll(strings.NewReader("\ufeff: c\n\ndata: a\ndata:b\rdata:  c\r\n\r\nid: 7\nevent: x\n\nevent: y\ndata\n\ndata: last"))
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	if string(got[0].Data) != "a\nb\n c" || got[0].Type != "" || got[0].Open {
		t.Errorf("first %+v", got[0])
	}
	if got[1].Type != "y" || len(got[1].Data) != 0 {
		t.Errorf("second %+v", got[1])
	}
	if string(got[2].Data) != "last" || !got[2].Open {
		t.Errorf("third %+v", got[2])
	}
	broken := io.MultiReader(strings.NewReader("data: a\n\ndata: cut"), failing{})
	got, err = readAll(broken)
	if len(got) != 1 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken connection: %+v %v", got, err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// oneByte reads single bytes.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

// However the bytes arrive and whichever line ends they have, the events are the same.
func FuzzEventReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "data: a\r\n\r\ndata: b\r\r", ":\n\ndata\n\n", "\ufeffdata: x", "event: e\ndata: 1\ndata: 2\n\n", "\r\n\n\r"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := readAll(bytes.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		single, err := readAll(oneByte{bytes.NewReader(in)})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(whole, single, same) {
			t.Fatalf("whole %+v, by bytes %+v", whole, single)
		}
		lf := bytes.ReplaceAll(bytes.ReplaceAll(in, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
		plain, err := readAll(bytes.NewReader(lf))
		if err != nil || !slices.EqualFunc(whole, plain, same) {
			t.Fatalf("mixed line ends %+v, line feeds %+v, %v", whole, plain, err)
		}
	})
}

func same(a, b wire.Event) bool {
	return a.Type == b.Type && bytes.Equal(a.Data, b.Data) && a.Open == b.Open
}
