// Package sqlite is a store in one SQLite file that several processes share. Writes of one process
// go through one goroutine that commits them in groups (WAL, synchronous=FULL), so that what is
// acknowledged survives a power cut and many runs together cost few disk syncs. Reads have a pool
// of their own and never wait for writes.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/store"
)

const (
	schemaVersion = 1
	// busyWait is how long a write waits for another process that writes.
	busyWait = 10 * time.Second
	readers  = 4
)

// The run's number is the order of creation and never used twice, so that a record written for a
// removed run can't fall to another one. Keys are blobs: byte order, whatever the text encoding.
const schema = `
CREATE TABLE run (n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE record (run INTEGER NOT NULL, k BLOB NOT NULL, v BLOB NOT NULL, PRIMARY KEY (run, k)) STRICT, WITHOUT ROWID;
PRAGMA user_version = 1;`

// Store is a [store.Store] in a file. It owns one goroutine until Close.
type Store struct {
	path   string
	write  *sql.DB
	conn   *sql.Conn // the only connection of write; the writer's alone
	read   *sql.DB
	idle   chan *queries // the readers, nil for one that has no connection yet
	queue  chan *update
	done   chan struct{} // closed when the writer has ended
	mu     sync.RWMutex  // guards closed against sends on queue
	closed bool
}

// Open opens the file at path, which it makes (0600, in a folder of 0700) where there is none. The
// context bounds the opening only. The caller closes the store.
func Open(ctx context.Context, path string) (*Store, error) {
	made, err := prepare(path)
	if err != nil {
		return nil, fmt.Errorf("prepare store %s: %w", path, err)
	}
	s := &Store{path: path, queue: make(chan *update, queueLen), done: make(chan struct{})}
	if err := s.open(ctx); err != nil {
		err = errors.Join(s.explain(err), s.closeDBs())
		if info, serr := os.Stat(path); made && serr == nil && info.Size() == 0 {
			err = errors.Join(err, os.Remove(path))
		}
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	w, err := s.newWriter(context.WithoutCancel(ctx))
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, errors.Join(s.explain(err), s.closeDBs()))
	}
	go w.run()
	return s, nil
}

// prepare makes folder and file, so that no moment shows either with a wider mode.
func prepare(path string) (made bool, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := f.Close(); err != nil {
		return true, err
	}
	return true, syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *Store) open(ctx context.Context) error {
	var err error
	if s.write, err = driver.Open(s.dsn("rw", "wal")); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	if s.conn, err = s.connect(ctx); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	// The engine makes these two by the umask; until here only the folder's 0700 guards them.
	for _, name := range []string{s.path + "-wal", s.path + "-shm"} {
		if err := os.Chmod(name, 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if s.read, err = driver.Open(s.dsn("ro", "")); err != nil {
		return err
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	s.idle = make(chan *queries, readers)
	for range readers {
		s.idle <- nil
	}
	return nil
}

// connect retries while other processes turn the new file to WAL: SQLite doesn't wait for that by itself.
func (s *Store) connect(ctx context.Context) (*sql.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		conn, err := s.write.Conn(ctx)
		if err == nil || !errors.Is(err, sqlite3.BUSY) && !errors.Is(err, sqlite3.LOCKED) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

func (s *Store) dsn(mode, journal string) string {
	q := url.Values{"mode": {mode}, "_txlock": {"deferred"}}
	q.Add("_pragma", fmt.Sprintf("busy_timeout(%d)", busyWait.Milliseconds()))
	if journal != "" {
		q.Add("_pragma", "journal_mode("+journal+")")
		q.Add("_pragma", "synchronous(full)")
		q.Add("_pragma", "journal_size_limit(16777216)")
	} else {
		q.Add("_pragma", "query_only(true)")
	}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: s.path, RawQuery: q.Encode()}).String()
}

func (s *Store) migrate(ctx context.Context) error {
	version, err := s.version(ctx)
	if err != nil || version == schemaVersion {
		return err
	}
	if _, err := s.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	// Looked at again inside the transaction: another process may have been first.
	if version, err = s.version(ctx); err == nil && version == 0 {
		_, err = s.conn.ExecContext(ctx, schema)
	}
	if err == nil && version > schemaVersion {
		err = contract.Errorf(contract.KindConflict, "the state was written by a newer rivumi (schema %d)", version)
	}
	if err != nil {
		_, rerr := s.conn.ExecContext(ctx, "ROLLBACK")
		return errors.Join(err, rerr)
	}
	_, err = s.conn.ExecContext(ctx, "COMMIT")
	return err
}

func (s *Store) version(ctx context.Context) (n int, err error) {
	err = s.conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&n)
	return n, err
}

// Path is the file of the store.
func (s *Store) Path() string { return s.path }

// Check reads the whole file and reports what of it is damaged.
func (s *Store) Check(ctx context.Context) error {
	var verdict string
	if err := s.read.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return fmt.Errorf("check store %s: %w", s.path, s.explain(err))
	}
	if verdict != "ok" {
		return contract.Errorf(contract.KindInternal, "check store %s: %s", s.path, verdict)
	}
	return nil
}

// Close waits for the updates that were accepted, then closes the file. It is safe to call twice.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.queue)
	s.mu.Unlock()
	<-s.done
	for range readers {
		if q := <-s.idle; q != nil { // waits for the views that are under way
			q.close()
			_ = q.conn.Close() // goes back to its pool, which is closed next
		}
	}
	return s.closeDBs()
}

// closeDBs closes readers first: the last connection folds the WAL back into the file.
func (s *Store) closeDBs() error {
	var errs []error
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.write != nil {
		errs = append(errs, s.write.Close())
	}
	return errors.Join(errs...)
}

// explain gives errors of the engine the kind a caller can act on.
func (s *Store) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlite3.FULL), errors.Is(err, sqlite3.IOERR) && s.noSpace():
		return contract.Errorf(contract.KindUnavailable, "%w", fullError{err})
	case errors.Is(err, sqlite3.BUSY), errors.Is(err, sqlite3.LOCKED):
		return contract.Errorf(contract.KindUnavailable, "the store is busy: %w", err)
	case errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.NOTADB):
		return contract.Errorf(contract.KindInternal, "the store is damaged: %w", err)
	}
	return err
}

// noSpace tells a full disk from other I/O errors where the engine has one code for both.
func (s *Store) noSpace() bool {
	var st unix.Statfs_t
	return unix.Statfs(filepath.Dir(s.path), &st) == nil && st.Bavail < 16
}

// fullError is an engine's error that is known to be a full disk.
type fullError struct{ err error }

func (e fullError) Error() string        { return store.ErrDiskFull.Error() + ": " + e.err.Error() }
func (e fullError) Is(target error) bool { return target == store.ErrDiskFull }
func (e fullError) Unwrap() error        { return e.err }
