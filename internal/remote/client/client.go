// Package client is [contract.Runs] over the run API: HTTP for everything, SSE for events, over TCP
// or a unix socket. It decides nothing; errors come back with the kinds they had on the server.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

const (
	requestTime = time.Minute // for a whole exchange that is not a stream
	headerTime  = 30 * time.Second
	answerBytes = 32 << 20
	pageRuns    = 100
)

// Options say where the server is.
type Options struct {
	URL   string // base of the API, such as https://host:8443; a unix socket's is only a name
	Token string // API token, "" for a server that knows its callers by itself
	// Dial replaces the connection to the host of URL, for a unix socket.
	Dial      func(ctx context.Context) (net.Conn, error)
	TLS       *tls.Config // nil: the system's certificates
	UserAgent string
	Patience  time.Duration // how long a followed log may be unreachable; 0: five minutes
	Silence   time.Duration // how long a followed log may send nothing at all; 0: 45 s
}

// Client talks to one server. It is safe for concurrent use and starts no goroutine that outlives a
// call. Close releases its idle connections.
type Client struct {
	opt  Options
	base string
	http *http.Client
}

// New makes a client. It does not connect yet.
func New(opt Options) (*Client, error) {
	u, err := url.Parse(opt.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, contract.Errorf(contract.KindInvalid, "server address %q is not an http or https URL without credentials", opt.URL)
	}
	if opt.Patience == 0 {
		opt.Patience = 5 * time.Minute
	}
	if opt.Silence == 0 {
		opt.Silence = 45 * time.Second
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableCompression: true, ForceAttemptHTTP2: true,
		TLSClientConfig: opt.TLS, ResponseHeaderTimeout: headerTime, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
	}
	if opt.Dial != nil {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return opt.Dial(ctx) }
	}
	return &Client{
		opt: opt, base: strings.TrimSuffix(opt.URL, "/"),
		http: &http.Client{
			Transport: transport,
			// A redirect would carry the token, or a task, to where nobody said it should go.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close releases the idle connections. Calls under way go on.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// call is one request of the API.
type call struct {
	method, path string
	header       http.Header
	in           any // sent as JSON, nil for no body
	out          any // filled from the JSON of the answer, nil for none
}

// do makes one request and maps its error.
func (c *Client) do(ctx context.Context, q call) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTime, contract.Errorf(contract.KindUnavailable, "the server did not answer in %s", requestTime))
	defer cancel()
	resp, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := decodeAnswer(resp.Body, q.out); err != nil {
		if contract.KindOf(err) == contract.KindInternal {
			err = c.unreachable(ctx, err)
		}
		return err
	}
	return nil
}

// decodeAnswer reads the JSON of an answer; a nil out only reads it. An error without a kind is the
// connection's.
func decodeAnswer(r io.Reader, out any) error {
	b, err := io.ReadAll(io.LimitReader(r, answerBytes+1))
	switch {
	case err != nil:
		return err
	case len(b) > answerBytes:
		return contract.Errorf(contract.KindUpstream, "the server's answer is longer than %d bytes", answerBytes)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return contract.Errorf(contract.KindUpstream, "the server's answer is not what was expected: %w", err)
	}
	return nil
}

// send makes a request and gives the answer of a success; the caller closes its body.
func (c *Client) send(ctx context.Context, q call) (*http.Response, error) {
	var body io.Reader
	if q.in != nil {
		body = bytes.NewReader(contract.MarshalJSON(q.in))
	}
	req, err := http.NewRequestWithContext(ctx, q.method, c.base+q.path, body)
	if err != nil {
		return nil, contract.Errorf(contract.KindInvalid, "make request: %w", err)
	}
	for name, values := range q.header {
		req.Header[name] = values
	}
	if q.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.headers() {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, problemOf(resp)
	}
	return resp, nil
}

// headers are sent with every request.
func (c *Client) headers() map[string]string {
	h := map[string]string{}
	if c.opt.Token != "" {
		h["Authorization"] = "Bearer " + c.opt.Token
	}
	if c.opt.UserAgent != "" {
		h["User-Agent"] = c.opt.UserAgent
	}
	return h
}

// unreachable is the error of a request that got no answer: the caller's own cancel, or unavailable.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The URL of the request adds nothing for the reader, and hides the reason behind it.
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return contract.Errorf(contract.KindUnavailable, "reach %s: %w", c.opt.URL, err)
}

// problemOf maps an answer that is no success back to the error it stands for.
func problemOf(resp *http.Response) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var p contract.Problem
	if err == nil && media == contract.ProblemType && json.Unmarshal(b, &p) == nil && p.Code != "" {
		e := p.Err()
		if e.Kind == contract.KindInternal && p.Instance != "" {
			e.Message += " (" + contract.CleanText(p.Instance) + ")"
		}
		e.Message = contract.CleanText(e.Message)
		return e
	}
	// Not the run API: a proxy on the way, or another server.
	kind := contract.KindUpstream
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusProxyAuthRequired:
		kind = contract.KindUnauthorized
	case http.StatusForbidden:
		kind = contract.KindForbidden
	case http.StatusNotFound:
		kind = contract.KindNotFound
	case http.StatusTooManyRequests:
		kind = contract.KindTooManyRequests
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		kind = contract.KindUnavailable
	}
	return contract.Errorf(kind, "the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}

func runPath(id contract.RunID, parts ...string) string {
	p := "/v1/runs/" + url.PathEscape(string(id))
	for _, part := range parts {
		p += "/" + url.PathEscape(part)
	}
	return p
}

// Start implements [contract.Starter].
func (c *Client) Start(ctx context.Context, t contract.Task) (run contract.Run, err error) {
	q := call{method: http.MethodPost, path: "/v1/runs", in: t, out: &run, header: http.Header{}}
	if t.IdempotencyKey != "" {
		q.header.Set("Idempotency-Key", t.IdempotencyKey)
	}
	return run, c.do(ctx, q)
}

// Run implements [contract.Watcher].
func (c *Client) Run(ctx context.Context, id contract.RunID) (run contract.Run, err error) {
	return run, c.do(ctx, call{method: http.MethodGet, path: runPath(id), out: &run})
}

// Decide implements [contract.Steerer]. Who decides is the server's to say; d.By and d.At are not sent.
func (c *Client) Decide(ctx context.Context, id contract.RunID, approval string, d contract.Decision) error {
	in := struct {
		Decision contract.Verdict `json:"decision"`
		Note     string           `json:"note,omitempty"`
	}{d.Verdict, d.Note}
	return c.do(ctx, call{method: http.MethodPost, path: runPath(id, "approvals", approval), in: in})
}

// Cancel implements [contract.Steerer].
func (c *Client) Cancel(ctx context.Context, id contract.RunID, why string) error {
	in := struct {
		Reason string `json:"reason,omitempty"`
	}{why}
	return c.do(ctx, call{method: http.MethodPost, path: runPath(id, "cancel"), in: in})
}

// Send implements [contract.Steerer].
func (c *Client) Send(ctx context.Context, id contract.RunID, text string) error {
	in := struct {
		Text string `json:"text"`
	}{text}
	return c.do(ctx, call{method: http.MethodPost, path: runPath(id, "messages"), in: in})
}

// Remove implements [contract.Remover].
func (c *Client) Remove(ctx context.Context, id contract.RunID) error {
	return c.do(ctx, call{method: http.MethodDelete, path: runPath(id)})
}

// List implements [contract.Lister].
func (c *Client) List(ctx context.Context, f contract.Filter) iter.Seq2[contract.Run, error] {
	return func(yield func(contract.Run, error) bool) {
		query := url.Values{"limit": {strconv.Itoa(pageRuns)}}
		for _, s := range f.States {
			query.Add("status", string(s))
		}
		if f.Label != "" {
			query.Set("label", f.Label)
		}
		if f.Search != "" {
			query.Set("search", f.Search)
		}
		for n := 0; ; {
			var page struct {
				Runs       []contract.Run `json:"runs"`
				NextCursor string         `json:"nextCursor"`
			}
			if err := c.do(ctx, call{method: http.MethodGet, path: "/v1/runs?" + query.Encode(), out: &page}); err != nil {
				yield(contract.Run{}, err)
				return
			}
			for _, run := range page.Runs {
				// The API has no filter for a folder of the caller's machine.
				if f.Repository != "" && f.Repository != run.Repository {
					continue
				}
				if n++; !yield(run, nil) || f.Limit > 0 && n >= f.Limit {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			query.Set("cursor", page.NextCursor)
		}
	}
}

// Approvals gives the approvals of a run that nobody has decided, oldest first.
func (c *Client) Approvals(ctx context.Context, id contract.RunID) ([]contract.Approval, error) {
	var out struct {
		Pending []contract.Approval `json:"pending"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: runPath(id, "approvals"), out: &out})
	return out.Pending, err
}

// Artifacts implements [contract.Collector].
func (c *Client) Artifacts(ctx context.Context, id contract.RunID) ([]contract.Artifact, error) {
	var out struct {
		Artifacts []contract.Artifact `json:"artifacts"`
	}
	err := c.do(ctx, call{method: http.MethodGet, path: runPath(id, "artifacts"), out: &out})
	return out.Artifacts, err
}

// Artifact implements [contract.Collector]. The reader ends with an error when what came does not have
// the SHA-256 that the server named.
func (c *Client) Artifact(ctx context.Context, id contract.RunID, name string) (io.ReadCloser, error) {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: runPath(id, "artifacts", name)}) //nolint:bodyclose // the caller closes the reader it gets
	if err != nil {
		return nil, fmt.Errorf("read artifact %s: %w", name, err)
	}
	return verified(resp.Body, strings.Trim(resp.Header.Get("ETag"), `"`)), nil
}
