package host_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
)

// quantiles reports the middle and the 99th percentile of durations.
func quantiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	if n := len(took); n > 0 {
		b.ReportMetric(float64(took[n/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(took[n*99/100].Microseconds()), "p99-µs")
	}
}

// Append latency and events a second, through the core and SQLite, with so many runs at once.
func BenchmarkAppend(b *testing.B) {
	for _, runs := range []int{1, 64} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			var mu sync.Mutex
			var took []time.Duration
			each := max(1, b.N/runs)
			begin := make(chan struct{})
			s := open(b, host.Options{MaxRuns: runs, NoSocket: true, Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
				<-begin
				mine := make([]time.Duration, 0, each)
				e := notice(strings.Repeat("x", 300))
				for range each {
					t := time.Now()
					if err := j.Session.Append(ctx, e); err != nil {
						b.Error(err)
					}
					mine = append(mine, time.Since(t))
				}
				mu.Lock()
				took = append(took, mine...)
				mu.Unlock()
				return done(ctx, j)
			})})
			var ids []contract.RunID
			for range runs {
				ids = append(ids, start(b, s).ID)
			}
			for _, id := range ids {
				for e := range s.Events(b.Context(), id, 0) {
					if e.Type == contract.TypeRunStarted {
						break
					}
				}
			}
			b.ResetTimer()
			began := time.Now()
			close(begin)
			for _, id := range ids {
				follow(b, s, id, 0)
			}
			b.StopTimer()
			b.ReportMetric(float64(each*runs)/time.Since(began).Seconds(), "events/s")
			quantiles(b, took)
		})
	}
}

func BenchmarkServiceOpen(b *testing.B) {
	dir := b.TempDir()
	first := open(b, host.Options{Dir: dir, NoSocket: true, Executor: play(done)})
	for range 100 {
		follow(b, first, start(b, first).ID, 0)
	}
	for b.Loop() {
		s, err := host.Open(b.Context(), host.Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		closeService(b, s)
		b.StartTimer()
	}
}

// tenThousand is a finished run of 10 000 events.
func tenThousand(b *testing.B) (*host.Service, string, contract.RunID) {
	s, url := serve(b, play(func(ctx context.Context, j host.Job) contract.Ending {
		for range 100 {
			if err := j.Session.Append(ctx, slices.Repeat([]contract.Event{notice(strings.Repeat("x", 300))}, 100)...); err != nil {
				b.Error(err)
			}
		}
		return done(ctx, j)
	}))
	run := start(b, s)
	follow(b, s, run.ID, 0)
	return s, url, run.ID
}

func BenchmarkReplay10000(b *testing.B) {
	s, url, id := tenThousand(b)
	b.Run("in process", func(b *testing.B) {
		for b.Loop() {
			if n := len(follow(b, s, id, 0)); n != 10_003 {
				b.Fatal(n)
			}
		}
	})
	b.Run("SSE frames", func(b *testing.B) {
		for b.Loop() {
			if n, err := readFrames(b.Context(), url, id); n != 10_003 || err != nil {
				b.Fatal(n, err)
			}
		}
	})
}

// readFrames reads a stream without decoding and counts its events.
func readFrames(ctx context.Context, url string, id contract.RunID) (n int, err error) {
	req, err := http.NewRequestWithContext(ctx, "GET", url+"/v1/runs/"+string(id)+"/events?stream=1", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+host.LocalPrincipal)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "id: ") {
			n++
		}
	}
	return n, lines.Err()
}

// SSE to 100 followers while the run appends as fast as it can: events delivered a second, all
// readers in this process.
func BenchmarkFanOut100(b *testing.B) {
	const followers, events = 100, 2000
	for b.Loop() {
		begin := make(chan struct{})
		s, url := serve(b, play(func(ctx context.Context, j host.Job) contract.Ending {
			<-begin
			for range events {
				if err := j.Session.Append(ctx, notice(strings.Repeat("x", 300))); err != nil {
					b.Error(err)
				}
			}
			return done(ctx, j)
		}))
		run := start(b, s)
		var wg sync.WaitGroup
		for range followers {
			wg.Go(func() {
				if n, err := readFrames(b.Context(), url, run.ID); n != events+3 || err != nil {
					b.Error(n, err)
				}
			})
		}
		began := time.Now()
		close(begin)
		wg.Wait()
		took := time.Since(began)
		b.ReportMetric(float64(followers*(events+3))/took.Seconds(), "deliveries/s")
	}
}
