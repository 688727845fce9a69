package host

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

// carryOut does what a committed decision asks for, and answers.
func (v *visit) carryOut(ctx context.Context, resp control.Response, effects []control.Effect) {
	answered := false
	for _, effect := range effects {
		switch e := effect.(type) {
		case control.StartRun:
			v.s.enqueue(e.Run)
		case control.StopRun:
			v.s.interrupt(e.Run)
		case control.Notify, control.SetAlarm:
			// The bell has rung with the commit, and the keeper of an attempt looks at its run by itself.
		case control.Forget:
			if err := os.RemoveAll(v.s.dir(e.Run)); err != nil {
				v.s.log.Error("remove files of run", "run", e.Run, "error", err)
			}
		case control.Stream:
			v.stream(ctx, resp, e)
			answered = true
		case control.ServeArtifact:
			v.artifact(resp, e)
			answered = true
		case control.StoreArtifact:
			v.storeArtifact(ctx, e)
			answered = true
		case control.ListRuns:
			v.list(ctx, e)
			answered = true
		case control.AwaitApproval:
			v.await(ctx, e)
			answered = true
		case control.StoreUpload:
			v.storeUpload(ctx, e)
			answered = true
		case control.FindUpload:
			v.findUpload(e)
			answered = true
		case control.ForwardModel:
			v.forward(ctx, e)
			answered = true
		}
	}
	if v.m.Writes {
		v.keepEnded(ctx)
	}
	if !answered {
		v.answer(resp)
	}
}

// keepEnded writes what an ended run leaves, where this request was its end.
func (v *visit) keepEnded(ctx context.Context) {
	if v.m.Route != control.RouteCancel && v.m.Route != control.RouteResult {
		return
	}
	if err := v.s.keepEvents(ctx, v.m.Run); err != nil {
		v.s.log.Error("keep the log of an ended run", "run", v.m.Run, "error", err)
	}
}

// frames are gathered up to this many bytes for one write.
const writeBytes = 64 << 10

// stream writes the log of a run: as NDJSON what is stored now, as SSE until its end.
func (v *visit) stream(ctx context.Context, resp control.Response, e control.Stream) {
	v.head(resp)
	send := func(b []byte) bool {
		v.writable()
		_, err := v.w.Write(b)
		return err == nil && v.out.Flush() == nil
	}
	if e.SSE && !send([]byte(control.Heartbeat)) {
		return
	}
	f := following{run: e.Run, after: e.After, live: e.SSE}
	if e.SSE {
		f.beat = e.KeepAlive
	}
	var buf []byte
	for lines, err := range v.s.follow(ctx, f) {
		if err != nil {
			return // the client comes back with its last number
		}
		if len(lines) == 0 {
			buf = append(buf, control.Heartbeat...)
		}
		for _, line := range lines {
			if e.SSE {
				buf = append(buf, control.Frame(line)...)
			} else {
				buf = append(append(buf, line...), '\n')
			}
			if len(buf) >= writeBytes {
				if !send(buf) {
					return
				}
				buf = buf[:0]
			}
		}
		if len(buf) > 0 && !send(buf) {
			return
		}
		buf = buf[:0]
	}
}

// artifact writes the bytes of an artifact, or the range that was asked for.
func (v *visit) artifact(resp control.Response, e control.ServeArtifact) {
	f, err := v.s.openArtifact(e.Run, e.Artifact.Name)
	if err != nil {
		v.refuse(err)
		return
	}
	defer f.Close()
	resp.Status = 0
	v.head(resp)
	http.ServeContent(&patientWriter{ResponseWriter: v.w, v: v}, v.r, "", time.Time{}, f)
}

// patientWriter gives every write of a long answer its own time, and answers a range that cannot be
// with a problem document.
type patientWriter struct {
	http.ResponseWriter
	v       *visit
	refused bool
}

// WriteHeader implements [http.ResponseWriter].
func (p *patientWriter) WriteHeader(status int) {
	if status != http.StatusRequestedRangeNotSatisfiable {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.refused = true
	for _, name := range []string{"ETag", "Repr-Digest", "Content-Disposition", "Content-Length"} {
		p.Header().Del(name)
	}
	p.v.refuse(contract.Errorf(contract.KindRange, "the range is not one of the artifact"))
}

// Write implements [http.ResponseWriter].
func (p *patientWriter) Write(b []byte) (int, error) {
	if p.refused {
		return len(b), nil
	}
	p.v.writable()
	return p.ResponseWriter.Write(b)
}

// storeArtifact reads the body of the request into an artifact of a remote runner.
func (v *visit) storeArtifact(ctx context.Context, e control.StoreArtifact) {
	body := &patientReader{r: http.MaxBytesReader(v.w, v.r.Body, e.MaxBytes), v: v}
	var resp control.Response
	_, err := v.s.storeArtifact(ctx, artifactIn{run: e.Run, attempt: e.Attempt, name: e.Name, mediaType: e.MediaType, body: body},
		func(tx control.Tx, env control.Env, a contract.Artifact) (contract.Artifact, error) {
			if resp, _ = v.s.core.ArtifactStored(tx, env, e, a, v.req.ID); resp.Status >= 400 {
				return a, errRolledBack
			}
			return a, nil
		})
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		err = contract.Errorf(contract.KindTooLarge, "the artifacts of the run would be more than allowed")
	}
	if err != nil && !errors.Is(err, errRolledBack) {
		v.refuse(err)
		return
	}
	v.answer(resp)
}

// bodyPace is the least that a long body must come with, in bytes a second, once bodyTime is over.
const bodyPace = 8 << 10

// patientReader gives a long body time for its size: one that trickles is given up.
type patientReader struct {
	r     io.Reader
	v     *visit
	began time.Time
	n     int64
}

// Read implements [io.Reader].
func (p *patientReader) Read(b []byte) (int, error) {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	due := p.began.Add(bodyTime + time.Duration(p.n/bodyPace)*time.Second)
	_ = p.v.out.SetReadDeadline(due) // not every test recorder has one
	n, err := p.r.Read(b)
	p.n += int64(n)
	return n, err
}

// list answers with a page of the principal's runs.
func (v *visit) list(ctx context.Context, e control.ListRuns) {
	limit := e.Filter.Limit
	e.Filter.Limit = 0
	var runs []contract.Run
	skipping := e.Before != ""
	for run, err := range v.s.list(ctx, e.Principal, e.Filter) {
		if err != nil {
			v.refuse(err)
			return
		}
		if skipping && !run.CreatedAt.Before(e.BeforeTime.Time) {
			skipping = run.ID != e.Before
			continue
		}
		skipping = false
		if runs = append(runs, run); len(runs) > limit {
			break
		}
	}
	more := len(runs) > limit
	v.answer(v.s.core.Listing(runs[:min(limit, len(runs))], more))
}

// await holds a request until its approval is decided or the wait is over.
func (v *visit) await(ctx context.Context, e control.AwaitApproval) {
	f, release := v.s.feed(e.Run)
	defer release()
	over := time.NewTimer(e.Wait)
	defer over.Stop()
	for last := false; ; {
		more := f.wait()
		var resp control.Response
		var done bool
		err := v.s.store.View(ctx, e.Run, func(tx control.Tx) error {
			resp, done = v.s.core.Awaited(tx, e, v.req.ID)
			return nil
		})
		if err != nil {
			v.refuse(err)
			return
		}
		if done || last {
			v.answer(resp)
			return
		}
		select {
		case <-more:
		case <-over.C:
			last = true
		case <-v.s.life.Done():
			last = true
		case <-ctx.Done():
			return
		}
	}
}
