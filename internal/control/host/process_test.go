package host_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/driver"
	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
)

const childEnv = "RIVUMI_TEST_HOST_CHILD"

// child carries out one run that asks a question and then works until it is stopped. It prints the
// run's id and lives until its input ends.
func child(dir string) {
	ctx := context.Background()
	s, err := host.Open(ctx, host.Options{Dir: dir, Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		_, perr := j.Session.PutArtifact(ctx, "patch.diff", "text/x-diff", strings.NewReader("so far"))
		_, aerr := j.Session.Ask(ctx, contract.Approval{
			CallID: "c1", Kind: contract.ApproveCommand, Title: "make", Command: contract.Asked{Script: "make"},
			Risk: contract.Risk{Level: "low", Why: []string{}},
		})
		for err := errors.Join(perr, aerr); err == nil; time.Sleep(2 * time.Millisecond) {
			err = j.Session.Append(ctx, notice("working"))
		}
		if errors.Is(context.Cause(ctx), host.ErrCancelRequested) {
			return contract.Ending{State: contract.Cancelled, Error: &contract.Failure{Code: contract.FailCancelled, Message: "cancelled"}}
		}
		return contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: contract.FailInterrupted, Message: "stopped"}}
	})})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	run, err := s.Start(ctx, task())
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println(run.ID)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Close(ctx); err != nil {
		fmt.Println("error", err)
	}
}

type process struct {
	cmd *exec.Cmd
	in  io.Closer
	run contract.RunID
}

func spawn(t *testing.T, dir string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "run_") {
		t.Fatalf("child: %q, %v", line, err)
	}
	return &process{cmd: cmd, in: in, run: contract.RunID(strings.TrimSpace(line))}
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait()
}

// stopIdle stops the process while it does not hold the store's lock, which nobody could break.
func (p *process) stopIdle(t *testing.T, dir string) {
	t.Helper()
	db, err := driver.Open("file:" + filepath.Join(dir, "state.db") + "?_pragma=busy_timeout(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 200 {
		if err := p.cmd.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if _, err = db.ExecContext(t.Context(), "BEGIN IMMEDIATE; ROLLBACK"); err == nil {
			return
		}
		if err := p.cmd.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("the process is always in a commit: %v", err)
}

func dial(t *testing.T, dir string, id contract.RunID) *host.Link {
	t.Helper()
	l, err := host.Dial(t.Context(), host.Options{Dir: dir}, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			t.Errorf("close link: %v", err)
		}
	})
	return l
}

// approve answers the child's question and waits until it works.
func approve(t *testing.T, l *host.Link, id contract.RunID) (last int64) {
	t.Helper()
	for e, err := range l.Events(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		last = e.Seq
		if a, ok := contract.As[contract.ApprovalRequested](e); ok {
			if err := l.Decide(t.Context(), id, a.Approval.ID, contract.Decision{Verdict: contract.AllowOnce}); err != nil {
				t.Fatal(err)
			}
		}
		if e.Type == contract.TypeNotice && e.Seq > 10 {
			return last
		}
	}
	t.Fatal("the log ended")
	return 0
}

func TestAnotherProcessSteersARunOverItsSocket(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long-", 20), strings.Repeat("path-", 20))
	p := spawn(t, dir)
	l := dial(t, dir, p.run)
	if !l.OwnerAnswers() {
		t.Error("the owner's socket does not answer")
	}
	seen := approve(t, l, p.run)
	if err := l.Cancel(t.Context(), p.run, "enough"); err != nil {
		t.Fatal(err)
	}
	all := follow(t, l, p.run, seen)
	if last := all[len(all)-1]; last.Type != contract.TypeRunCancelled {
		t.Errorf("ended with %s", last.Type)
	}
	for _, path := range []string{filepath.Join(dir, "s"), dir} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if info, err := os.Stat(onlySocket(t, dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "s")); err != nil || len(entries) != 0 {
		t.Errorf("sockets left: %v, %v", entries, err)
	}
}

// A follower that is attached when the owner is killed sees the run end as interrupted, and what the
// run had so far is kept.
func TestAKilledOwnersRunEndsInterrupted(t *testing.T) {
	dir := t.TempDir()
	p := spawn(t, dir)
	l := dial(t, dir, p.run)
	seen := approve(t, l, p.run)
	rest := make(chan []contract.Event, 1)
	go func() { rest <- follow(t, l, p.run, seen) }()
	p.kill(t)
	all := <-rest
	for i, e := range all {
		if e.Seq != seen+int64(i)+1 {
			t.Fatalf("event %d after %d", e.Seq, seen+int64(i))
		}
	}
	end, ok := contract.EndedOf(all[len(all)-1])
	if !ok || end.State != contract.Failed || end.Error == nil || end.Error.Code != contract.FailInterrupted {
		t.Errorf("ended with %+v", end)
	}
	s := open(t, host.Options{Dir: dir})
	for _, name := range []string{"patch.diff", contract.ArtifactEvents} {
		r, err := s.Artifact(t.Context(), p.run, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = r.Close()
	}
}

// A stopped owner is not dead: nobody ends its run, and what is decided meanwhile reaches it.
func TestAStoppedOwnerKeepsItsRun(t *testing.T) {
	dir := t.TempDir()
	p := spawn(t, dir)
	s := open(t, host.Options{Dir: dir})
	approve(t, &host.Link{Service: s}, p.run)
	p.stopIdle(t, dir)
	again := open(t, host.Options{Dir: dir, Lease: time.Millisecond})
	run, err := again.Run(t.Context(), p.run)
	if err != nil || run.Status != contract.Running {
		t.Errorf("a stopped owner's run is %s, %v", run.Status, err)
	}
	if err := again.Cancel(t.Context(), p.run, "from the store"); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	all := follow(t, again, p.run, 0)
	if last := all[len(all)-1]; last.Type != contract.TypeRunCancelled {
		t.Errorf("ended with %s", last.Type)
	}
	p.kill(t)
}

func TestAQueuedRunOfADeadProcessIsAdoptedOrFailed(t *testing.T) {
	for _, adopt := range []bool{true, false} {
		t.Run(fmt.Sprintf("adopt=%v", adopt), func(t *testing.T) {
			dir := t.TempDir()
			p := spawn(t, dir)
			s := open(t, host.Options{Dir: dir})
			approve(t, &host.Link{Service: s}, p.run)
			// The same dead owner has a run that it never claimed.
			queued := s.PlantQueuedForTest(t.Context(), task(), p.run)
			p.kill(t)
			again := open(t, host.Options{Dir: dir, Adopt: adopt, Executor: play(done)})
			all := follow(t, again, queued, 0)
			want := contract.TypeRunFailed
			if adopt {
				want = contract.TypeRunCompleted
			}
			if last := all[len(all)-1]; last.Type != want {
				t.Errorf("ended with %s: %s", last.Type, last.Data)
			}
		})
	}
}
