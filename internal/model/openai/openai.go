// Package openai speaks the Chat Completions wire with the official service and with the many
// servers that are compatible with it. What those do differently is held by small rules, not by
// switches: see the tests, which name the server of each.
package openai

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/wire"
)

// Reasoning says which of an answer's reasoning fields go back with the history.
type Reasoning string

// The ways to send reasoning back.
const (
	ReasoningOff     Reasoning = ""        // none: servers that know no such field stay content
	ReasoningContent Reasoning = "content" // reasoning_content on turns with calls, even when empty
	ReasoningDetails Reasoning = "details" // reasoning and reasoning_details
)

// Options of a model on this wire.
type Options struct {
	BaseURL   string
	Key       string // sent as a bearer token; "" sends none
	Header    http.Header
	Reasoning Reasoning
	// TokenField is max_tokens or max_completion_tokens. "" chooses by host; either way it is swapped
	// once, and remembered for the model, when the server refuses it.
	TokenField string
	CacheKey   bool // send prompt_cache_key; only the official service is known to take it
	Wire       wire.Options
}

// Model is one endpoint. It is safe for concurrent use.
type Model struct {
	o        Options
	endpoint string
	client   *wire.Client

	coded codedHistory

	mu     sync.Mutex
	learnt map[string]habits // by model name
}

// habits is what a server taught by refusing a request.
type habits struct {
	tokenField string
	noUsage    bool // stream_options was refused
}

// New checks the base address and makes a model. It sends nothing.
func New(o Options) (*Model, error) {
	endpoint, err := wire.Endpoint(o.BaseURL, "chat/completions")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, &model.Error{Kind: model.ErrConfig, Code: "bad_url", Message: "the provider's address cannot be used"}
	}
	official := u.Hostname() == "api.openai.com"
	if o.TokenField == "" {
		o.TokenField = "max_tokens"
		if official {
			o.TokenField = "max_completion_tokens"
		}
	}
	o.CacheKey = o.CacheKey || official
	o.Wire.Secret = o.Key
	return &Model{o: o, endpoint: endpoint, client: wire.NewClient(o.Wire), learnt: map[string]habits{}}, nil
}

// Endpoint is the full address requests go to.
func (m *Model) Endpoint() string { return m.endpoint }

// CloseIdle closes the connections no request uses.
func (m *Model) CloseIdle() { m.client.CloseIdle() }

// Stream implements [model.Model].
func (m *Model) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		out := &wire.Emitter{Yield: yield}
		reply, err := m.send(ctx, r)
		if err != nil {
			out.Fail(err)
			return
		}
		defer reply.Close()
		a := &answer{reply: reply, out: out, request: r}
		if reply.JSON != nil {
			a.whole(reply.JSON)
			return
		}
		a.stream()
	}
}

// send posts the request, at most three times: a server may refuse one field after the other.
func (m *Model) send(ctx context.Context, r model.Request) (*wire.Reply, *model.Error) {
	header := m.o.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if m.o.Key != "" {
		header.Set("Authorization", "Bearer "+m.o.Key)
	}
	for tries := 1; ; tries++ {
		h := m.habits(r.Model)
		payload, err := m.encode(r, h)
		if err != nil {
			return nil, &model.Error{Kind: model.ErrConfig, Message: "the request cannot be encoded", Err: err}
		}
		reply, failed := m.client.Post(ctx, m.endpoint, header, payload)
		if failed == nil {
			return reply, nil
		}
		if tries == 3 || !m.learn(r, h, failed) {
			return nil, failed
		}
	}
}

func (m *Model) habits(name string) habits {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h, ok := m.learnt[name]; ok {
		return h
	}
	return habits{tokenField: m.o.TokenField}
}

// learn reports whether a refusal named a field that can be spelled otherwise or left out.
func (m *Model) learn(r model.Request, used habits, failed *model.Error) bool {
	if failed.Status != 400 && failed.Status != 422 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, swapped := m.learnt[r.Model]
	next := used
	switch {
	case strings.Contains(failed.Message, "stream_options") && !used.noUsage:
		next.noUsage = true
	case r.MaxTokens > 0 && names(failed.Message, used.tokenField) && (!swapped || used.tokenField == m.o.TokenField):
		next.tokenField = "max_tokens"
		if used.tokenField == "max_tokens" {
			next.tokenField = "max_completion_tokens"
		}
	default:
		return false
	}
	m.learnt[r.Model] = next
	return true
}

// names reports whether a refusal is about the field itself, not about its value.
func names(message, field string) bool {
	text := strings.ToLower(message)
	if !strings.Contains(text, field) {
		return false
	}
	for _, sign := range []string{"unsupported", "not supported", "unrecognized", "unknown", "unexpected", "not permitted", "extra", "invalid parameter", "not allowed", "max_completion_tokens instead", "max_tokens instead", "use 'max", "no such"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// stream reads events to the end.
func (a *answer) stream() {
	for !a.out.Left {
		event, err := a.reply.Next()
		if errors.Is(err, io.EOF) {
			a.end(a.done, false)
			return
		}
		if err != nil {
			e, ok := model.AsError(err)
			if !ok {
				e = &model.Error{Kind: model.ErrTransport, Err: err}
			}
			if a.finished && e.Kind != model.ErrCanceled {
				a.Note("the connection broke after the finish reason")
				a.end(false, false)
				return
			}
			a.out.Fail(e)
			return
		}
		data := strings.TrimSpace(string(event.Data))
		if data == "[DONE]" {
			a.done = true
			a.end(true, false)
			return
		}
		if data == "" {
			continue
		}
		if failed := a.chunk([]byte(data), event.Open); failed != nil {
			a.out.Fail(failed)
			return
		}
	}
}
