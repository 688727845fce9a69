// Package anthropic speaks the Messages wire.
package anthropic

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/wire"
)

// API versions: the official service gets the newest one known here, gateways the oldest.
const (
	VersionOfficial = "2026-10-21"
	VersionGateway  = "2023-06-01"
)

// DefaultMaxTokens is the answer's token limit where a request has none; the wire needs one.
const DefaultMaxTokens = 8192

// Options of a model on this wire.
type Options struct {
	BaseURL   string
	Key       string // sent as x-api-key; "" sends none
	Bearer    bool   // send the key as a bearer token instead, as some gateways want
	Header    http.Header
	Version   string // anthropic-version; "" chooses by host
	MaxTokens int    // where a request has none; 0 is [DefaultMaxTokens]
	NoCache   bool   // send no cache breakpoints
	Wire      wire.Options
}

// Model is one endpoint. It is safe for concurrent use.
type Model struct {
	o        Options
	endpoint string
	client   *wire.Client
}

// New checks the base address and makes a model. It sends nothing.
func New(o Options) (*Model, error) {
	endpoint, err := wire.Endpoint(o.BaseURL, "messages")
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, &model.Error{Kind: model.ErrConfig, Code: "bad_url", Message: "the provider's address cannot be used"}
	}
	if o.Version == "" {
		o.Version = VersionGateway
		if u.Hostname() == "api.anthropic.com" {
			o.Version = VersionOfficial
		}
	}
	if o.MaxTokens <= 0 {
		o.MaxTokens = DefaultMaxTokens
	}
	o.Wire.Secret = o.Key
	return &Model{o: o, endpoint: endpoint, client: wire.NewClient(o.Wire)}, nil
}

// Endpoint is the full address requests go to.
func (m *Model) Endpoint() string { return m.endpoint }

// CloseIdle closes the connections no request uses.
func (m *Model) CloseIdle() { m.client.CloseIdle() }

// Stream implements [model.Model].
func (m *Model) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		out := &wire.Emitter{Yield: yield}
		payload, err := m.encode(r)
		if err != nil {
			out.Fail(&model.Error{Kind: model.ErrConfig, Message: "the request cannot be encoded", Err: err})
			return
		}
		reply, failed := m.client.Post(ctx, m.endpoint, m.header(), payload)
		if failed != nil {
			out.Fail(failed)
			return
		}
		defer reply.Close()
		a := &answer{reply: reply, out: out, request: r, blocks: map[int]*block{}}
		if reply.JSON != nil {
			a.whole(reply.JSON)
			return
		}
		a.stream()
	}
}

func (m *Model) header() http.Header {
	h := m.o.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("Anthropic-Version", m.o.Version)
	switch {
	case m.o.Key == "":
	case m.o.Bearer:
		h.Set("Authorization", "Bearer "+m.o.Key)
	default:
		h.Set("X-Api-Key", m.o.Key)
	}
	return h
}

// stream reads events to the end.
func (a *answer) stream() {
	for !a.out.Left {
		event, err := a.reply.Next()
		if errors.Is(err, io.EOF) {
			a.end()
			return
		}
		if err != nil {
			e, ok := model.AsError(err)
			if !ok {
				e = &model.Error{Kind: model.ErrTransport, Err: err}
			}
			if a.Finish != "" && e.Kind != model.ErrCanceled {
				a.Note("the connection broke after the stop reason")
				a.end()
				return
			}
			a.out.Fail(e)
			return
		}
		data := strings.TrimSpace(string(event.Data))
		if data == "" || data == "[DONE]" {
			continue
		}
		stopped, failed := a.event([]byte(data), event)
		if failed != nil {
			a.out.Fail(failed)
			return
		}
		if stopped {
			a.end()
			return
		}
	}
}
