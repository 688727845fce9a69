package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/remote/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const id = contract.RunID("run_00000000000000000000000000")

// lines makes a log of n chained events, the last one terminal.
func lines(n int, text string) (out []string) {
	var prev []byte
	for i := 1; i <= n; i++ {
		e := contract.NewEvent(0, contract.Notice{Code: "said", Text: text})
		if i == n {
			e = contract.NewEvent(0, contract.RunEnded{State: contract.Completed})
		}
		e.Seq, e.RunID = int64(i), id
		line, err := e.Seal(prev)
		if err != nil {
			panic(err)
		}
		out, prev = append(out, string(line)), line
	}
	return out
}

func frame(line string) string {
	e, _ := contract.DecodeEvent([]byte(line))
	return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, line)
}

// after gives the number that a follower came with.
func after(r *http.Request) (n int) {
	_, _ = fmt.Sscan(r.Header.Get("Last-Event-ID"), &n)
	return n
}

func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return newClient(t, client.Options{URL: srv.URL, Token: "tok"})
}

func newClient(t *testing.T, opt client.Options) *client.Client {
	t.Helper()
	c, err := client.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// follow gives the numbers that came, and the error that ended it.
func follow(t *testing.T, c *client.Client, from int64) (seqs []int64, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for e, err := range c.Events(ctx, id, from) {
		if err != nil {
			return seqs, err
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs, nil
}

func stream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, ": keep-alive\n\n")
}

// SS-04 and SS-03: cut after every few events, cleanly and in the middle of a frame, the follower
// comes back with its number and sees each event once.
func TestSS03SS04AFollowerComesBackAfterEveryCut(t *testing.T) {
	log := lines(40, "text of some length")
	var visits atomic.Int64
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := visits.Add(1)
		from := after(r)
		if from == len(log) {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		stream(w)
		for i := from; i < min(from+7, len(log)); i++ {
			_, _ = io.WriteString(w, frame(log[i]))
		}
		if from+7 < len(log) && n%2 == 0 {
			next := frame(log[from+7])
			_, _ = io.WriteString(w, next[:len(next)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	seqs, err := follow(t, c, 0)
	if err != nil || len(seqs) != 40 {
		t.Fatalf("%d events, %v", len(seqs), err)
	}
	for i, s := range seqs {
		if s != int64(i+1) {
			t.Errorf("event %d is number %d", i+1, s)
		}
	}
	if seqs, err := follow(t, c, 40); err != nil || len(seqs) != 0 {
		t.Errorf("after the end: %v, %v", seqs, err)
	}
}

func TestALogThatIsNotWholeIsAnError(t *testing.T) {
	log := lines(6, "x")
	other := lines(6, "y")
	for _, c := range []struct {
		why    string // in the error
		frames []string
		good   int // events before it
	}{
		{"event 4 of the log came where 3", []string{log[0], log[1], log[3]}, 2},
		{"event 2 of the log came where 3", []string{log[0], log[1], log[1]}, 2},
		{"broken at event 2", []string{log[0], other[1], other[2]}, 1},
		{"broken at event 3", []string{log[0], log[1], other[2]}, 2},
	} {
		cl := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			stream(w)
			for _, line := range c.frames {
				_, _ = io.WriteString(w, frame(line))
			}
		})
		seqs, err := follow(t, cl, 0)
		if contract.KindOf(err) != contract.KindConflict || !strings.Contains(err.Error(), c.why) || len(seqs) != c.good {
			t.Errorf("%s: %v, %v", c.why, seqs, err)
		}
	}
}

func TestALogGapIsShownAndFollowedOn(t *testing.T) {
	log := lines(6, "x")
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream(w)
		gap := contract.NewEvent(0, contract.LogGap{FirstAvailableSeq: 4})
		gap.V, gap.Seq, gap.RunID = 1, 3, id
		line, _ := gap.Encode()
		_, _ = io.WriteString(w, frame(string(line))+frame(log[3])+frame(log[4])+frame(log[5]))
	})
	if seqs, err := follow(t, c, 1); err != nil || fmt.Sprint(seqs) != "[3 4 5 6]" {
		t.Errorf("%v, %v", seqs, err)
	}
}

func TestARefusalIsNotRepeated(t *testing.T) {
	for _, kind := range []contract.Kind{contract.KindUnauthorized, contract.KindRunNotFound, contract.KindCursorAhead, contract.KindInternal} {
		var visits atomic.Int64
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			visits.Add(1)
			w.Header().Set("Content-Type", contract.ProblemType)
			w.WriteHeader(kind.Status())
			_, _ = w.Write(contract.MarshalJSON(contract.ProblemOf(contract.Errorf(kind, "no"), "")))
		})
		if _, err := follow(t, c, 0); contract.KindOf(err) != kind || visits.Load() != 1 {
			t.Errorf("%s: %v after %d requests", kind, err, visits.Load())
		}
	}
}

func TestAnswersOfStrangersAreErrors(t *testing.T) {
	for status, kind := range map[int]contract.Kind{
		200: contract.KindUpstream, 302: contract.KindUpstream, 401: contract.KindUnauthorized,
		404: contract.KindNotFound, 429: contract.KindTooManyRequests, 502: contract.KindUnavailable, 500: contract.KindUpstream,
	} {
		var visits atomic.Int64
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			visits.Add(1)
			if r.Header.Get("Authorization") != "Bearer tok" {
				t.Error("no token")
			}
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>\x1b[2J")
		})
		_, err := c.Run(t.Context(), id)
		if contract.KindOf(err) != kind || visits.Load() != 1 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("status %d: %v after %d requests", status, err, visits.Load())
		}
	}
}

func TestASilentServerIsLeft(t *testing.T) {
	log := lines(3, "x")
	var visits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream(w)
		if visits.Add(1) == 1 {
			_, _ = io.WriteString(w, frame(log[0]))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // says nothing more
			return
		}
		for _, line := range log[after(r):] {
			_, _ = io.WriteString(w, frame(line))
		}
	}))
	defer srv.Close()
	c := newClient(t, client.Options{URL: srv.URL, Silence: 200 * time.Millisecond})
	if seqs, err := follow(t, c, 0); err != nil || fmt.Sprint(seqs) != "[1 2 3]" || visits.Load() != 2 {
		t.Errorf("%v, %v, %d connections", seqs, err, visits.Load())
	}
}

func TestAServerThatIsDownEndsWithTheCallersPatienceOrCancel(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	c := newClient(t, client.Options{URL: "http://" + l.Addr().String(), Patience: 300 * time.Millisecond})
	if _, err := follow(t, c, 0); contract.KindOf(err) != contract.KindUnavailable {
		t.Errorf("out of patience: %v", err)
	}
	if _, err := c.Run(t.Context(), id); contract.KindOf(err) != contract.KindUnavailable {
		t.Errorf("run: %v", err)
	}
	patient := newClient(t, client.Options{URL: "http://" + l.Addr().String()})
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(300*time.Millisecond, func() { cancel(why) })
	for _, err := range patient.Events(ctx, id, 0) {
		if !errors.Is(err, why) {
			t.Errorf("cancelled: %v", err)
		}
	}
}

func TestALoopThatPanicsLeavesNoReader(t *testing.T) {
	log := lines(3, "x")
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream(w)
		_, _ = io.WriteString(w, frame(log[0])+frame(log[1]))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	defer func() {
		if recover() != "boom" {
			t.Error("the panic is lost")
		}
	}()
	for range c.Events(t.Context(), id, 0) {
		panic("boom")
	}
}

func TestADamagedArtifactIsAnError(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+strings.Repeat("0", 64)+`"`)
		_, _ = io.WriteString(w, "not what was stored")
	})
	r, err := c.Artifact(t.Context(), id, "patch.diff")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); contract.KindOf(err) != contract.KindUpstream {
		t.Errorf("read %q, %v", b, err)
	}
}

func TestBadAddressesAreRefused(t *testing.T) {
	for _, u := range []string{"", "host:80", "ftp://x", "http://", "https://user:pass@host"} {
		if _, err := client.New(client.Options{URL: u}); contract.KindOf(err) != contract.KindInvalid {
			t.Errorf("%q: %v", u, err)
		}
	}
}
