// Package mem is a store in memory: for tests, and for services that may forget.
package mem

import (
	"context"
	"iter"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/store"
)

// Store is a [store.Store] that forgets everything with the process. It starts no goroutine.
type Store struct {
	mu   sync.RWMutex // held for writing through a whole Update, for reading through a whole View
	runs map[contract.RunID]*records
	born int64
}

// records are one run's, with the keys in order beside them.
type records struct {
	born   int64
	keys   []string
	values map[string][]byte
}

// New gives an empty store.
func New() *Store { return &Store{runs: map[contract.RunID]*records{}} }

// Update implements [store.Store].
func (s *Store) Update(ctx context.Context, id contract.RunID, f func(control.Tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		s.born++
		r = &records{born: s.born, values: map[string][]byte{}}
	}
	t := &tx{r: r, writable: true}
	kept := false
	defer func() {
		if !kept {
			t.undo()
		}
	}()
	if err := f(t); err != nil {
		return err
	}
	kept = true
	if len(r.keys) > 0 {
		s.runs[id] = r
	} else {
		delete(s.runs, id)
	}
	return nil
}

// View implements [store.Store].
func (s *Store) View(ctx context.Context, id contract.RunID, f func(control.Tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := s.runs[id]
	if r == nil {
		r = &records{}
	}
	return f(&tx{r: r})
}

// Runs implements [store.Store].
func (s *Store) Runs(ctx context.Context, key string) iter.Seq2[store.Head, error] {
	return func(yield func(store.Head, error) bool) {
		for _, h := range s.heads(key) {
			if err := context.Cause(ctx); err != nil {
				yield(store.Head{}, err)
				return
			}
			if !yield(h, nil) {
				return
			}
		}
	}
}

// Close implements io.Closer; it does nothing.
func (s *Store) Close() error { return nil }

func (s *Store) heads(key string) []store.Head {
	s.mu.RLock()
	defer s.mu.RUnlock()
	heads := make([]store.Head, 0, len(s.runs))
	for id, r := range s.runs {
		if v, ok := r.values[key]; ok {
			heads = append(heads, store.Head{ID: id, Value: v})
		}
	}
	slices.SortFunc(heads, func(a, b store.Head) int { return int(s.runs[b.ID].born - s.runs[a.ID].born) })
	return heads
}

// tx writes at once and remembers how to take it back.
type tx struct {
	r        *records
	writable bool
	undos    []func()
}

func (t *tx) undo() {
	for _, u := range slices.Backward(t.undos) {
		u()
	}
}

// Get implements [control.Tx].
func (t *tx) Get(key string) ([]byte, bool, error) {
	v, ok := t.r.values[key]
	return v, ok, nil
}

// Put implements [control.Tx].
func (t *tx) Put(key string, value []byte) error {
	if !t.writable {
		return store.ErrReadOnly
	}
	if err := store.CheckKey(key); err != nil {
		return err
	}
	t.remember(key)
	t.r.put(key, slices.Clone(value))
	return nil
}

// Delete implements [control.Tx].
func (t *tx) Delete(key string) error {
	if !t.writable {
		return store.ErrReadOnly
	}
	t.remember(key)
	t.r.remove(key)
	return nil
}

// List implements [control.Tx].
func (t *tx) List(prefix, after string, limit int) iter.Seq2[control.Record, error] {
	return func(yield func(control.Record, error) bool) {
		last, n := after, 0
		for limit <= 0 || n < limit {
			i := sort.SearchStrings(t.r.keys, max(prefix, last))
			if last != "" && i < len(t.r.keys) && t.r.keys[i] == last {
				i++
			}
			if i >= len(t.r.keys) || !strings.HasPrefix(t.r.keys[i], prefix) {
				return
			}
			last, n = t.r.keys[i], n+1
			if !yield(control.Record{Key: last, Value: t.r.values[last]}, nil) {
				return
			}
		}
	}
}

func (t *tx) remember(key string) {
	old, had := t.r.values[key]
	t.undos = append(t.undos, func() {
		if had {
			t.r.put(key, old)
		} else {
			t.r.remove(key)
		}
	})
}

func (r *records) put(key string, value []byte) {
	if _, ok := r.values[key]; !ok {
		i := sort.SearchStrings(r.keys, key)
		r.keys = slices.Insert(r.keys, i, key)
	}
	r.values[key] = value
}

func (r *records) remove(key string) {
	if _, ok := r.values[key]; !ok {
		return
	}
	i := sort.SearchStrings(r.keys, key)
	r.keys = slices.Delete(r.keys, i, i+1)
	delete(r.values, key)
}
