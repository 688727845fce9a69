package host_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/control/store"
)

func TestDK02ARunOnAFullDiskFailsAsDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("NOT TESTED: a full disk needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	stored := 0
	s, err := host.Open(t.Context(), host.Options{Dir: dir, NoSocket: true, Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		if err := fill(ballast); err != nil {
			t.Error(err)
		}
		for range 5000 {
			err := j.Session.Append(ctx, notice("something to keep that takes some room in the log"))
			if err == nil {
				stored++
				continue
			}
			if !errors.Is(err, store.ErrDiskFull) {
				t.Errorf("append: %v", err)
			}
			return contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: contract.FailInternal, Message: err.Error()}}
		}
		t.Error("the disk never filled")
		return done(ctx, j)
	})})
	if err != nil {
		t.Fatal(err)
	}
	run := start(t, s)
	all := follow(t, s, run.ID, 0)
	end, ok := contract.EndedOf(all[len(all)-1])
	if !ok || end.Error == nil || end.Error.Code != contract.FailDisk || len(all) != stored+3 {
		t.Errorf("%d stored, %d events, ended with %+v", stored, len(all), end)
	}
	closeService(t, s)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	again, err := host.Open(t.Context(), host.Options{Dir: dir, NoSocket: true, Executor: play(done)})
	if err != nil {
		t.Fatal(err)
	}
	defer closeService(t, again)
	if n := len(follow(t, again, run.ID, 0)); n != stored+3 {
		t.Errorf("%d events after the restart, %d before", n, stored+3)
	}
	if all := follow(t, again, start(t, again).ID, 0); all[len(all)-1].Type != contract.TypeRunCompleted {
		t.Errorf("a later run: %v", all)
	}
	for _, name := range []string{"state.db", "secret"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// Nothing at all can be written any more, not even the end: who follows the run is told instead of
// waiting for it.
func TestDK02NobodyWaitsForAnEndThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("NOT TESTED: a full disk needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s, err := host.Open(t.Context(), host.Options{Dir: dir, NoSocket: true, Executor: play(func(ctx context.Context, j host.Job) contract.Ending {
		if err := errors.Join(os.Remove(filepath.Join(dir, "reserve")), fill(filepath.Join(dir, "ballast"))); err != nil {
			t.Error(err)
		}
		for range 5000 {
			if err := j.Session.Append(ctx, notice("something to keep that takes some room in the log")); err != nil {
				break
			}
		}
		return done(ctx, j)
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer closeService(t, s)
	run := start(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, err = range s.Events(ctx, run.ID, 0) {
	}
	if !errors.Is(err, store.ErrDiskFull) {
		t.Errorf("the follower was told %v", err)
	}
}

func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
