package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/store"
	"github.com/rivumi/rivumi/internal/control/store/sqlite"
	"github.com/rivumi/rivumi/internal/control/store/storetest"
)

func TestFilesAreTheOwnersOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	s := open(t, filepath.Join(dir, "state.db"))
	if _, err := appendOne(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) < 2 {
		t.Errorf("no log beside the file: %v", entries)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
}

// tmpfs gives a small disk of its own, or skips.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("NOT TESTED: a full disk needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestDK02FullDiskKeepsEarlierEvents(t *testing.T) {
	dir := tmpfs(t, "4m")
	path := filepath.Join(dir, "state.db")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	stored := fillUp(t, s)
	checkRun(t, s, 0, stored)
	// A file that is opened while nothing fits must not be spoilt by it.
	if other, err := sqlite.Open(t.Context(), filepath.Join(dir, "other.db")); err == nil {
		if _, err := appendOne(t.Context(), other, 0); !errors.Is(err, store.ErrDiskFull) {
			t.Errorf("append to a second file: %v", err)
		}
		if err := other.Close(); err != nil {
			t.Logf("close of the second file: %v", err)
		}
	} else if !errors.Is(err, store.ErrDiskFull) && !errors.Is(err, unix.ENOSPC) {
		t.Errorf("open on a full disk: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Logf("close on a full disk: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state.db", "other.db"} {
		again, err := sqlite.Open(t.Context(), filepath.Join(dir, name))
		if err != nil {
			t.Fatalf("%s after space came free: %v", name, err)
		}
		if name == "state.db" {
			checkRun(t, again, 0, stored)
		}
		if _, err := appendOne(t.Context(), again, 1); err != nil {
			t.Errorf("%s: append after space came free: %v", name, err)
		}
		if err := errors.Join(again.Check(t.Context()), again.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fillUp appends until the disk is full and gives how many events were acknowledged.
func fillUp(t *testing.T, s store.Store) int {
	t.Helper()
	stored := 0
	for range 50 { // some events first
		n, err := appendOne(t.Context(), s, 0)
		if err != nil {
			t.Fatal(err)
		}
		stored = n
	}
	ballast(t, s)
	for range 20_000 {
		n, err := appendOne(t.Context(), s, 0)
		if err == nil {
			stored = n
			continue
		}
		if !errors.Is(err, store.ErrDiskFull) || contract.KindOf(err) != contract.KindUnavailable {
			t.Fatalf("append on a full disk: %v (kind %s)", err, contract.KindOf(err))
		}
		return stored
	}
	t.Fatal("the disk never filled")
	return 0
}

// ballast fills the folder of the store with something that can be removed again.
func ballast(t *testing.T, s store.Store) {
	t.Helper()
	p, ok := s.(interface{ Path() string })
	if !ok {
		t.Fatal("no path")
	}
	f, err := os.Create(filepath.Join(filepath.Dir(p.Path()), "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

func TestDK01DamageIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if _, err := appendOne(t.Context(), s, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".copy", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	for off := int64(4096); off < info.Size(); off += 4096 {
		if _, err := f.WriteAt([]byte(strings.Repeat("\xff", 64)), off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = sqlite.Open(t.Context(), path)
	if err != nil {
		if !strings.Contains(err.Error(), "damaged") {
			t.Errorf("open: %v", err)
		}
		return
	}
	defer s.Close()
	if err := s.Check(t.Context()); err == nil {
		t.Error("a spoilt file passes its check")
	}
	err = s.View(t.Context(), storetest.ID(0), func(tx control.Tx) error {
		_, _, err := tx.Get("run")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("view of a spoilt file: %v", err)
	}
}

func TestNotADatabaseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("hello ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), path)
	if err == nil {
		_ = s.Close()
		t.Fatal("opened")
	}
	if !strings.Contains(err.Error(), "damaged") {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(b), "hello ") {
		t.Errorf("the file was touched: %v", err)
	}
}

func TestFullQueueRefusesAtOnce(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "state.db"))
	release, started := make(chan struct{}), make(chan struct{})
	results := make(chan error, 2000)
	go func() {
		results <- s.Update(t.Context(), storetest.ID(0), func(control.Tx) error {
			close(started)
			<-release
			return nil
		})
	}()
	<-started
	for range 1999 {
		go func() {
			results <- s.Update(t.Context(), storetest.ID(1), func(tx control.Tx) error { return tx.Put("a", nil) })
		}()
	}
	refused := 0
	for range 1999 - 1024 { // exactly those that do not fit answer while the writer is busy
		if err := <-results; contract.KindOf(err) == contract.KindTooManyRequests {
			refused++
		} else {
			t.Errorf("refusal: %v", err)
		}
	}
	close(release)
	for range 1025 {
		if err := <-results; err != nil {
			t.Errorf("accepted update: %v", err)
		}
	}
	if refused != 1999-1024 {
		t.Errorf("%d refused", refused)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := open(t, path).SetVersionForTest(t.Context(), 99); err != nil {
		t.Fatal(err)
	}
	if s, err := sqlite.Open(t.Context(), path); contract.KindOf(err) != contract.KindConflict {
		t.Errorf("opened %v, %v", s, err)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "state.db")
	open(b, path)
	for b.Loop() {
		s, err := sqlite.Open(b.Context(), path)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "state.db"))
			b.SetParallelism(max(1, writers/2))
			run := make(chan int, 256)
			for i := range 256 {
				run <- i
			}
			if writers == 1 {
				for b.Loop() {
					if _, err := appendOne(b.Context(), s, 0); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(p *testing.PB) {
				mine := <-run
				for p.Next() {
					if _, err := appendOne(b.Context(), s, mine); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
