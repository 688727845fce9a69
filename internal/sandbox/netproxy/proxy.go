// Package netproxy is the only way out of a contained network: an HTTP proxy on the host's side of
// a listener that lives inside. It knows a list of names and nothing else. A name is normalised,
// matched, resolved once, and the connection goes to an address that was looked at, so that a
// second answer of the resolver changes nothing. It follows no redirect, adds no credential and
// reads nothing of what is tunnelled. What it accepts it serves in goroutines that Close waits for.
package netproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

const (
	dialTimeout   = 15 * time.Second
	headerTimeout = 15 * time.Second
	maxHeader     = 32 << 10
	maxConns      = 128
)

// Options say what a proxy lets through.
type Options struct {
	Hosts []string // see ParseRules

	// Lookup and Dial default to the system's resolver and dialler.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Refused hears of each refusal, from many goroutines.
	Refused func(authority string, why error)
}

// Server is a running proxy.
type Server struct {
	rules  Rules
	o      Options
	http   *http.Server
	out    *http.Transport
	ctx    context.Context // ends with the server
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Serve accepts on ln, which it owns from now on, until Close. Only the values of ctx are used: the
// proxy lives as long as its owner, not as long as what opened it.
func Serve(ctx context.Context, ln net.Listener, o Options) (*Server, error) {
	rules, err := ParseRules(o.Hosts)
	if err != nil {
		return nil, err
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".") // rooted: no search list
		}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", to.String())
		}
	}
	s := &Server{rules: rules, o: o}
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return s.ctx },
	}
	s.out = &http.Transport{
		DialContext: s.dialAuthority, DisableCompression: true, DisableKeepAlives: true, ResponseHeaderTimeout: time.Minute,
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		_ = s.http.Serve(&limited{Listener: ln, slots: make(chan struct{}, maxConns)})
	}()
	return s, nil
}

// Close ends every connection and waits for what served them.
func (s *Server) Close() {
	s.cancel()
	s.http.Close()
	s.out.CloseIdleConnections()
	s.wg.Wait()
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.wg.Add(1)
	defer s.wg.Done()
	if r.Method == http.MethodConnect {
		s.tunnel(w, r)
		return
	}
	if r.URL.Scheme != "http" || r.URL.User != nil {
		http.Error(w, "this is a proxy for http and CONNECT", http.StatusBadRequest)
		return
	}
	if _, err := s.rules.Check(r.URL.Host, 80); err != nil {
		s.refuse(w, r.URL.Host, err)
		return
	}
	s.forward(w, r)
}

func (s *Server) refuse(w http.ResponseWriter, authority string, why error) {
	if s.o.Refused != nil {
		s.o.Refused(authority, why)
	}
	http.Error(w, "sandbox network: "+why.Error(), http.StatusForbidden)
}

// forward passes one plain request on. The name in its URL is the one that counts, not its header.
func (s *Server) forward(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.Host, out.RequestURI, out.Close = r.URL.Host, "", false
	for _, h := range []string{"Connection", "Proxy-Connection", "Proxy-Authorization", "Keep-Alive", "Te", "Trailer", "Upgrade"} {
		out.Header.Del(h)
	}
	resp, err := s.out.RoundTrip(out)
	if err != nil {
		s.unreachable(w, r.URL.Host, err)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		if k != "Connection" && k != "Keep-Alive" && k != "Proxy-Connection" && k != "Upgrade" {
			w.Header()[k] = v
		}
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // either end may leave; there is nobody to tell
}

func (s *Server) unreachable(w http.ResponseWriter, authority string, err error) {
	var private *privateError
	if errors.As(err, &private) {
		s.refuse(w, authority, err)
		return
	}
	http.Error(w, "sandbox network: "+err.Error(), http.StatusBadGateway)
}

func (s *Server) tunnel(w http.ResponseWriter, r *http.Request) {
	t, err := s.rules.Check(r.Host, 443)
	if err == nil && r.RequestURI != r.Host {
		err = errors.New("two different names in one request")
	}
	if err != nil {
		s.refuse(w, r.Host, err)
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, dialTimeout)
	far, err := s.dial(ctx, t)
	cancel()
	if err != nil {
		s.unreachable(w, r.Host, err)
		return
	}
	defer far.Close()
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "cannot tunnel", http.StatusInternalServerError)
		return
	}
	defer near.Close()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	stop := context.AfterFunc(s.ctx, func() { near.Close(); far.Close() })
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(far, buffered) // what the client had already sent comes first
		closeWrite(far)
	}()
	_, _ = io.Copy(near, far)
	closeWrite(near)
	if s.ctx.Err() == nil {
		_ = near.SetReadDeadline(time.Now().Add(time.Minute)) // the far end is done: the near one may not hold on for ever
	}
	<-done
}

func closeWrite(c net.Conn) {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite() // closed already is fine
		return
	}
	c.Close()
}

// dialAuthority is the transport's dialler: the same check again, on what is really dialled.
func (s *Server) dialAuthority(ctx context.Context, _, authority string) (net.Conn, error) {
	t, err := s.rules.Check(authority, 80)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return s.dial(ctx, t)
}

type privateError struct{ name string }

func (e *privateError) Error() string {
	return fmt.Sprintf("%s resolves to an address that is not public; list the address too if it is meant", e.name)
}

// dial resolves once and connects to the first address that may be reached and answers.
func (s *Server) dial(ctx context.Context, t Target) (net.Conn, error) {
	if t.Addr.IsValid() {
		return s.o.Dial(ctx, netip.AddrPortFrom(t.Addr, t.Port))
	}
	addrs, err := s.o.Lookup(ctx, t.Name)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", t.Name, err)
	}
	last := error(&privateError{t.Name})
	for _, a := range addrs {
		if !s.rules.Reachable(a) {
			continue
		}
		c, err := s.o.Dial(ctx, netip.AddrPortFrom(a.Unmap(), t.Port))
		if err == nil {
			return c, nil
		}
		last = fmt.Errorf("connect to %s port %s: %w", t.Name, strconv.Itoa(int(t.Port)), err)
	}
	return nil, last
}

// limited bounds how many connections are open at once.
type limited struct {
	net.Listener
	slots chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case l.slots <- struct{}{}:
		return &slotted{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
	default:
		c.Close()
		return &slotted{Conn: c, free: func() {}}, nil // served and ended at once
	}
}

type slotted struct {
	net.Conn
	free func()
}

func (c *slotted) Close() error {
	err := c.Conn.Close()
	c.free()
	return err
}

// CloseWrite ends one direction.
func (c *slotted) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}
