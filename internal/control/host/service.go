package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/store"
	"github.com/rivumi/rivumi/internal/control/store/sqlite"
)

// Causes of the end of an executor's context.
var (
	ErrCancelRequested = errors.New("the run was cancelled")
	ErrWallTime        = errors.New("the run reached its wall time")
	ErrShutdown        = errors.New("the service is shutting down")
)

// LocalPrincipal owns the runs that are started in process or over the unix socket.
const LocalPrincipal = "local"

const (
	defaultMaxRuns = 16
	defaultLease   = 30 * time.Second
)

// Options are what a service is opened with. Dir is needed, the rest has defaults.
type Options struct {
	Dir       string         // state directory, made 0700 where it is missing
	Store     store.Store    // nil: SQLite in Dir. One that has Close is closed by the service.
	Core      control.Config // Secret is read from Dir where it is empty; Version may be left to Version
	Executor  Executor       // nil: the service reads and steers runs but starts none
	Now       func() time.Time
	Entropy   io.Reader
	Version   string
	MaxRuns   int           // runs carried at once; 0: 16
	MaxQueued int           // runs that may wait at once, half of them of one principal; 0: any number
	Lease     time.Duration // how long a run stays owned without a sign of life; 0: 30 s
	Adopt     bool          // carry out queued runs that a dead process left, instead of failing them
	Forwarder Forwarder     // makes the model calls of boxes; nil: there are none
	NoSocket  bool          // open no unix socket for the runs of this process
	Log       *slog.Logger  // nil: nothing is logged

	grace time.Duration // shorter in tests
}

// Service owns the runs of a state directory: it is [contract.Runs] in process, and serves the same
// runs over HTTP. Several services may share one directory; each run has one that carries it.
//
// It owns one goroutine for each active run and one for its executor, and those of its socket. None is
// left when Close has returned nil.
type Service struct {
	opt   Options
	core  *control.Core
	store store.Store
	self  owner
	log   *slog.Logger

	life    context.Context // ends with the service; the parent of every executor's context
	stop    context.CancelCauseFunc
	stopped chan struct{} // closed when every run has ended; followers give up then
	wg      sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	queue    queue
	draining bool                        // no more runs are claimed
	drained  chan struct{}               // closed when none is under way any more; nil before
	active   map[contract.RunID]*attempt // nil while the run is being claimed
	feeds    map[contract.RunID]*feed
	lost     map[contract.RunID]error // runs given up without an end
	socket   *socket
}

// Open opens the service of a state directory and ends the runs whose owner died. The context bounds
// the opening only. The caller closes the service.
func Open(ctx context.Context, opt Options) (*Service, error) {
	opt = withDefaults(opt)
	if err := os.MkdirAll(filepath.Join(opt.Dir, "runs"), 0o700); err != nil {
		return nil, fmt.Errorf("make state directory: %w", err)
	}
	if len(opt.Core.Secret) == 0 {
		secret, err := loadSecret(opt.Dir, opt.Entropy)
		if err != nil {
			return nil, fmt.Errorf("read secret of the state directory: %w", err)
		}
		opt.Core.Secret = secret
	}
	core, err := control.New(opt.Core)
	if err != nil {
		return nil, fmt.Errorf("open service: %w", err)
	}
	st := opt.Store
	if st == nil {
		if st, err = sqlite.Open(ctx, filepath.Join(opt.Dir, "state.db")); err != nil {
			return nil, err
		}
	}
	life, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &Service{
		opt: opt, core: core, store: st, log: opt.Log, life: life, stop: stop, stopped: make(chan struct{}),
		active: map[contract.RunID]*attempt{}, feeds: map[contract.RunID]*feed{}, lost: map[contract.RunID]error{},
	}
	if b, ok := opt.Executor.(*Boxes); ok {
		b.bind(s)
	}
	if s.self, err = newOwner(opt.Entropy); err == nil {
		_, s.self.Boxes = opt.Executor.(*Boxes)
		err = s.recoverRuns(ctx)
	}
	if err != nil {
		stop(ErrShutdown)
		return nil, errors.Join(fmt.Errorf("open service: %w", err), s.closeStore())
	}
	return s, nil
}

func withDefaults(opt Options) Options {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Entropy == nil {
		opt.Entropy = rand.Reader
	}
	if opt.MaxRuns <= 0 {
		opt.MaxRuns = defaultMaxRuns
	}
	if opt.Lease <= 0 {
		opt.Lease = defaultLease
	}
	if opt.grace == 0 {
		opt.grace = defaultGrace
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Core.Version == "" {
		opt.Core.Version = opt.Version
	}
	if opt.Core.Profile.Name == "" {
		opt.Core.Profile = contract.Local()
	}
	return opt
}

// Close asks every active run to stop and waits for it, then closes socket and store. Queued runs
// stay queued in the store. When ctx ends first, Close returns its cause and what still runs goes on;
// it may be called again.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.queue = queue{}
	socket := s.socket
	s.mu.Unlock()
	s.stop(ErrShutdown)
	ended := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("close service: %w", context.Cause(ctx))
	}
	if !first {
		return nil
	}
	close(s.stopped)
	var errs []error
	if socket != nil {
		errs = append(errs, socket.close(ctx))
	}
	return errors.Join(append(errs, s.closeStore())...)
}

func (s *Service) closeStore() error {
	if c, ok := s.store.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// env is the moment and randomness of one call of the core.
func (s *Service) env() (control.Env, error) {
	env := control.Env{Now: s.opt.Now()}
	if _, err := io.ReadFull(s.opt.Entropy, env.Entropy[:]); err != nil {
		return env, fmt.Errorf("read entropy: %w", err)
	}
	return env, nil
}

// update runs one decision about a run and wakes whoever follows it once it is durable.
func (s *Service) update(ctx context.Context, id contract.RunID, decide func(control.Tx, control.Env) error) error {
	err := s.quietly(ctx, id, decide)
	if err == nil {
		s.ring(id)
	}
	return err
}

// quietly is update without the bell, for who tells the followers itself.
func (s *Service) quietly(ctx context.Context, id contract.RunID, decide func(control.Tx, control.Env) error) error {
	env, err := s.env()
	if err != nil {
		return err
	}
	return s.store.Update(ctx, id, func(tx control.Tx) error { return decide(tx, env) })
}

// genuine refuses a made-up id before the store is touched.
func (s *Service) genuine(id contract.RunID) error {
	if !s.core.Genuine(id) {
		return contract.Errorf(contract.KindRunNotFound, "run %q is not known here", string(id))
	}
	return nil
}

// dir is the folder of a run.
func (s *Service) dir(id contract.RunID) string {
	return filepath.Join(s.opt.Dir, "runs", string(id))
}
