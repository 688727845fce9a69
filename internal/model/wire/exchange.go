package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/model"
)

// maxErrorBody is how much of a failed answer is read, in bytes.
const maxErrorBody = 64 << 10

// Options of a [Client]; zero values give the defaults.
type Options struct {
	BytesIdle     time.Duration // longest silence of the connection: 60 s
	ProgressIdle  time.Duration // longest wait without any part of the answer, comments and pings aside: 300 s
	HeaderTimeout time.Duration // longest wait for the response header: 120 s
	UserAgent     string
	Secret        string // taken out of every message of a provider

	Proxy func(*http.Request) (*url.URL, error)                             // nil: no proxy
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error) // nil: a plain dialer
}

// Client sends model requests. It follows no redirect and is safe for concurrent use.
type Client struct {
	o    Options
	http *http.Client
}

// NewClient makes a client with its own connection pool.
func NewClient(o Options) *Client {
	o.BytesIdle = orElse(o.BytesIdle, 60*time.Second)
	o.ProgressIdle = orElse(o.ProgressIdle, 300*time.Second)
	o.HeaderTimeout = orElse(o.HeaderTimeout, 120*time.Second)
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return &Client{o: o, http: &http.Client{
		Transport: &http.Transport{
			Proxy: o.Proxy, DialContext: o.Dial, ForceAttemptHTTP2: true, DisableCompression: true,
			ResponseHeaderTimeout: o.HeaderTimeout, TLSHandshakeTimeout: 15 * time.Second,
			MaxIdleConnsPerHost: 4, IdleConnTimeout: 60 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func orElse(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// CloseIdle closes the connections no request uses.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// Reply is an answer under way: either one JSON document or a stream of events. The caller closes it.
type Reply struct {
	JSON   []byte // the whole answer where it was JSON; nil for a stream
	Header http.Header

	c      *Client
	parent context.Context
	body   *body
	events *EventReader
	close  func()
}

// Post sends body as JSON and waits for the head of the answer. Whatever is not a 200 with JSON or
// with an event stream is an error.
func (c *Client) Post(ctx context.Context, address string, header http.Header, payload []byte) (*Reply, *model.Error) {
	inner, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(inner, http.MethodPost, address, bytes.NewReader(payload))
	if err != nil {
		cancel(nil)
		return nil, &model.Error{Kind: model.ErrConfig, Message: "the provider's address cannot be used"}
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	if c.o.UserAgent != "" {
		req.Header.Set("User-Agent", c.o.UserAgent)
	}
	resp, err := c.http.Do(req) //nolint:bodyclose // the reply owns the body and its Close closes it
	if err != nil {
		cancel(nil)
		return nil, c.transport(ctx, inner, err)
	}
	r := &Reply{c: c, parent: ctx, Header: resp.Header}
	r.body = &body{from: resp.Body, ctx: inner, cancel: cancel, o: c.o}
	r.close = func() {
		cancel(nil)
		// The stream was given up on purpose; its close has nothing to tell.
		_ = resp.Body.Close()
	}
	if e := r.open(resp); e != nil {
		r.Close()
		return nil, e
	}
	return r, nil
}

// Close ends the exchange.
func (r *Reply) Close() { r.close() }

// open decides what the answer is: by status, then content type, then first byte.
func (r *Reply) open(resp *http.Response) *model.Error {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(r.body, maxErrorBody))
		if err != nil && r.parent.Err() != nil {
			return model.Canceled(r.parent)
		}
		e := ParseError(resp.StatusCode, resp.Header, text)
		if resp.StatusCode/100 == 3 {
			e.Message = "the provider answered with a redirect, and redirects are not followed"
		}
		return r.c.clean(e)
	}
	in := bufio.NewReader(r.body)
	first, readErr := firstByte(in)
	switch {
	case kind == "text/html" || kind == "application/xhtml+xml" || first == '<':
		text, err := io.ReadAll(io.LimitReader(in, 4<<10))
		if err != nil && r.parent.Err() != nil {
			return model.Canceled(r.parent)
		}
		return r.c.clean(&model.Error{Kind: model.ErrProtocol, Status: 200, Code: "html", Message: "the address answered with a web page: " + Excerpt(string(text), 120)})
	case first == '{' || first == '[':
		return r.readJSON(in)
	case readErr != nil && !errors.Is(readErr, io.EOF):
		return r.c.clean(r.failed(readErr))
	case readErr != nil:
		return &model.Error{Kind: model.ErrEmpty, Message: "the answer was empty"}
	}
	r.events = NewEventReader(in)
	return nil
}

func (r *Reply) readJSON(in io.Reader) *model.Error {
	data, err := io.ReadAll(in)
	if err != nil {
		return r.c.clean(r.failed(err))
	}
	r.JSON = data
	return nil
}

// firstByte looks at the first byte that is neither white space nor part of a byte-order mark.
func firstByte(in *bufio.Reader) (byte, error) {
	for n := 1; n <= 1024; n++ {
		buf, err := in.Peek(n)
		if len(buf) < n {
			if errors.Is(err, io.EOF) && n > 1 {
				return 0, io.EOF
			}
			return 0, err
		}
		switch b := buf[n-1]; b {
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf:
		default:
			return b, nil
		}
	}
	return 0, nil
}

// Next gives the next event, io.EOF at a clean end, else a *model.Error.
func (r *Reply) Next() (Event, error) {
	e, err := r.events.Next()
	if err == nil || errors.Is(err, io.EOF) {
		return e, err
	}
	return Event{}, r.c.clean(r.failed(err))
}

// Progress tells the clocks that a part of the answer arrived.
func (r *Reply) Progress() { r.body.progress() }

// Hurry shortens the wait for more bytes once the answer has all that matters.
func (r *Reply) Hurry() { r.body.o.BytesIdle = min(r.body.o.BytesIdle, 5*time.Second) }

// Fault turns an error object that stood inside the answer into an error.
func (r *Reply) Fault(kind model.ErrorKind, document []byte) *model.Error {
	e := ParseError(0, r.Header, document)
	if e.Kind == model.ErrStatus {
		e.Kind = kind
	}
	return r.c.clean(e)
}

// failed classifies an error of reading the body.
func (r *Reply) failed(err error) *model.Error {
	if e, ok := model.AsError(err); ok {
		return e
	}
	if r.parent.Err() != nil {
		return model.Canceled(r.parent)
	}
	switch cause := context.Cause(r.body.ctx); {
	case errors.Is(cause, errNoBytes):
		return &model.Error{Kind: model.ErrIdle, Code: "bytes", Message: "the provider sent nothing for " + r.c.o.BytesIdle.String(), Err: cause}
	case errors.Is(cause, errNoProgress):
		return &model.Error{Kind: model.ErrIdle, Code: "progress", Message: "the provider sent no part of the answer for " + r.c.o.ProgressIdle.String(), Err: cause}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &model.Error{Kind: model.ErrTruncated, Message: "the connection closed before the answer was complete", Err: err}
	}
	return &model.Error{Kind: model.ErrTransport, Message: "the connection broke during the answer: " + err.Error(), Err: err}
}

// transport classifies an error of sending the request.
func (c *Client) transport(parent, inner context.Context, err error) *model.Error {
	if parent.Err() != nil {
		return model.Canceled(parent)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) { // its text has the whole address
		err = wrapped.Err
	}
	e := &model.Error{Kind: model.ErrTransport, Message: err.Error(), Err: err}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() && strings.Contains(err.Error(), "awaiting response headers") {
		e.Kind, e.Code, e.Message = model.ErrIdle, "header", "the provider did not begin to answer within "+c.o.HeaderTimeout.String()
	}
	return c.clean(e)
}

// clean bounds the message and takes the key out of it.
func (c *Client) clean(e *model.Error) *model.Error {
	if s := c.o.Secret; len(s) >= 4 {
		e.Message = strings.ReplaceAll(e.Message, s, "[redacted:key]")
		e.Code = strings.ReplaceAll(e.Code, s, "[redacted:key]")
		if e.Err != nil && strings.Contains(e.Err.Error(), s) {
			e.Err = nil
		}
	}
	e.Message = Excerpt(e.Message, 500)
	return e
}
