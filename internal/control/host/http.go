package host

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

const (
	bodyTime  = time.Minute      // to send the body of a request
	writeTime = 30 * time.Second // for one write of an answer, however long the answer is
)

// Authenticate names the principal of a request by its API token, "" for nobody.
type Authenticate func(r *http.Request) (principal string, err error)

// Handler serves the run API over the runs of this service. Everything that is decided about a
// request is the core's; this adapter bounds, reads, calls, writes and carries out effects. It may
// serve a unix socket or TCP. Its answers end when their run does, when the client goes, or when the
// service stops.
func (s *Service) Handler(authenticate Authenticate) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{s: s, w: w, r: r, out: http.NewResponseController(w)}
		v.serve(authenticate)
	})
}

// visit is one request on its way through the adapter.
type visit struct {
	s   *Service
	w   http.ResponseWriter
	r   *http.Request
	out *http.ResponseController
	req control.Request
	env control.Env
	m   control.Match
	// channel is the run whose own channel the request came over, "" for any other.
	channel contract.RunID
}

// errRolledBack undoes the transaction of a refused request; the refusal itself is the response.
var errRolledBack = errors.New("request refused")

func (v *visit) serve(authenticate Authenticate) {
	ctx := v.r.Context()
	env, err := v.s.env()
	if err != nil {
		v.refuse(err)
		return
	}
	v.env = env
	v.req = control.Request{
		Method: v.r.Method, Path: v.r.URL.Path, Query: v.r.URL.RawQuery, Header: lowerHeader(v.r.Header), ID: requestID(v.r, env),
	}
	v.req.ChannelRun = v.channel
	if v.channel != "" && !strings.HasPrefix(v.req.Path, "/internal/") {
		v.refuse(contract.Errorf(contract.KindNotFound, "no such route"))
		return
	}
	if v.req.Principal, err = authenticate(v.r); err != nil && !strings.HasPrefix(v.req.Path, "/internal/") {
		v.refuse(err)
		return
	}
	if v.m, err = v.s.core.Route(env, v.req); err == nil {
		err = v.readBody()
	}
	if err == nil && v.m.Route == control.RouteCreate {
		if err = v.s.accepting(ctx); err == nil {
			err = v.s.roomFor(v.req.Principal)
		}
	}
	if err != nil {
		v.refuse(err)
		return
	}
	resp, effects, err := v.decide(ctx)
	if err != nil {
		v.refuse(err)
		return
	}
	v.carryOut(ctx, resp, effects)
}

// readBody reads as much of the body as the route takes. What Content-Length says does not count.
func (v *visit) readBody() error {
	if v.m.Streams {
		return nil
	}
	_ = v.out.SetReadDeadline(time.Now().Add(bodyTime)) // not every test recorder has one
	body, err := io.ReadAll(http.MaxBytesReader(v.w, v.r.Body, v.m.BodyBytes))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return control.TooLarge(v.m)
	}
	if err != nil {
		return contract.Errorf(contract.KindInvalid, "the body could not be read")
	}
	_ = v.out.SetReadDeadline(time.Time{})
	v.req.Body = body
	return nil
}

// decide runs the core over the records of the run, in one transaction.
func (v *visit) decide(ctx context.Context) (resp control.Response, effects []control.Effect, err error) {
	if v.m.Run == "" {
		resp, effects = v.s.core.Handle(nil, v.env, v.req)
		return resp, effects, nil
	}
	call := func(tx control.Tx) error {
		resp, effects = v.s.core.Handle(tx, v.env, v.req)
		if resp.Status >= 400 {
			return errRolledBack
		}
		return v.hostRecords(tx, effects)
	}
	if v.m.Writes {
		err = v.s.store.Update(ctx, v.m.Run, call)
	} else {
		err = v.s.store.View(ctx, v.m.Run, call)
	}
	if errors.Is(err, errRolledBack) {
		return resp, nil, nil
	}
	if err == nil && v.m.Writes {
		v.s.ring(v.m.Run)
	}
	return resp, effects, err
}

// hostRecords keeps the host's own records of a run in the same transaction as the decision.
func (v *visit) hostRecords(tx control.Tx, effects []control.Effect) error {
	switch v.m.Route {
	case control.RouteCreate:
		for _, e := range effects {
			if _, starts := e.(control.StartRun); starts {
				return v.ownNew(tx)
			}
		}
	case control.RouteCancel, control.RouteResult:
		run, err := v.s.core.Read(tx)
		if err == nil && run.Status.Terminal() {
			err = tx.Delete(ownerKey)
		}
		return err
	}
	return nil
}

// ownNew marks a run that was just created as this process's, with its source pinned.
func (v *visit) ownNew(tx control.Tx) error {
	fresh, err := v.s.own(tx)
	if err != nil || !fresh {
		return err
	}
	task, err := v.s.core.Task(tx)
	if err != nil {
		return err
	}
	return v.s.pinUpload(v.req.Principal, v.m.Run, task)
}

// refuse answers with a problem document and logs what the document does not show.
func (v *visit) refuse(err error) {
	if contract.KindOf(err) == contract.KindInternal {
		v.s.log.Error("answer request", "id", v.req.ID, "method", v.req.Method, "route", v.m.Route, "error", err)
	}
	v.answer(control.Refuse(err, v.req.ID))
}

// answer writes a whole response.
func (v *visit) answer(resp control.Response) {
	v.head(resp)
	if len(resp.Body) > 0 {
		_, _ = v.w.Write(resp.Body) // the client is gone; nothing is left to tell it
	}
}

// head writes status and headers.
func (v *visit) head(resp control.Response) {
	v.writable()
	h := v.w.Header()
	for name, value := range resp.Header {
		h.Set(name, value)
	}
	if v.req.ID != "" {
		h.Set("X-Request-Id", v.req.ID)
	}
	if resp.Status != 0 {
		v.w.WriteHeader(resp.Status)
	}
}

// writable gives the next write its own time: an answer may take hours, a write may not.
func (v *visit) writable() {
	_ = v.out.SetWriteDeadline(time.Now().Add(writeTime)) // not every test recorder has one
}

// lowerHeader gives the first value of each header under its lower-case name.
func lowerHeader(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		if len(values) > 0 {
			out[strings.ToLower(name)] = values[0]
		}
	}
	return out
}

// requestID takes the client's own id where it is a plain word, else makes one.
func requestID(r *http.Request, env control.Env) string {
	id := r.Header.Get("X-Request-Id")
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
	}
	if id != "" && len(id) <= 64 && strings.TrimFunc(id, plain) == "" && strings.IndexFunc(id, func(c rune) bool { return !plain(c) }) < 0 {
		return id
	}
	return contract.RandomID("req_", env.Entropy[48:])
}
