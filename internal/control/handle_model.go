package control

import (
	"bytes"
	"encoding/hex"

	"github.com/rivumi/rivumi/internal/contract"
)

func (v *visit) chat() (Response, []Effect, error)     { return v.forward(WireChat) }
func (v *visit) messages() (Response, []Effect, error) { return v.forward(WireMessages) }

// forward is the model route. The order is fixed: the token was verified on the way here, the body
// is validated, one request is spent, and only then does the host attach a key and forward.
func (v *visit) forward(w Wire) (Response, []Effect, error) {
	p := v.c.cfg.Profile
	mb, err := readModelBody(w, v.r.Body, v.claims.Model)
	if err != nil {
		return Response{}, nil, err
	}
	id := v.r.Header["idempotency-key"]
	if id == "" {
		id = "once-" + hex.EncodeToString(v.env.Entropy[:16])
	}
	res, err := v.c.Reserve(v.tx, v.env, v.claims.Attempt, Call{
		ID: id, Model: v.claims.Model, MaxTokens: mb.maxTokens, PromptBytes: int64(len(v.r.Body)),
	})
	if err != nil {
		return Response{}, nil, err
	}
	if res.Repeated {
		return storedAnswer(res.Answer), nil, nil
	}
	streaming := mb.streaming && p.Streaming
	return Response{}, []Effect{ForwardModel{
		Run: v.m.Run, Attempt: v.claims.Attempt, CallID: id, Wire: w, Model: v.claims.Model,
		Body: mb.rewrite(res.MaxTokens, streaming), Streaming: streaming, MaxBytes: p.ModelResponseBytes,
	}}, nil
}

// storedAnswer gives a kept answer again, as what it was: a stream of events or one document.
func storedAnswer(b []byte) Response {
	resp := Response{Status: 200, Body: b}
	resp.set("Content-Type", "application/json")
	resp.set("Cache-Control", "no-store")
	if t := bytes.TrimSpace(b); bytes.HasPrefix(t, []byte("data:")) || bytes.HasPrefix(t, []byte("event:")) || bytes.HasPrefix(t, []byte(":")) {
		resp.set("Content-Type", "text/event-stream")
	}
	return resp
}

// Outcome is how a forwarded model call ended.
type Outcome struct {
	CallID string
	Usage  contract.ModelUsage // Known false: the call stays charged as reserved
	Answer []byte              // a successful answer's whole body; nil keeps none
}

// ModelReply settles a forwarded call. It is nil for a call nobody reserved.
func (c *Core) ModelReply(tx Tx, env Env, o Outcome) error {
	return c.Settle(tx, env, o.CallID, o.Usage, o.Answer)
}
