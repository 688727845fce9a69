package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/rivumi/rivumi/internal/contract"
)

// maxConnections bounds the open connections of one listener: each may hold a follower.
const maxConnections = 8192

// PublicHandler serves the run API to the outside: what [Service.Handler] serves, without the routes
// of boxes. Those are reached over the channel of each box only.
func (s *Service) PublicHandler(authenticate Authenticate) http.Handler {
	inner := s.Handler(authenticate)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/internal/") {
			v := &visit{s: s, w: w, r: r, out: http.NewResponseController(w)}
			v.refuse(contract.Errorf(contract.KindNotFound, "no such route"))
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// Listener is a handler on a TCP address. Its owner closes it.
type Listener struct {
	address net.Addr
	server  *http.Server
	served  chan error
}

// ListenOptions say where and how.
type ListenOptions struct {
	Address string
	TLS     *tls.Config // nil: plain HTTP
	Handler http.Handler
	Log     *slog.Logger
}

// Listen serves a handler with every phase of a request bounded: its header by 10 s and 64 KiB, bodies
// and answers by the handler itself, idle connections by two minutes. It owns one goroutine beside
// those of net/http, until Close.
func Listen(ctx context.Context, o ListenOptions) (*Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.Address, err)
	}
	out := &Listener{address: l.Addr(), served: make(chan error, 1)}
	life := context.WithoutCancel(ctx)
	out.server = &http.Server{
		Handler: o.Handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return life }, TLSConfig: o.TLS,
	}
	if o.Log != nil {
		out.server.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn)
	}
	bounded := netutil.LimitListener(l, maxConnections)
	go func() {
		if o.TLS != nil {
			out.served <- out.server.ServeTLS(bounded, "", "")
			return
		}
		out.served <- out.server.Serve(bounded)
	}()
	return out, nil
}

// Address is where the listener listens.
func (l *Listener) Address() net.Addr { return l.address }

// Close takes no more connections and waits for the answers under way until ctx ends; those of
// followers end when their service stops.
func (l *Listener) Close(ctx context.Context) error {
	err := l.server.Shutdown(ctx)
	if err != nil {
		err = l.server.Close()
	}
	if serr := <-l.served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}
