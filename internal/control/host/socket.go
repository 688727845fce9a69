package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	socketDir = "s"
	socketExt = ".sock"
	// staleAfter is how old a socket that nobody listens on must be to be removed: a younger one may
	// belong to a process that is about to listen.
	staleAfter = time.Minute
)

// socket serves the runs of this process to other processes of the same user.
type socket struct {
	name   string // in the socket folder
	path   string
	server *http.Server
	served chan error
}

// listen opens the process's socket, 0600 in a 0700 folder. The caller closes it.
func (s *Service) listen(ctx context.Context) (*socket, error) {
	dir := filepath.Join(s.opt.Dir, socketDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	sweepSockets(ctx, dir)
	name := strings.TrimPrefix(s.self.Name, "own_") + socketExt
	l, err := listenUnix(dir, name)
	if err != nil {
		return nil, err
	}
	sock := &socket{name: name, path: filepath.Join(dir, name), served: make(chan error, 1)}
	if err := os.Chmod(sock.path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(sock.path))
	}
	sock.server = &http.Server{
		Handler:           s.Handler(func(*http.Request) (string, error) { return LocalPrincipal, nil }),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(s.life) },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	go func() { sock.served <- sock.server.Serve(peers{l}) }()
	return sock, nil
}

// close ends the answers under way, waits for the server and removes the socket.
func (k *socket) close(ctx context.Context) error {
	err := k.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, k.server.Close())
	}
	if serr := <-k.served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	if rerr := os.Remove(k.path); !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// peers lets only processes of the same user in. The file's mode says the same; this holds where a
// descriptor was handed on, or the folder lies on a file system without modes.
type peers struct{ net.Listener }

// Accept implements [net.Listener].
func (p peers) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c)
		if err == nil && (uid == os.Geteuid() || uid == 0) {
			return c, nil
		}
		_ = c.Close() // a stranger's connection
	}
}

// sweepSockets removes the sockets of dead processes. It is tidying only: whoever dials finds out
// by itself that nobody listens.
func sweepSockets(ctx context.Context, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().Type() != os.ModeSocket || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		c, err := dialUnix(ctx, dir, e.Name())
		if err == nil {
			_ = c.Close() // somebody listens
		} else if isRefused(err) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// maxSocketPath is what the kernel takes for the path of a socket, with its final NUL.
const maxSocketPath = 104

func listenUnix(dir, name string) (net.Listener, error) {
	path, done, err := shortPath(dir, name)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", filepath.Join(dir, name), err)
	}
	l.SetUnlinkOnClose(false) // the short path is gone by then
	return l, nil
}

func dialUnix(ctx context.Context, dir, name string) (net.Conn, error) {
	path, done, err := shortPath(dir, name)
	if err != nil {
		return nil, err
	}
	defer done()
	d := net.Dialer{Timeout: 2 * time.Second}
	return d.DialContext(ctx, "unix", path)
}
