package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/store"
	"github.com/rivumi/rivumi/internal/control/store/sqlite"
	"github.com/rivumi/rivumi/internal/control/store/storetest"
)

const childEnv = "RIVUMI_TEST_STORE_CHILD"

func childFile() string { return os.Getenv(childEnv) }

// child appends to four runs as fast as it can and prints each append after it was acknowledged,
// until it is killed.
func child(path string) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	var wg sync.WaitGroup
	for run := range 4 {
		wg.Go(func() {
			for {
				n, err := appendOne(ctx, s, run)
				if err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Println(run, n)
			}
		})
	}
	wg.Wait()
}

// appendOne puts the next event of a run beside the number of the last one, in one update.
func appendOne(ctx context.Context, s store.Store, run int) (n int, err error) {
	err = s.Update(ctx, storetest.ID(run), func(tx control.Tx) error {
		v, _, err := tx.Get("run")
		if err != nil {
			return err
		}
		n, _ = strconv.Atoi(string(v))
		n++
		return errors.Join(tx.Put(fmt.Sprintf("event/%09d", n), make([]byte, 400)), tx.Put("run", []byte(strconv.Itoa(n))))
	})
	return n, err
}

// An event that was acknowledged is there after kill -9, and no update is there by half.
func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	path := filepath.Join(t.TempDir(), "state.db")
	acked := map[int]int{}
	for round := range rounds {
		killChild(t, path, acked, time.Duration(20+7*round)*time.Millisecond)
		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for run := range 4 {
			checkRun(t, s, run, acked[run])
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if acked[0] == 0 {
		t.Error("no child ever acknowledged anything: the test saw nothing")
	}
}

// killChild kills a child some time after its first acknowledgement and notes all it acknowledged.
func killChild(t *testing.T, path string, acked map[int]int, after time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var run, n int
		if _, err := fmt.Sscan(lines.Text(), &run, &n); err != nil {
			t.Errorf("child: %s", lines.Text())
			continue
		}
		acked[run] = max(acked[run], n)
		once.Do(func() { time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) })
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the child was not killed")
	}
}

func checkRun(t *testing.T, s store.Store, run, acked int) {
	t.Helper()
	err := s.View(t.Context(), storetest.ID(run), func(tx control.Tx) error {
		n := 0
		for r, err := range tx.List("event/", "", 0) {
			if err != nil {
				return err
			}
			if n++; r.Key != fmt.Sprintf("event/%09d", n) {
				return fmt.Errorf("event %d is %s", n, r.Key)
			}
		}
		last, _, err := tx.Get("run")
		if err != nil {
			return err
		}
		if string(last) != strconv.Itoa(n) && n > 0 {
			return fmt.Errorf("%d events, but the record says %s", n, last)
		}
		if n < acked {
			return fmt.Errorf("%d events, but %d were acknowledged", n, acked)
		}
		return nil
	})
	if err != nil {
		t.Errorf("run %d: %v", run, err)
	}
}

// Two processes write the same file at once; neither loses or repeats a number.
func TestProcessesShareTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := open(t, path)
	acked := map[int]int{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		killChild(t, path, acked, time.Second)
	}()
	mine := 0
	for {
		n, err := appendOne(t.Context(), s, 0)
		if err != nil {
			t.Fatal(err)
		}
		mine = n
		select {
		case <-done:
			for run := range 4 {
				checkRun(t, s, run, acked[run])
			}
			checkRun(t, s, 0, mine)
			return
		default:
		}
	}
}

// Several processes make the file in the same moment.
func TestOpenedByManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := sqlite.Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := appendOne(t.Context(), s, 1); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	checkRun(t, open(t, path), 1, 8)
}
