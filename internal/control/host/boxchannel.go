package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/sandbox"
)

// channel is the server of one box: what connects here is that run's box and nobody else.
type channel struct {
	server *http.Server
	served chan error
	path   string
}

// open lays the folders of the box and listens on its socket. The folders a box sees can be read by
// anybody who gets there; the run's own folder around them is 0700.
func (x *boxed) open(ctx context.Context) (*channel, error) {
	for name, mode := range map[string]os.FileMode{"source": 0o755, "channel": 0o755, "scratch": 0o700} {
		dir := filepath.Join(x.dir, name)
		if err := os.MkdirAll(dir, mode); err != nil {
			return nil, fmt.Errorf("make the folders of the box: %w", err)
		}
		if err := os.Chmod(dir, mode); err != nil { // whatever the umask says
			return nil, fmt.Errorf("make the folders of the box: %w", err)
		}
	}
	if err := x.laySource(); err != nil {
		return nil, err
	}
	dir := filepath.Join(x.dir, "channel")
	path := filepath.Join(dir, sandbox.ChannelSocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open the channel of the box: %w", err)
	}
	l, err := listenUnix(dir, sandbox.ChannelSocket)
	if err == nil {
		err = os.Chmod(path, 0o666) // the box's user is not ours
	}
	if err != nil {
		return nil, fmt.Errorf("open the channel of the box: %w", err)
	}
	return x.serve(ctx, l, path), nil
}

// laySource shows the box the uploaded source, where the task has one.
func (x *boxed) laySource() error {
	to := filepath.Join(x.dir, "source", SourceFile)
	if x.j.Task.Upload == nil {
		return nil
	}
	from := filepath.Join(x.j.Dir, SourceFile)
	err := ignoreExist(os.Link(from, to))
	if err == nil {
		err = os.Chmod(to, 0o444) // one file under two names; every folder that leads to it is 0700 but the box's
	}
	if err != nil {
		return fmt.Errorf("lay the source of the box: %w", err)
	}
	return nil
}

func (x *boxed) serve(ctx context.Context, l net.Listener, path string) *channel {
	life := context.WithoutCancel(ctx)
	c := &channel{path: path, served: make(chan error, 1), server: &http.Server{
		Handler: x.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return life },
		ErrorLog:    slog.NewLogLogger(x.b.s.log.Handler(), slog.LevelWarn),
	}}
	go func() { c.served <- c.server.Serve(l) }()
	return c
}

// close ends what is under way at once: the run is over, or its box will ask again.
func (c *channel) close() error {
	err := c.server.Close()
	if serr := <-c.served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	if rerr := os.Remove(c.path); !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// handler serves the internal routes, but keeps the box's report for the executor: the run ends when
// its box is gone and what it reported was held against the rules, not when it says so.
func (x *boxed) handler() http.Handler {
	inner := x.b.s.BoxHandler(x.j.Run.ID)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/internal/v1/runs/"+string(x.j.Run.ID)+"/result" {
			inner.ServeHTTP(w, r)
			return
		}
		if err := x.takeReport(w, r); err != nil {
			v := &visit{s: x.b.s, w: w, r: r, out: http.NewResponseController(w)}
			v.refuse(err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
}

// takeReport reads the first report; later ones are answered and change nothing.
func (x *boxed) takeReport(w http.ResponseWriter, r *http.Request) error {
	env, err := x.b.s.env()
	if err != nil {
		return err
	}
	m, err := x.b.s.core.Route(env, control.Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: lowerHeader(r.Header), ChannelRun: x.j.Run.ID,
	})
	if err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, m.BodyBytes))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return control.TooLarge(m)
	}
	if err != nil {
		return contract.Errorf(contract.KindInvalid, "the body could not be read")
	}
	e, err := x.b.s.core.Reported(x.j.Run.ID, body)
	if err != nil {
		return err
	}
	x.told.Do(func() { x.reports <- e })
	return nil
}
