package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

const (
	queueLen   = 1024
	groupMost  = 256
	groupLimit = 5 * time.Millisecond
)

// update is one queued transaction.
type update struct {
	ctx    context.Context
	id     contract.RunID
	f      func(control.Tx) error
	taken  atomic.Bool   // set by whoever decides its fate: the writer, or a caller that gave up
	result chan struct{} // closed when err and panicked stand
	err    error
	panics any
}

// Update implements [store.Store].
func (s *Store) Update(ctx context.Context, id contract.RunID, f func(control.Tx) error) error {
	u := &update{ctx: ctx, id: id, f: f, result: make(chan struct{})}
	if err := s.enqueue(u); err != nil {
		return err
	}
	select {
	case <-u.result:
	case <-ctx.Done():
		if u.taken.CompareAndSwap(false, true) {
			return context.Cause(ctx)
		}
		<-u.result // begun: only its outcome says whether it is durable
	}
	if u.panics != nil {
		panic(u.panics)
	}
	return u.err
}

func (s *Store) enqueue(u *update) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return contract.Errorf(contract.KindUnavailable, "the store is closed")
	}
	select {
	case s.queue <- u:
		return nil
	default:
		return contract.Errorf(contract.KindTooManyRequests, "%d updates are waiting for the store", queueLen)
	}
}

// writer is the one goroutine that writes.
type writer struct {
	s   *Store
	ctx context.Context // of the store's life; never cancelled
	q   *queries
}

func (s *Store) newWriter(ctx context.Context) (*writer, error) {
	q, err := prepareQueries(ctx, s.conn, writeTexts())
	if err != nil {
		return nil, err
	}
	return &writer{s: s, ctx: ctx, q: q}, nil
}

func (w *writer) run() {
	defer close(w.s.done)
	defer w.q.close()
	for u := range w.s.queue {
		w.commitGroup(u)
	}
}

// commitGroup runs the first update and those that wait behind it, and commits them together. It
// waits for nobody: while one group syncs, the next one gathers in the queue.
func (w *writer) commitGroup(first *update) {
	if !first.taken.CompareAndSwap(false, true) {
		return
	}
	group := []*update{first}
	err := w.exec("BEGIN IMMEDIATE")
	if err != nil {
		w.finish(group, err)
		return
	}
	if len(w.s.queue) == 0 {
		err = w.alone(first)
	} else {
		until := time.Now().Add(groupLimit)
		for u := first; u != nil; u = w.next(&group, until) {
			if err = w.apply(u); err != nil {
				break // the engine gave up the whole transaction
			}
		}
	}
	if err == nil {
		err = w.exec("COMMIT")
	}
	if err != nil {
		// Fails where the engine has rolled back by itself, which is what is wanted.
		_ = w.exec("ROLLBACK")
	}
	w.finish(group, err)
}

// next takes one more waiting update into the group, nil when there is none or the group is full.
func (w *writer) next(group *[]*update, until time.Time) *update {
	for len(*group) < groupMost && time.Now().Before(until) {
		select {
		case u, ok := <-w.s.queue:
			if !ok {
				return nil
			}
			if u.taken.CompareAndSwap(false, true) {
				*group = append(*group, u)
				return u
			}
		default:
			return nil
		}
	}
	return nil
}

var errPanicked = errors.New("the update panicked")

// alone runs the only update of a transaction, which needs no savepoint: what fails it ends both.
func (w *writer) alone(u *update) error {
	t := &tx{ctx: w.ctx, q: w.q, id: u.id, writable: true}
	w.call(u, t)
	switch {
	case u.panics != nil:
		return errPanicked
	case u.err == nil:
		u.err = t.tidy()
	}
	return u.err
}

// apply runs one update inside a savepoint. Its own failure is kept in the update; the error
// returned is one that ends the group.
func (w *writer) apply(u *update) error {
	if err := w.exec("SAVEPOINT u"); err != nil {
		return err
	}
	t := &tx{ctx: w.ctx, q: w.q, id: u.id, writable: true}
	w.call(u, t)
	if u.err == nil && u.panics == nil {
		u.err = t.tidy()
	}
	if u.err == nil && u.panics == nil {
		return w.exec("RELEASE u")
	}
	if err := w.exec("ROLLBACK TO u"); err != nil {
		return errors.Join(t.broken, err)
	}
	return w.exec("RELEASE u")
}

// call runs the update's function and catches its panic for the caller's goroutine.
func (w *writer) call(u *update, t *tx) {
	defer func() { u.panics = recover() }()
	if u.err = context.Cause(u.ctx); u.err == nil {
		u.err = u.f(t)
	}
	if u.err != nil && t.broken != nil && errors.Is(u.err, t.broken) {
		u.err = fmt.Errorf("update run %s: %w", u.id, w.s.explain(u.err))
	}
}

// finish tells every caller of the group. A group that did not commit failed for all of it.
func (w *writer) finish(group []*update, err error) {
	for _, u := range group {
		if err != nil && u.err == nil {
			u.err = fmt.Errorf("commit run %s: %w", u.id, w.s.explain(err))
		}
		close(u.result)
	}
}

func (w *writer) exec(sqlText string) error { return w.q.exec(w.ctx, sqlText) }

// queries are the prepared statements of one connection.
type queries struct {
	conn *sql.Conn
	all  map[string]*sql.Stmt
}

const (
	sqlRun    = "SELECT n FROM run WHERE id = ?"
	sqlAddRun = "INSERT INTO run (id) VALUES (?)"
	sqlGet    = "SELECT v FROM record WHERE run = ? AND k = ?"
	sqlPut    = "INSERT INTO record (run, k, v) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET v = excluded.v"
	sqlDelete = "DELETE FROM record WHERE run = ? AND k = ?"
	sqlList   = "SELECT k, v FROM record WHERE run = ? AND k > ? AND k >= ? AND k < ? ORDER BY k LIMIT ?"
	sqlAny    = "SELECT EXISTS (SELECT 1 FROM record WHERE run = ?)"
	sqlDrop   = "DELETE FROM run WHERE n = ?"
	sqlHeads  = "SELECT r.n, r.id, v.v FROM run r JOIN record v ON v.run = r.n AND v.k = ? WHERE r.n < ? ORDER BY r.n DESC LIMIT ?"
)

func readTexts() []string { return []string{"BEGIN", "ROLLBACK", sqlRun, sqlGet, sqlList, sqlHeads} }

func writeTexts() []string {
	return []string{
		sqlRun, sqlGet, sqlList, sqlAddRun, sqlPut, sqlDelete, sqlAny, sqlDrop,
		"BEGIN IMMEDIATE", "COMMIT", "ROLLBACK", "SAVEPOINT u", "RELEASE u", "ROLLBACK TO u",
	}
}

func prepareQueries(ctx context.Context, conn *sql.Conn, texts []string) (*queries, error) {
	q := &queries{conn: conn, all: make(map[string]*sql.Stmt, len(texts))}
	for _, text := range texts {
		st, err := conn.PrepareContext(ctx, text)
		if err != nil {
			q.close()
			return nil, fmt.Errorf("prepare %q: %w", text, err)
		}
		q.all[text] = st
	}
	return q, nil
}

func (q *queries) exec(ctx context.Context, text string, args ...any) error {
	_, err := q.all[text].ExecContext(ctx, args...)
	return err
}

func (q *queries) close() {
	for _, st := range q.all {
		_ = st.Close() // the connection goes with it
	}
}
