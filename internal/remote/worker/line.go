package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

const (
	exchangeTime = time.Minute
	answerBytes  = 8 << 20
	firstWait    = 50 * time.Millisecond
	longestWait  = 2 * time.Second
)

// line is the HTTP of a box's channel.
type line struct{ http *http.Client }

func newLine(dial Dial) *line {
	return &line{http: &http.Client{
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
			ResponseHeaderTimeout: exchangeTime, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (l *line) close() { l.http.CloseIdleConnections() }

// exchange is one request.
type exchange struct {
	method, path, query, token string

	header http.Header
	in     any              // sent as JSON
	body   func() io.Reader // sent as it is; asked for each attempt
	out    any
}

// patient makes a request until it is answered by a control plane, or ctx ends.
func (l *line) patient(ctx context.Context, q exchange) error {
	for n := 0; ; n++ {
		err := l.once(ctx, q)
		if !transient(err) {
			return err
		}
		if perr := pause(ctx, n); perr != nil {
			return perr
		}
	}
}

// once makes a request and reads its answer.
func (l *line) once(ctx context.Context, q exchange) error {
	ctx, cancel := context.WithTimeoutCause(ctx, exchangeTime, contract.Errorf(contract.KindUnavailable, "no answer in %s", exchangeTime))
	defer cancel()
	resp, err := l.do(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	if err != nil {
		return unavailable(ctx, err)
	}
	if q.out == nil {
		return nil
	}
	if err := json.Unmarshal(b, q.out); err != nil {
		return contract.Errorf(contract.KindUpstream, "read the answer to %s: %w", q.path, err)
	}
	return nil
}

// do makes a request and gives the answer of a success; the caller closes its body.
func (l *line) do(ctx context.Context, q exchange) (*http.Response, error) {
	var body io.Reader
	if q.in != nil {
		body = bytes.NewReader(contract.MarshalJSON(q.in))
	} else if q.body != nil {
		body = q.body()
	}
	address := "http://localhost" + q.path
	if q.query != "" {
		address += "?" + q.query
	}
	req, err := http.NewRequestWithContext(ctx, q.method, address, body)
	if err != nil {
		return nil, contract.Errorf(contract.KindInvalid, "make request: %w", err)
	}
	for name, values := range q.header {
		req.Header[name] = values
	}
	if q.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+q.token)
	resp, err := l.http.Do(req)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, problem(resp)
}

// unavailable is the error of a request without an answer: the cause of ctx, or the channel.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return contract.Errorf(contract.KindUnavailable, "reach the control plane: %w", err)
}

func problem(resp *http.Response) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // "" matches nothing
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var p contract.Problem
	if err == nil && media == contract.ProblemType && json.Unmarshal(b, &p) == nil && p.Code != "" {
		return p.Err()
	}
	return contract.Errorf(contract.KindUnavailable, "the control plane answered %d", resp.StatusCode)
}

// transient reports whether asking again may help.
func transient(err error) bool {
	switch contract.KindOf(err) {
	case contract.KindUnavailable, contract.KindTooManyRequests:
		return true
	case contract.KindInternal:
		_, answered := errors.AsType[*contract.Error](err)
		return answered // a fault of the control plane, not of this side
	default:
		return false
	}
}

// pause waits before attempt n+2, longer each time, with a part of it left to chance so that the
// boxes of a restarted control plane do not come back at once. It gives the cause of ctx.
func pause(ctx context.Context, n int) error {
	wait := min(longestWait, firstWait<<min(n, 10))
	wait = wait/2 + time.Duration(rand.Int64N(int64(wait)))
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func itoa[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }
