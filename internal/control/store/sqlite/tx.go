package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/store"
)

// page is how many records a listing reads at a time. Each page is closed before the caller sees
// it, so that it may write while it lists.
const page = 128

// tx is one transaction over one run's records.
type tx struct {
	ctx      context.Context
	q        *queries
	id       contract.RunID
	writable bool

	looked  bool
	run     int64 // the run's number, 0 while it has none
	deleted bool
	broken  error // the last error of the engine
}

// number finds the run's number, 0 for a run without records.
func (t *tx) number() (int64, error) {
	if t.looked {
		return t.run, nil
	}
	err := t.q.all[sqlRun].QueryRowContext(t.ctx, string(t.id)).Scan(&t.run)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, t.fail(err)
	}
	t.looked = true
	return t.run, nil
}

func (t *tx) fail(err error) error {
	t.broken = err
	return err
}

// Get implements [control.Tx].
func (t *tx) Get(key string) ([]byte, bool, error) {
	run, err := t.number()
	if err != nil || run == 0 {
		return nil, false, err
	}
	var v []byte
	err = t.q.all[sqlGet].QueryRowContext(t.ctx, run, []byte(key)).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, t.fail(err)
	}
	return v, true, nil
}

// Put implements [control.Tx].
func (t *tx) Put(key string, value []byte) error {
	if !t.writable {
		return store.ErrReadOnly
	}
	if err := store.CheckKey(key); err != nil {
		return err
	}
	run, err := t.number()
	if err != nil {
		return err
	}
	if run == 0 {
		res, err := t.q.all[sqlAddRun].ExecContext(t.ctx, string(t.id))
		if err != nil {
			return t.fail(err)
		}
		if t.run, err = res.LastInsertId(); err != nil {
			return t.fail(err)
		}
	}
	if value == nil {
		value = []byte{}
	}
	if err := t.q.exec(t.ctx, sqlPut, t.run, []byte(key), value); err != nil {
		return t.fail(err)
	}
	return nil
}

// Delete implements [control.Tx].
func (t *tx) Delete(key string) error {
	if !t.writable {
		return store.ErrReadOnly
	}
	run, err := t.number()
	if err != nil || run == 0 {
		return err
	}
	t.deleted = true
	if err := t.q.exec(t.ctx, sqlDelete, run, []byte(key)); err != nil {
		return t.fail(err)
	}
	return nil
}

// List implements [control.Tx].
func (t *tx) List(prefix, after string, limit int) iter.Seq2[control.Record, error] {
	return func(yield func(control.Record, error) bool) {
		run, err := t.number()
		if err != nil {
			yield(control.Record{}, err)
			return
		}
		for left := limit; run != 0; {
			n := page
			if limit > 0 {
				n = min(page, left)
			}
			records, err := t.page(run, prefix, after, n)
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
				after = r.Key
			}
			if err != nil {
				yield(control.Record{}, t.fail(err))
				return
			}
			left -= len(records)
			if len(records) < n || limit > 0 && left == 0 {
				return
			}
		}
	}
}

func (t *tx) page(run int64, prefix, after string, limit int) (records []control.Record, err error) {
	rows, err := t.q.all[sqlList].QueryContext(t.ctx, run, []byte(after), []byte(prefix), []byte(store.PrefixEnd(prefix)), limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var k, v []byte
		if err := rows.Scan(&k, &v); err != nil {
			return records, err
		}
		records = append(records, control.Record{Key: string(k), Value: v})
	}
	return records, rows.Err()
}

// tidy forgets a run whose last record is gone.
func (t *tx) tidy() error {
	if !t.deleted || t.run == 0 {
		return nil
	}
	var some bool
	if err := t.q.all[sqlAny].QueryRowContext(t.ctx, t.run).Scan(&some); err != nil || some {
		return err
	}
	return t.q.exec(t.ctx, sqlDrop, t.run)
}

// View implements [store.Store].
func (s *Store) View(ctx context.Context, id contract.RunID, f func(control.Tx) error) (err error) {
	q, err := s.takeReader(ctx)
	if err != nil {
		return err
	}
	defer func() { s.idle <- q }()
	if err := q.exec(ctx, "BEGIN"); err != nil {
		return fmt.Errorf("view run %s: %w", id, s.explain(err))
	}
	t := &tx{ctx: ctx, q: q, id: id}
	defer func() {
		// Ends the snapshot whatever became of ctx; a reader that can't is replaced.
		if rerr := q.exec(context.WithoutCancel(ctx), "ROLLBACK"); rerr != nil {
			q.close()
			err = errors.Join(err, rerr, q.conn.Close())
			q = nil
		}
	}()
	if err = f(t); err != nil && t.broken != nil && errors.Is(err, t.broken) {
		return fmt.Errorf("view run %s: %w", id, s.explain(err))
	}
	return err
}

// takeReader waits for one of the readers and gives it a connection if it has none. Whoever takes
// it puts it back into s.idle.
func (s *Store) takeReader(ctx context.Context) (*queries, error) {
	s.mu.RLock()
	defer s.mu.RUnlock() // before the wait in Close begins, every taker has one or is refused
	if s.closed {
		return nil, contract.Errorf(contract.KindUnavailable, "the store is closed")
	}
	var q *queries
	select {
	case q = <-s.idle:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if q != nil {
		return q, nil
	}
	conn, err := s.read.Conn(ctx)
	if err == nil {
		if q, err = prepareQueries(ctx, conn, readTexts()); err != nil {
			err = errors.Join(err, conn.Close())
		}
	}
	if err != nil {
		s.idle <- nil
		return nil, fmt.Errorf("open reader of %s: %w", s.path, s.explain(err))
	}
	return q, nil
}

// headsPage is how many runs are read at a time.
const headsPage = 64

// Runs implements [store.Store].
func (s *Store) Runs(ctx context.Context, key string) iter.Seq2[store.Head, error] {
	return func(yield func(store.Head, error) bool) {
		for before := int64(1) << 62; ; {
			heads, last, err := s.heads(ctx, key, before)
			for _, h := range heads {
				if !yield(h, nil) {
					return
				}
			}
			if err != nil {
				yield(store.Head{}, fmt.Errorf("list runs: %w", s.explain(err)))
				return
			}
			if len(heads) < headsPage {
				return
			}
			before = last
		}
	}
}

func (s *Store) heads(ctx context.Context, key string, before int64) (heads []store.Head, last int64, err error) {
	q, err := s.takeReader(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { s.idle <- q }()
	rows, err := q.all[sqlHeads].QueryContext(ctx, []byte(key), before, headsPage)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var h store.Head
		if err := rows.Scan(&last, &h.ID, &h.Value); err != nil {
			return heads, last, err
		}
		heads = append(heads, h)
	}
	return heads, last, rows.Err()
}
