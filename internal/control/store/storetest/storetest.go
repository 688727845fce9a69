// Package storetest is the suite that every store passes.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/store"
)

// Run runs the suite. Every call of open gives a fresh, empty store, closed by the test.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s store.Store)
	}{
		{"WritesShowInTheSameUpdateAndAfterIt", writesShow},
		{"ErrorTakesEverythingBack", errorRollsBack},
		{"PanicTakesEverythingBackAndComesOut", panicRollsBack},
		{"RunsDoNotSeeEachOther", runsAreApart},
		{"ListKeepsByteOrderAndPrefixes", listOrder},
		{"ListPagesThroughManyRecords", listPages},
		{"ListSurvivesWritesOfItsLoop", listAndDelete},
		{"ViewRefusesWrites", viewRefuses},
		{"ViewSeesOneMoment", viewIsOneMoment},
		{"BadKeysAreRefused", badKeys},
		{"RunsComeNewestFirst", runsNewestFirst},
		{"ARunWithoutRecordsIsGone", emptyRunIsGone},
		{"UpdatesOfManyRunsAllCount", concurrentRuns},
		{"UpdatesOfOneRunNeverOverlap", concurrentCounter},
		{"CancelledCallerLeavesNothingBehind", cancelledCaller},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// ID gives the n-th run id of a test.
func ID(n int) contract.RunID {
	entropy := make([]byte, contract.RunIDEntropy)
	copy(entropy, []byte{byte(n >> 15), byte(n >> 10), byte(n >> 5), byte(n)})
	return contract.NewRunID([]byte("a secret of at least 32 bytes ......"), entropy)
}

func put(t *testing.T, s store.Store, id contract.RunID, pairs ...string) {
	t.Helper()
	err := s.Update(t.Context(), id, func(tx control.Tx) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := tx.Put(pairs[i], []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("put: %v", err)
	}
}

// dump lists what a run has, as key=value.
func dump(t *testing.T, s store.Store, id contract.RunID, prefix, after string, limit int) (out []string) {
	t.Helper()
	err := s.View(t.Context(), id, func(tx control.Tx) error {
		for r, err := range tx.List(prefix, after, limit) {
			if err != nil {
				return err
			}
			out = append(out, r.Key+"="+string(r.Value))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return out
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func writesShow(t *testing.T, s store.Store) {
	err := s.Update(t.Context(), ID(1), func(tx control.Tx) error {
		if _, ok, err := tx.Get("a"); ok || err != nil {
			return fmt.Errorf("before the put: %v, %w", ok, err)
		}
		if err := errors.Join(tx.Put("a", []byte("1")), tx.Put("a", []byte("2")), tx.Put("b", nil), tx.Delete("nothing")); err != nil {
			return err
		}
		v, ok, err := tx.Get("a")
		if !ok || string(v) != "2" {
			return fmt.Errorf("after the put: %q, %v, %w", v, ok, err)
		}
		v, ok, err = tx.Get("b")
		if !ok || len(v) != 0 {
			return fmt.Errorf("empty value: %q, %v, %w", v, ok, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, dump(t, s, ID(1), "", "", 0), "a=2", "b=")
}

func errorRollsBack(t *testing.T, s store.Store) {
	put(t, s, ID(1), "kept", "1", "changed", "1", "deleted", "1")
	no := errors.New("no")
	err := s.Update(t.Context(), ID(1), func(tx control.Tx) error {
		return errors.Join(tx.Put("new", []byte("2")), tx.Put("changed", []byte("2")), tx.Delete("deleted"), no)
	})
	if !errors.Is(err, no) {
		t.Errorf("the decision's own error is lost: %v", err)
	}
	expect(t, dump(t, s, ID(1), "", "", 0), "changed=1", "deleted=1", "kept=1")
}

func panicRollsBack(t *testing.T, s store.Store) {
	put(t, s, ID(1), "a", "1")
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v, want the panic of the decision", p)
			}
		}()
		_ = s.Update(t.Context(), ID(1), func(tx control.Tx) error {
			if err := tx.Put("a", []byte("2")); err != nil {
				return err
			}
			panic("boom")
		})
	}()
	put(t, s, ID(1), "b", "2") // the store still works
	expect(t, dump(t, s, ID(1), "", "", 0), "a=1", "b=2")
}

func runsAreApart(t *testing.T, s store.Store) {
	put(t, s, ID(1), "a", "1")
	put(t, s, ID(2), "a", "2")
	expect(t, dump(t, s, ID(1), "", "", 0), "a=1")
	expect(t, dump(t, s, ID(2), "", "", 0), "a=2")
	expect(t, dump(t, s, ID(3), "", "", 0))
}

func listOrder(t *testing.T, s store.Store) {
	put(t, s, ID(1), "e/2", "", "e/10", "", "e", "", "e/", "", "e~", "", "e0", "", "d/9", "", "E/1", "", "f", "", "~", "", "~~", "")
	expect(t, dump(t, s, ID(1), "", "", 0), "E/1=", "d/9=", "e=", "e/=", "e/10=", "e/2=", "e0=", "e~=", "f=", "~=", "~~=")
	expect(t, dump(t, s, ID(1), "e/", "", 0), "e/=", "e/10=", "e/2=")
	expect(t, dump(t, s, ID(1), "e/", "e/10", 0), "e/2=")
	expect(t, dump(t, s, ID(1), "e/", "e/11", 0), "e/2=")
	expect(t, dump(t, s, ID(1), "e/", "a", 2), "e/=", "e/10=")
	expect(t, dump(t, s, ID(1), "e/", "z", 0))
	expect(t, dump(t, s, ID(1), "~", "", 0), "~=", "~~=")
	expect(t, dump(t, s, ID(1), "x", "", 0))
}

func listPages(t *testing.T, s store.Store) {
	const n = 1000
	err := s.Update(t.Context(), ID(1), func(tx control.Tx) error {
		for i := range n {
			if err := tx.Put(fmt.Sprintf("event/%06d", i), []byte(strconv.Itoa(i))); err != nil {
				return err
			}
		}
		return tx.Put("f", nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := dump(t, s, ID(1), "event/", "", 0); len(got) != n || got[n-1] != "event/000999=999" {
		t.Errorf("all: %d records, last %q", len(got), got[len(got)-1])
	}
	for _, limit := range []int{1, 127, 128, 129, 256, 999} {
		if got := dump(t, s, ID(1), "event/", "", limit); len(got) != limit {
			t.Errorf("limit %d gave %d", limit, len(got))
		}
	}
	if got := dump(t, s, ID(1), "event/", "event/000997", 500); len(got) != 2 {
		t.Errorf("after: %q", got)
	}
}

func listAndDelete(t *testing.T, s store.Store) {
	put(t, s, ID(1), "e/1", "", "e/2", "", "e/3", "", "z", "")
	err := s.Update(t.Context(), ID(1), func(tx control.Tx) error {
		for r, err := range tx.List("e/", "", 0) {
			if err != nil {
				return err
			}
			if err := tx.Delete(r.Key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, dump(t, s, ID(1), "", "", 0), "z=")
}

func viewRefuses(t *testing.T, s store.Store) {
	put(t, s, ID(1), "a", "1")
	err := s.View(t.Context(), ID(1), func(tx control.Tx) error {
		if err := tx.Put("a", nil); !errors.Is(err, store.ErrReadOnly) {
			return fmt.Errorf("put in a view: %w", err)
		}
		if err := tx.Delete("a"); !errors.Is(err, store.ErrReadOnly) {
			return fmt.Errorf("delete in a view: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// viewIsOneMoment writes while a view reads; the view must not see half of it.
func viewIsOneMoment(t *testing.T, s store.Store) {
	put(t, s, ID(1), "a", "0", "b", "0")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			put(t, s, ID(1), "a", strconv.Itoa(i), "b", strconv.Itoa(i))
		}
	})
	for range 200 {
		err := s.View(t.Context(), ID(1), func(tx control.Tx) error {
			a, _, err := tx.Get("a")
			b, _, berr := tx.Get("b")
			if !bytes.Equal(a, b) {
				t.Errorf("a view saw a=%s and b=%s", a, b)
			}
			return errors.Join(err, berr)
		})
		if err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

func badKeys(t *testing.T, s store.Store) {
	for _, key := range []string{"", "a b", "a\n", "ä", "a\x00", string(bytes.Repeat([]byte("a"), 513))} {
		err := s.Update(t.Context(), ID(1), func(tx control.Tx) error { return tx.Put(key, nil) })
		if err == nil {
			t.Errorf("key %q was taken", key)
		}
	}
	expect(t, dump(t, s, ID(1), "", "", 0))
}

func heads(t *testing.T, s store.Store, key string) (ids []string) {
	t.Helper()
	for h, err := range s.Runs(t.Context(), key) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(h.ID)+"="+string(h.Value))
	}
	return ids
}

func runsNewestFirst(t *testing.T, s store.Store) {
	const n = 150
	var want []string
	for i := range n {
		put(t, s, ID(i), "run", strconv.Itoa(i))
		want = append(want, string(ID(i))+"="+strconv.Itoa(i))
	}
	put(t, s, ID(3), "run", "3") // a later write does not move a run
	put(t, s, ID(n), "other", "")
	slices.Reverse(want)
	expect(t, heads(t, s, "run"), want...)
	for range s.Runs(t.Context(), "run") {
		break
	}
	expect(t, heads(t, s, "other"), string(ID(n))+"=")
}

func emptyRunIsGone(t *testing.T, s store.Store) {
	put(t, s, ID(1), "run", "1")
	put(t, s, ID(2), "run", "2")
	if err := s.Update(t.Context(), ID(1), func(tx control.Tx) error { return tx.Delete("run") }); err != nil {
		t.Fatal(err)
	}
	expect(t, heads(t, s, "run"), string(ID(2))+"=2")
	put(t, s, ID(1), "run", "again")
	expect(t, heads(t, s, "run"), string(ID(1))+"=again", string(ID(2))+"=2")
}

func concurrentRuns(t *testing.T, s store.Store) {
	const runs, each = 64, 20
	var wg sync.WaitGroup
	for r := range runs {
		wg.Go(func() {
			for i := range each {
				err := s.Update(t.Context(), ID(r), func(tx control.Tx) error {
					if i == 7 {
						return errors.Join(tx.Put("bad", nil), errors.New("no"))
					}
					return tx.Put(fmt.Sprintf("e/%03d", i), []byte(strconv.Itoa(r)))
				})
				if (err != nil) != (i == 7) {
					t.Errorf("run %d update %d: %v", r, i, err)
				}
			}
		})
	}
	wg.Wait()
	for r := range runs {
		if got := dump(t, s, ID(r), "", "", 0); len(got) != each-1 {
			t.Errorf("run %d has %d records: %q", r, len(got), got)
		}
	}
}

func concurrentCounter(t *testing.T, s store.Store) {
	const workers, each = 16, 25
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				err := s.Update(t.Context(), ID(1), func(tx control.Tx) error {
					v, _, err := tx.Get("n")
					if err != nil {
						return err
					}
					n, _ := strconv.Atoi(string(v))
					return tx.Put("n", []byte(strconv.Itoa(n+1)))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	expect(t, dump(t, s, ID(1), "", "", 0), "n="+strconv.Itoa(workers*each))
}

func cancelledCaller(t *testing.T, s store.Store) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	err := s.Update(ctx, ID(1), func(tx control.Tx) error { return tx.Put("a", nil) })
	if !errors.Is(err, why) {
		t.Errorf("update: %v, want the cause", err)
	}
	err = s.View(ctx, ID(1), func(control.Tx) error { return nil })
	if !errors.Is(err, why) && !errors.Is(err, context.Canceled) {
		t.Errorf("view: %v, want the cause", err)
	}
	expect(t, dump(t, s, ID(1), "", "", 0))
}
