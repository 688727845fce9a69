package host

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"path/filepath"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/remote/client"
)

// ownerPatience is how long the socket of a run's owner may not answer before the store is asked.
const ownerPatience = 2 * time.Second

// Link is a run's owner seen from another process of the same user: over its socket while it lives,
// and the state directory itself where it does not. The caller closes it.
type Link struct {
	*Service                // on the state directory; starts nothing
	remote   *client.Client // nil where no owner answers
}

// Dial opens the way to a run of a state directory. opt needs Dir, and Core where the caller has one;
// an Executor is not used. Runs whose owner died are ended on the way, as by [Open].
func Dial(ctx context.Context, opt Options, id contract.RunID) (*Link, error) {
	opt.Executor, opt.NoSocket = nil, true
	s, err := Open(ctx, opt)
	if err != nil {
		return nil, err
	}
	l := &Link{Service: s}
	if l.remote, err = s.dialOwner(ctx, id); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return l, nil
}

// dialOwner gives a client of the process that has the run, nil where none answers.
func (s *Service) dialOwner(ctx context.Context, id contract.RunID) (*client.Client, error) {
	if err := s.genuine(id); err != nil {
		return nil, err
	}
	var o owner
	var owned bool
	err := s.store.View(ctx, id, func(tx control.Tx) error {
		_, err := s.core.Read(tx)
		if err == nil {
			o, owned, err = ownerOf(tx)
		}
		return err
	})
	if err != nil || !owned || o.Socket == "" || filepath.Base(o.Socket) != o.Socket {
		return nil, err
	}
	dir := filepath.Join(s.opt.Dir, socketDir)
	c, err := dialUnix(ctx, dir, o.Socket)
	if err != nil {
		return nil, nil // the store has all that the owner would say
	}
	_ = c.Close()
	return client.New(client.Options{
		URL: "http://rivumi", Patience: ownerPatience,
		Dial: func(ctx context.Context) (net.Conn, error) { return dialUnix(ctx, dir, o.Socket) },
	})
}

// Close closes the link; nothing of it is left running.
func (l *Link) Close(ctx context.Context) error {
	if l.remote != nil {
		return errors.Join(l.remote.Close(), l.Service.Close(ctx))
	}
	return l.Service.Close(ctx)
}

// through asks the owner first, and the store where the owner is gone.
func through[T any](l *Link, ask func(contract.Runs) (T, error)) (T, error) {
	if l.remote != nil {
		v, err := ask(l.remote)
		if contract.KindOf(err) != contract.KindUnavailable {
			return v, err
		}
	}
	return ask(l.Service)
}

// Run implements [contract.Watcher].
func (l *Link) Run(ctx context.Context, id contract.RunID) (contract.Run, error) {
	return through(l, func(r contract.Runs) (contract.Run, error) { return r.Run(ctx, id) })
}

// Events implements [contract.Watcher]. Where the owner goes away the store goes on.
func (l *Link) Events(ctx context.Context, id contract.RunID, after int64) iter.Seq2[contract.Event, error] {
	return func(yield func(contract.Event, error) bool) {
		if l.remote != nil {
			for e, err := range l.remote.Events(ctx, id, after) {
				if contract.KindOf(err) == contract.KindUnavailable && ctx.Err() == nil {
					break
				}
				if !yield(e, err) || err != nil || e.Ends() {
					return
				}
				after = e.Seq
			}
		}
		// The owner may have died: then nobody but us will write the end of the run.
		if err := l.recoverRuns(ctx); err != nil {
			yield(contract.Event{}, err)
			return
		}
		for e, err := range l.Service.Events(ctx, id, after) {
			if !yield(e, err) {
				return
			}
		}
	}
}

type none struct{}

// Decide implements [contract.Steerer].
func (l *Link) Decide(ctx context.Context, id contract.RunID, approval string, d contract.Decision) error {
	_, err := through(l, func(r contract.Runs) (none, error) { return none{}, r.Decide(ctx, id, approval, d) })
	return err
}

// Cancel implements [contract.Steerer].
func (l *Link) Cancel(ctx context.Context, id contract.RunID, why string) error {
	_, err := through(l, func(r contract.Runs) (none, error) { return none{}, r.Cancel(ctx, id, why) })
	return err
}

// Send implements [contract.Steerer].
func (l *Link) Send(ctx context.Context, id contract.RunID, text string) error {
	_, err := through(l, func(r contract.Runs) (none, error) { return none{}, r.Send(ctx, id, text) })
	return err
}

// Artifacts implements [contract.Collector].
func (l *Link) Artifacts(ctx context.Context, id contract.RunID) ([]contract.Artifact, error) {
	return through(l, func(r contract.Runs) ([]contract.Artifact, error) { return r.Artifacts(ctx, id) })
}

// Artifact implements [contract.Collector].
func (l *Link) Artifact(ctx context.Context, id contract.RunID, name string) (io.ReadCloser, error) {
	return through(l, func(r contract.Runs) (io.ReadCloser, error) { return r.Artifact(ctx, id, name) })
}
