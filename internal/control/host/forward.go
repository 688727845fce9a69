package host

import (
	"context"
	"net/http"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/token"
)

// Forwarder makes the model calls of boxes. Forward writes the answer to w, or gives an error when it
// has written nothing; the outcome counts in both cases.
type Forwarder interface {
	Forward(ctx context.Context, call control.ForwardModel, w Answer) (control.Outcome, error)
}

// Answer takes what a forwarded call answers: Begin once, then the body.
type Answer = interface {
	Begin(status int, header map[string]string)
	Write(p []byte) (int, error)
}

// forward makes a reserved model call and settles it before its end shows, so that whoever sees the
// whole answer and repeats the call finds it.
func (v *visit) forward(ctx context.Context, e control.ForwardModel) {
	to := v.s.opt.Forwarder
	out := control.Outcome{CallID: e.CallID}
	var err error
	if to == nil {
		out.Usage.Known = true
		err = contract.Errorf(contract.KindUnavailable, "this place serves no models")
	}
	w := &forwarded{v: v}
	if err == nil {
		out, err = to.Forward(ctx, e, w)
	}
	v.settle(e, out)
	switch {
	case err != nil:
		v.refuse(err)
	case !e.Streaming || len(w.held) > 0:
		w.flush()
	}
}

// settle writes what a call used, whatever became of its caller.
func (v *visit) settle(e control.ForwardModel, out control.Outcome) {
	err := v.s.persist(finishTries, func(ctx context.Context) error {
		return v.s.update(ctx, e.Run, func(tx control.Tx, env control.Env) error {
			return v.s.core.ModelReply(tx, env, out)
		})
	})
	if err != nil && contract.KindOf(err) != contract.KindRunNotFound {
		v.s.log.Error("settle model call", "run", e.Run, "error", err) // it stays charged as reserved
	}
}

// forwarded is the response of a model call. A streamed answer goes out as it comes; one in a single
// piece is held until it is settled.
type forwarded struct {
	v      *visit
	status int
	header map[string]string
	held   []byte
	stream bool
}

// Begin implements [Answer].
func (f *forwarded) Begin(status int, header map[string]string) {
	f.status, f.header = status, header
	if f.stream = header["Content-Type"] == "text/event-stream"; f.stream {
		f.v.head(control.Response{Status: status, Header: header})
	}
}

// Write implements [Answer].
func (f *forwarded) Write(p []byte) (int, error) {
	if !f.stream {
		f.held = append(f.held, p...)
		return len(p), nil
	}
	f.v.writable()
	n, err := f.v.w.Write(p)
	if err == nil {
		err = f.v.out.Flush()
	}
	return n, err
}

// flush answers with what was held.
func (f *forwarded) flush() {
	if f.stream || f.status == 0 {
		return
	}
	f.v.answer(control.Response{Status: f.status, Header: f.header, Body: f.held})
}

// BoxHandler serves the internal routes alone, to the box of one run over that run's own channel: a
// run token must agree with the channel it comes over (api.md, Tokens).
func (s *Service) BoxHandler(run contract.RunID) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{s: s, w: w, r: r, out: http.NewResponseController(w), channel: run}
		v.serve(func(*http.Request) (string, error) { return "", nil })
	})
}

// Arm opens the model capability of a claimed run and mints the run tokens of its attempt, for a box
// that is about to start. A second call for the same attempt is KindConflict.
func (s *Service) Arm(ctx context.Context, run contract.Run) (tokens map[token.Audience]string, err error) {
	err = s.update(ctx, run.ID, func(tx control.Tx, env control.Env) error {
		if err := s.core.Activate(tx, env, run.Attempt, control.Grant{}); err != nil {
			return err
		}
		tokens, err = s.core.Tokens(env, run, 0)
		return err
	})
	return tokens, err
}

// Mint gives a running attempt further run tokens, at most as long-lived as so long from now.
func (s *Service) Mint(run contract.Run, life time.Duration) (map[token.Audience]string, error) {
	env, err := s.env()
	if err != nil {
		return nil, err
	}
	return s.core.Tokens(env, run, life)
}
