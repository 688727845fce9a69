package control

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/token"
)

// Lease is how long a heartbeat of a remote runner keeps its run, and MaxWait the longest poll.
const (
	Lease   = 60 * time.Second
	MaxWait = 30 * time.Second
)

func (v *visit) append() (Response, []Effect, error) {
	batch, err := body[Batch](v)
	if err != nil {
		return Response{}, nil, err
	}
	done, err := v.c.AppendClient(v.tx, v.env, v.claims.Attempt, batch)
	if err != nil {
		return Response{}, nil, err
	}
	return answer(200, done), []Effect{Notify{Run: v.m.Run, LastSeq: done.LastSeq}}, nil
}

func (v *visit) heartbeat() (Response, []Effect, error) {
	if _, err := optional[struct{}](v); err != nil {
		return Response{}, nil, err
	}
	en, err := v.c.open(v.tx, v.env)
	if err != nil {
		return Response{}, nil, err
	}
	if err := en.fence(v.claims.Attempt); err != nil {
		return Response{}, nil, err
	}
	en.renew(Lease)
	pulse := en.pulse()
	if en.h.Mail > 0 {
		if pulse.Messages, err = en.takeMessages(); err != nil {
			return Response{}, nil, err
		}
	}
	if err := en.save(); err != nil {
		return Response{}, nil, err
	}
	return answer(200, pulse), []Effect{SetAlarm{Run: v.m.Run, At: en.h.Lease.Time}}, nil
}

// result takes the end record of a remote runner. What contradicts itself is not refused, because
// the run has to end; it ends as result_invalid.
func (v *visit) result() (Response, []Effect, error) {
	e, err := v.c.Reported(v.m.Run, v.r.Body)
	if err != nil {
		return Response{}, nil, err
	}
	run, err := v.c.Finish(v.tx, v.env, v.claims.Attempt, e)
	if err != nil {
		return Response{}, nil, err
	}
	return answer(200, linked(run)), []Effect{v.notify(run), StopRun{Run: run.ID, Reason: "the run has ended"}}, nil
}

// Reported reads the end record of a remote runner. A record that contradicts itself, or names
// another run, is the ending result_invalid; one that cannot be read is refused.
func (c *Core) Reported(run contract.RunID, body []byte) (contract.Ending, error) {
	in, err := plain[Report](&visit{c: c, r: Request{Body: body}})
	if err != nil {
		return contract.Ending{}, err
	}
	e := contract.Ending{State: in.State, Result: in.Result, Error: in.Error}
	switch want := contract.ExitCode(in.State, in.Error); {
	case in.RunID != run:
		e = violation(tidy(e), contract.FailResult, "the result names another run")
	case in.State.Terminal() && in.ExitCode != want:
		e = violation(tidy(e), contract.FailResult, "exit code "+strconv.Itoa(in.ExitCode)+" does not go with the state reported")
	}
	return e, nil
}

func (v *visit) ask() (Response, []Effect, error) {
	in, err := plain[contract.Approval](v)
	if err != nil {
		return Response{}, nil, err
	}
	a, err := v.c.Ask(v.tx, v.env, v.claims.Attempt, in)
	if err != nil {
		return Response{}, nil, err
	}
	effects := []Effect{Notify{Run: v.m.Run}}
	if a.Decision == "" {
		effects = append(effects, SetAlarm{Run: v.m.Run, At: a.ExpiresAt.Time})
	}
	return answer(201, a), effects, nil
}

func (v *visit) await() (Response, []Effect, error) {
	q, err := query(v.r.Query, "wait")
	if err != nil {
		return Response{}, nil, err
	}
	wait := time.Duration(0)
	if s := q.Get("wait"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return Response{}, nil, badQuery("wait", "must be whole seconds")
		}
		wait = min(time.Duration(min(n, 3600))*time.Second, MaxWait)
	}
	a, err := v.c.ApprovalOf(v.tx, v.m.Param)
	if err != nil {
		return Response{}, nil, err
	}
	if a.Decision != "" || wait == 0 {
		return answer(200, a), nil, nil
	}
	return Response{}, []Effect{AwaitApproval{Run: v.m.Run, Approval: a.ID, Wait: wait}}, nil
}

// Awaited answers an AwaitApproval with what stands now; an ended run is KindRunFinished. While
// done is false the host may wait on.
func (c *Core) Awaited(tx Tx, w AwaitApproval, requestID string) (resp Response, done bool) {
	en, err := c.open(tx, Env{})
	if err != nil {
		return Refuse(err, requestID), true
	}
	a, err := c.ApprovalOf(tx, w.Approval)
	if err != nil {
		return Refuse(err, requestID), true
	}
	if a.Decision == "" && en.h.Status.Terminal() {
		return Refuse(finished(), requestID), true
	}
	return answer(200, a), a.Decision != ""
}

// Tokens mints the run tokens of a running attempt, one for each audience. Their life is at most
// wall time and [CapabilityMargin]; zero means that.
func (c *Core) Tokens(env Env, run contract.Run, life time.Duration) (map[token.Audience]string, error) {
	most := time.Duration(run.Limits.WallTimeSeconds)*time.Second + CapabilityMargin
	if life <= 0 || life > most {
		life = most
	}
	out := map[token.Audience]string{}
	for i, a := range token.Audiences() {
		tok, err := c.keys.Mint(token.Claims{
			Audience: a, Run: run.ID, Attempt: run.Attempt, Model: run.Model, IssuedAt: env.Now.Unix(),
			Expires: env.Now.Add(life).Unix(), Nonce: hex.EncodeToString(env.Entropy[16*i : 16*i+12]),
		})
		if err != nil {
			return nil, err
		}
		out[a] = tok
	}
	return out, nil
}
