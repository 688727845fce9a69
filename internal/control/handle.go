package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/token"
)

// visit is one request on its way through a handler.
type visit struct {
	c      *Core
	tx     Tx
	env    Env
	r      Request
	route  route
	m      Match
	claims token.Claims // of internal routes
}

// Handle decides one request over the records of the run that Route named, with the same env. For
// a Match without a run, tx is nil. A response of status 400 or more has no effects and the host
// rolls back; otherwise the effects are carried out after the commit.
func (c *Core) Handle(tx Tx, env Env, r Request) (Response, []Effect) {
	resp, effects, err := c.handle(tx, env, r)
	if err != nil {
		return Refuse(err, r.ID), nil
	}
	if r.ID != "" {
		resp.set("X-Request-Id", r.ID)
	}
	return resp, effects
}

func (c *Core) handle(tx Tx, env Env, r Request) (Response, []Effect, error) {
	v, err := c.visit(env, r)
	if err != nil {
		return Response{}, nil, err
	}
	v.tx = tx
	if err := v.admit(); err != nil {
		return Response{}, nil, err
	}
	return v.route.handle(v)
}

// admit checks what every route has in common: the bound and media type of the body, and that the
// run is the caller's.
func (v *visit) admit() error {
	if v.m.BodyBytes > 0 && int64(len(v.r.Body)) > v.m.BodyBytes {
		return TooLarge(v.m)
	}
	if v.m.BodyBytes > 0 && len(v.r.Body) > 0 && media(v.r.Header["content-type"]) != "application/json" {
		return contract.Errorf(contract.KindUnsupportedMedia, "the body must be application/json")
	}
	if v.m.Run == "" || v.route.Name == RouteCreate {
		return nil
	}
	en, err := v.c.open(v.tx, v.env)
	if err != nil {
		if v.route.Audience != "" && contract.KindOf(err) == contract.KindRunNotFound {
			return contract.Errorf(contract.KindInactiveToken, "run token is not active")
		}
		return err
	}
	if v.route.Audience != "" {
		return v.attempt(en)
	}
	b, err := en.base()
	if err != nil {
		return err
	}
	if b.Principal != v.r.Principal {
		return notFound()
	}
	return nil
}

// attempt refuses the tokens of ended runs and of other attempts, whatever their expiry.
func (v *visit) attempt(en *entry) error {
	err := en.fence(v.claims.Attempt)
	if err != nil && v.route.Audience == token.Model {
		return contract.Errorf(contract.KindInactiveToken, "run token is not active")
	}
	return err
}

// TooLarge is the refusal of a body above the bound of its route.
func TooLarge(m Match) error {
	return contract.Errorf(contract.KindTooLarge, "the body is more than %d bytes", m.BodyBytes)
}

// Refuse is the problem document of an error, for the refusals of Route and for a host's own. The
// request id becomes the instance; the text of an error without a kind is not shown.
func Refuse(err error, requestID string) Response {
	return problem(err, contract.ProblemOf(err, instance(requestID)), requestID)
}

func instance(requestID string) string {
	if requestID == "" {
		return ""
	}
	return "urn:request:" + requestID
}

// problem renders a problem document, which may be one with more members.
func problem(err error, document any, requestID string) Response {
	kind := contract.KindOf(err)
	resp := Response{Status: kind.Status(), Body: contract.MarshalJSON(document)}
	resp.set("Content-Type", contract.ProblemType)
	resp.set("Cache-Control", "no-store")
	if kind == contract.KindUnauthorized || kind == contract.KindInactiveToken {
		resp.set("WWW-Authenticate", "Bearer")
	}
	if kind == contract.KindTooManyRequests || kind == contract.KindUnavailable {
		resp.set("Retry-After", "1")
	}
	if m, ok := errors.AsType[methodError](err); ok {
		resp.set("Allow", m.allow)
	}
	if requestID != "" {
		resp.set("X-Request-Id", requestID)
	}
	return resp
}

// answer is a JSON response.
func answer(status int, v any) Response {
	resp := Response{Status: status, Body: contract.MarshalJSON(v)}
	resp.set("Content-Type", "application/json")
	resp.set("Cache-Control", "no-store")
	return resp
}

func (r *Response) set(name, value string) {
	if r.Header == nil {
		r.Header = map[string]string{}
	}
	r.Header[name] = value
}

// media gives the media type of a header, without its parameters.
func media(h string) string {
	m, _, _ := strings.Cut(h, ";")
	return strings.ToLower(strings.TrimSpace(m))
}

// body decodes the request's body strictly.
func body[T any](v *visit) (T, error) { return contract.Decode[T](v.r.Body) }

// optional decodes the request's body where there is one.
func optional[T any](v *visit) (T, error) {
	if len(v.r.Body) == 0 {
		var zero T
		return zero, nil
	}
	return body[T](v)
}

// plain decodes as body does, but takes a null member for one that is not there: runners written in
// Go send null for an empty list.
func plain[T any](v *visit) (T, error) {
	var zero T
	if !bytes.Contains(v.r.Body, []byte("null")) {
		return body[T](v)
	}
	if _, err := contract.Decode[map[string]json.RawMessage](v.r.Body); err != nil {
		return zero, err
	}
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(v.r.Body, []byte("\ufeff"))))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return zero, contract.Errorf(contract.KindInvalid, "decode body: %w", err)
	}
	return contract.Decode[T](contract.MarshalJSON(withoutNulls(tree)))
}

func withoutNulls(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, inner := range x {
			if inner == nil {
				delete(x, k)
				continue
			}
			x[k] = withoutNulls(inner)
		}
	case []any:
		for i := range x {
			x[i] = withoutNulls(x[i])
		}
	}
	return v
}

func (v *visit) notify(run contract.Run) Effect { return Notify{Run: run.ID, LastSeq: run.LastSeq} }
