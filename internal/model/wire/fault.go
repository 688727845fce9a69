package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

// fault is an error document in the shapes that providers use.
type fault struct {
	Type    string          `json:"type"`
	Object  string          `json:"object"`
	Error   json.RawMessage `json:"error"`
	Message json.RawMessage `json:"message"`
	Detail  json.RawMessage `json:"detail"`
	Code    json.RawMessage `json:"code"`
	Status  json.RawMessage `json:"status"`
	Failed  string          `json:"failed_generation"`
	Meta    struct {
		Raw json.RawMessage `json:"raw"`
	} `json:"metadata"`
}

// statusOf gives the HTTP status that stands for an error type where there is no status line.
var statusOf = map[string]int{
	"overloaded_error": 529, "rate_limit_error": 429, "rate_limit_exceeded": 429, "api_error": 500, "server_error": 500,
	"internal_server_error": 500, "internal_error": 500, "timeout_error": 504, "invalid_request_error": 400, "authentication_error": 401,
	"permission_error": 403, "not_found_error": 404, "billing_error": 402, "request_too_large": 413, "service_unavailable": 503,
	"RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503, "INTERNAL": 500, "insufficient_quota": 429,
}

// ParseError makes an error of a failed answer: objects and strings under "error", bare objects,
// arrays of them, {"object":"error"}, web pages, plain text. status 0 means that the document stood
// inside a stream or a 200. An error about the size of the prompt has kind ErrContext, a control
// plane's refusal for a spent budget ErrBudget.
func ParseError(status int, header http.Header, document []byte) *model.Error {
	e := &model.Error{Kind: model.ErrStatus, Status: status, RetryAfter: retryAfter(header, time.Now())}
	text := bytes.TrimSpace(document)
	if bytes.HasPrefix(text, []byte("[")) {
		var list []json.RawMessage
		if json.Unmarshal(text, &list) == nil && len(list) > 0 {
			text = list[0]
		}
	}
	var f fault
	if bytes.HasPrefix(text, []byte("{")) && lenient(text, &f) {
		f.into(e)
	} else {
		e.Message = plainText(string(text))
	}
	if e.Status == 0 {
		e.Status = statusOf[e.Code]
	}
	if e.Message == "" && status != 0 {
		e.Message = http.StatusText(status)
	}
	e.Message, e.Code = Excerpt(e.Message, 500), Excerpt(e.Code, 80)
	switch contract.Kind(e.Code) {
	case contract.KindBudgetExhausted, contract.KindTokensExhausted, contract.KindCostExhausted:
		e.Kind = model.ErrBudget // a control plane's word: another attempt cannot help
		return e
	default:
	}
	if overflow(e) {
		e.Kind = model.ErrContext
	}
	return e
}

// lenient decodes what it can: a field of an unexpected type does not hide the others.
func lenient(data []byte, f *fault) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return false
	}
	f.Error, f.Message, f.Detail, f.Code, f.Status = fields["error"], fields["message"], fields["detail"], fields["code"], fields["status"]
	f.Type, f.Object, f.Failed = word(fields["type"]), word(fields["object"]), word(fields["failed_generation"])
	var meta map[string]json.RawMessage
	if json.Unmarshal(fields["metadata"], &meta) == nil {
		f.Meta.Raw = meta["raw"]
	}
	return true
}

// into fills e, from the inner error object where there is one.
func (f fault) into(e *model.Error) {
	inner := bytes.TrimSpace(f.Error)
	switch {
	case bytes.HasPrefix(inner, []byte("{")):
		var in fault
		if lenient(inner, &in) {
			in.into(e)
			return
		}
	case len(inner) > 0 && !bytes.Equal(inner, []byte("null")):
		e.Message = word(inner)
	}
	for _, m := range []json.RawMessage{f.Message, f.Detail} {
		if e.Message == "" && len(m) > 0 && !bytes.Equal(m, []byte("null")) {
			e.Message = word(m)
		}
	}
	if f.Failed != "" {
		e.Message += ": " + f.Failed
	}
	if raw := word(f.Meta.Raw); raw != "" {
		e.Message += ": " + raw
	}
	for _, c := range []string{word(f.Code), word(f.Status), f.Type} {
		n, err := strconv.Atoi(c)
		switch {
		case c == "" || c == "error" || c == "null":
		case err == nil:
			if e.Status == 0 && n >= 400 && n < 600 {
				e.Status = n
			}
		case e.Code == "":
			e.Code = c
		}
	}
	if f.Type == "insufficient_quota" {
		e.Code = f.Type
	}
	if e.Status == 0 {
		e.Status = statusOf[f.Type]
	}
}

// word gives a JSON string's text, or the JSON itself for other values.
func word(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

var overflowText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)context_length|context length|context window|maximum context|prompt is too long|` +
		`available context size|input token count .{0,40}exceeds|reduce the length of the messages|input is too long|exceeds the model.s context|request_too_large`)
})

// overflow reports whether an error says that the prompt does not fit.
func overflow(e *model.Error) bool {
	if e.Status == 429 || e.Status == 401 || e.Status == 403 {
		return false
	}
	if strings.Contains(e.Message, "tokens per minute") || e.Code == "rate_limit_exceeded" {
		return false
	}
	return e.Code == "context_length_exceeded" || e.Code == "exceed_context_size_error" || e.Code == "request_too_large" || overflowText().MatchString(e.Message)
}

// retryAfter reads the wait a provider asks for: milliseconds, seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e12 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e9 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

var (
	tags = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?s)<(script|style)\b.*?</(script|style)>|<[^>]*>?`)
	})
	spaces = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\s+`)
	})
	isPage = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)^\s*<(!doctype|html|head|body|\?xml)`)
	})
	dotDots = "…"
)

// plainText takes the tags out of a web page.
func plainText(s string) string {
	if isPage().MatchString(s) {
		return tags().ReplaceAllString(s, " ")
	}
	return s
}

// Excerpt makes untrusted text one clean line of at most limit characters.
func Excerpt(s string, limit int) string {
	if len(s) > 16*limit {
		s = s[:16*limit]
	}
	s = contract.CleanText(strings.TrimSpace(spaces().ReplaceAllString(plainText(s), " ")))
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	return string([]rune(s)[:limit-1]) + dotDots
}
