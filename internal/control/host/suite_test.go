package host_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/control/store/mem"
	"github.com/rivumi/rivumi/internal/remote/client"
	"github.com/rivumi/rivumi/internal/testkit/runstest"
)

// way opens a way to a service: in process, or over one of the wires.
type way func(t *testing.T, s *host.Service, dir string) contract.Runs

func suite(t *testing.T, inMemory bool, reach way) {
	runstest.Run(t, func(t *testing.T, set runstest.Setup) runstest.Place {
		opt := host.Options{Dir: t.TempDir(), Executor: set.Executor, MaxRuns: set.MaxRuns, Version: "test"}
		if inMemory {
			opt.Store = mem.New()
		}
		s := open(t, opt)
		return runstest.Place{
			Runs: reach(t, s, opt.Dir),
			Restart: func(t *testing.T) contract.Runs {
				closeService(t, s)
				return reach(t, open(t, opt), opt.Dir)
			},
		}
	})
}

func TestRunsInProcessInMemory(t *testing.T) {
	suite(t, true, func(_ *testing.T, s *host.Service, _ string) contract.Runs { return s })
}

func TestRunsInProcessOnSQLite(t *testing.T) {
	suite(t, false, func(_ *testing.T, s *host.Service, _ string) contract.Runs { return s })
}

const token = "a token of the test"

func authenticate(r *http.Request) (string, error) {
	if r.Header.Get("Authorization") == "Bearer "+token {
		return host.LocalPrincipal, nil
	}
	return "", nil
}

func overTCP(t *testing.T, s *host.Service, _ string) contract.Runs {
	srv := httptest.NewServer(s.Handler(authenticate))
	t.Cleanup(srv.Close)
	return newClient(t, client.Options{URL: srv.URL, Token: token})
}

func newClient(t *testing.T, opt client.Options) *client.Client {
	t.Helper()
	c, err := client.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestRunsOverTCP(t *testing.T) { suite(t, false, overTCP) }

// The unix socket is the one that the service itself opens for its runs.
func TestRunsOverUnixSocket(t *testing.T) {
	suite(t, false, func(t *testing.T, s *host.Service, dir string) contract.Runs {
		if err := s.OpenSocketForTest(t.Context()); err != nil {
			t.Fatal(err)
		}
		return newClient(t, client.Options{URL: "http://rivumi", Dial: dialer(onlySocket(t, dir))})
	})
}

func onlySocket(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 1 || !strings.HasSuffix(names[0], ".sock") {
		t.Fatalf("sockets: %v", names)
	}
	return filepath.Join(dir, "s", names[0])
}

func dialer(path string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}
