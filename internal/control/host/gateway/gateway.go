// Package gateway makes the model calls of boxes: one configured upstream for each model name, its
// key in this process's memory only. What may be called, and how often, is decided by the control
// core before a call comes here; the gateway bounds, checks and redacts what comes back.
package gateway

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/model/redact"
	"github.com/rivumi/rivumi/internal/model/wire"
)

const (
	headerTime = 5 * time.Minute // until an upstream begins to answer
	idleTime   = 2 * time.Minute // between two pieces of an answer
	callTime   = 30 * time.Minute
	// anthropicVersion is the version of the Messages wire that this program speaks.
	anthropicVersion = "2023-06-01"
)

// Upstream is where the requests for one model name go.
type Upstream struct {
	Name  string       // as tasks name it
	Model string       // as the provider names it; "" is Name
	URL   string       // base address or whole route; https, or http on loopback
	Wire  control.Wire // the only wire that this model is served on
	Key   string       // the provider's key, "" for a provider that needs none
}

// upstream is a checked Upstream.
type upstream struct {
	Upstream
	address string
}

// Gateway forwards model calls. It is safe for concurrent use and starts no goroutine that outlives
// a call.
type Gateway struct {
	to      map[string]upstream
	client  *http.Client
	secrets *redact.Set
	idle    time.Duration
}

// New checks the upstreams: a name twice, an address that is not one, or a wire that is not known is
// KindInvalid.
func New(list []Upstream) (*Gateway, error) {
	g := &Gateway{to: map[string]upstream{}, idle: idleTime}
	keys := map[string]string{}
	for _, u := range list {
		route := "chat/completions"
		switch u.Wire {
		case control.WireChat:
		case control.WireMessages:
			route = "messages"
		default:
			return nil, contract.Errorf(contract.KindInvalid, "model %q: wire must be %s or %s", u.Name, control.WireChat, control.WireMessages)
		}
		address, err := wire.Endpoint(u.URL, route)
		if err != nil {
			return nil, contract.Errorf(contract.KindInvalid, "model %q: %w", u.Name, err)
		}
		if _, twice := g.to[u.Name]; twice || u.Name == "" {
			return nil, contract.Errorf(contract.KindInvalid, "model %q is configured twice or has no name", u.Name)
		}
		if u.Model == "" {
			u.Model = u.Name
		}
		g.to[u.Name] = upstream{Upstream: u, address: address}
		if u.Key != "" {
			keys["key of "+u.Name] = u.Key
		}
	}
	g.secrets = redact.New(keys)
	g.client = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DisableCompression: true, ForceAttemptHTTP2: true,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: headerTime,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		// A redirect would carry the key to where the operator did not send it.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return g, nil
}

// CloseIdle releases idle connections. Calls under way go on.
func (g *Gateway) CloseIdle() { g.client.CloseIdleConnections() }

// Forward implements the host's Forwarder: it makes the call and writes the answer. An error means
// that nothing was written. The outcome counts in every case: it names the call and, where the
// answer told it, what was used. Answers of other statuses than 200 are told as settled without use,
// because a provider charges nothing for them; a call whose answer broke off stays charged.
func (g *Gateway) Forward(ctx context.Context, call control.ForwardModel, w Writer) (control.Outcome, error) {
	out := control.Outcome{CallID: call.CallID}
	to, ok := g.to[call.Model]
	if !ok || to.Wire != call.Wire {
		out.Usage.Known = true
		return out, contract.Errorf(contract.KindInvalid, "the model of this run is not served on this route")
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	req, err := g.request(ctx, to, call)
	if err != nil {
		return out, err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return out, g.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	body := &idleReader{r: resp.Body, idle: g.idle, cancel: cancel}
	defer body.stop()
	switch {
	case resp.StatusCode == http.StatusOK && resp.ContentLength > call.MaxBytes:
		return out, tooLong(call)
	case resp.StatusCode != http.StatusOK:
		out.Usage.Known = true
		return out, g.refused(resp, body, w)
	case call.Streaming:
		return g.stream(call, body, w)
	default:
		return g.whole(call, body, w)
	}
}

// request builds the upstream request. Only here the key is attached.
func (g *Gateway) request(ctx context.Context, to upstream, call control.ForwardModel) (*http.Request, error) {
	body, err := rename(call.Body, to.Model)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.address, bytes.NewReader(body))
	if err != nil {
		return nil, contract.Errorf(contract.KindInternal, "make upstream request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if call.Streaming {
		req.Header.Set("Accept", "text/event-stream")
	}
	req.Header.Set("User-Agent", "rivumi")
	switch {
	case to.Wire == control.WireMessages:
		req.Header.Set("Anthropic-Version", anthropicVersion)
		if to.Key != "" {
			req.Header.Set("X-Api-Key", to.Key)
		}
	case to.Key != "":
		req.Header.Set("Authorization", "Bearer "+to.Key)
	}
	return req, nil
}

// unreachable tells of an upstream without an answer; its address stays with the operator.
func (g *Gateway) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return contract.Errorf(contract.KindUnavailable, "the model call was given up")
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	why := "the model's provider cannot be reached"
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		why = "the model's provider did not answer in time"
	}
	return contract.Errorf(contract.KindUpstream, "%s", why)
}

func tooLong(call control.ForwardModel) error {
	return contract.Errorf(contract.KindUpstream, "the model's answer is more than %d bytes", call.MaxBytes)
}
