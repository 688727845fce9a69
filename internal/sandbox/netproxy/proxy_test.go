package netproxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/rivumi/rivumi/internal/sandbox/netproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRulesLetThroughWhatIsListed(t *testing.T) {
	r, err := netproxy.ParseRules([]string{"example.org", "*.pkg.dev", "Mirror.test:8443", "10.1.2.3", "fd00::/8"})
	if err != nil {
		t.Fatal(err)
	}
	for authority, want := range map[string]bool{
		"example.org:443": true, "EXAMPLE.org:80": true, "example.org": true, "a.pkg.dev:443": true, "a.b.pkg.dev:443": true,
		"mirror.test:8443": true, "10.1.2.3:443": true, "10.1.2.3:9999": true, "[fd00::1]:443": true,

		"example.org:22": false, "www.example.org:443": false, "pkg.dev:443": false, "evilpkg.dev:443": false, "mirror.test:443": false,
		"example.org.:443": false, "example.org\x00.evil.net:443": false, "evil.net\x00example.org:443": false, "example.org@evil.net:443": false,
		"evil.net/example.org:443": false, "example.org:443:443": false, "example.org:0443": false, "example.org:+443": false, "example.org:70000": false,
		"exämple.org:443": false, "example．org:443": false, "ex%61mple.org:443": false, " example.org:443": false, "": false, ":443": false,
		"a..pkg.dev:443": false, ".pkg.dev:443": false, "*.pkg.dev:443": false, "a\r\nb.pkg.dev:443": false,
		"10.1.2.4:443": false, "0x0a010203:443": false, "167838211:443": false, "10.1.515:443": false, "012.1.2.3:443": false, "10.1.2.3.:443": false,
		"[::ffff:10.1.2.3]:443": false, "[::1]:443": false, "[fd00::1%eth0]:443": false, "[example.org]:443": false, "[fd00::1]443": false,
		"[fd00::1": false, "127.0.0.1:443": false, "localhost:443": false, "169.254.169.254:80": false,
	} {
		_, err := r.Check(authority, 443)
		if (err == nil) != want {
			t.Errorf("%q: %v", authority, err)
		}
	}
	for _, bad := range []string{"*", "*.com", "*.*.org", "a b", "example.org:0", "example.org:x", "http://example.org", "example.org/", ""} {
		if _, err := netproxy.ParseRules([]string{bad}); err == nil {
			t.Errorf("rule %q was taken", bad)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for a, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true,
		"127.0.0.1": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false,
		"224.0.0.1": false, "255.255.255.255": false, "::1": false, "::": false, "fe80::1": false, "fd00::1": false, "::ffff:127.0.0.1": false,
		"::ffff:10.0.0.1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false, "2001::1": false, "ff02::1": false, "::127.0.0.1": false,
	} {
		if got := netproxy.Public(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %v", a, got)
		}
	}
}

func FuzzNormalisedNamesAreSafe(f *testing.F) {
	f.Add("example.org")
	f.Add("a\x00b.org")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := netproxy.Normalise(s)
		if err != nil {
			return
		}
		if again, err := netproxy.Normalise(n); err != nil || again != n {
			t.Fatalf("%q gave %q, which gives %q %v", s, n, again, err)
		}
		if _, err := netip.ParseAddr(n); err == nil || strings.ContainsAny(n, "\x00/@:%[] \r\n") || strings.HasSuffix(n, ".") {
			t.Fatalf("%q gave %q", s, n)
		}
	})
}

// world is a proxy whose names all lead to one test server, whatever their addresses.
type world struct {
	proxy   string
	addrs   map[string][]string
	lookups atomic.Int64
	dialled atomic.Value
}

func newWorld(t *testing.T, far string, hosts ...string) *world {
	t.Helper()
	w := &world{addrs: map[string][]string{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := netproxy.Serve(t.Context(), ln, netproxy.Options{
		Hosts: hosts,
		Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
			w.lookups.Add(1)
			var out []netip.Addr
			for _, a := range w.addrs[name] {
				out = append(out, netip.MustParseAddr(a))
			}
			if out == nil {
				return nil, errors.New("no such host")
			}
			return out, nil
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			w.dialled.Store(to.String())
			var d net.Dialer
			return d.DialContext(ctx, "tcp", far)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	w.proxy = ln.Addr().String()
	return w
}

func (w *world) client() *http.Client {
	u := &url.URL{Scheme: "http", Host: w.proxy}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u), DisableKeepAlives: true}}
}

func TestPlainRequestGoesToTheNameThatWasChecked(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://evil.test/", http.StatusFound)
			return
		}
		fmt.Fprintf(w, "%s %s %s", r.Host, r.URL.Path, r.Header.Get("Proxy-Authorization"))
	}))
	defer far.Close()
	w := newWorld(t, far.Listener.Addr().String(), "good.test")
	w.addrs["good.test"] = []string{"8.8.8.8"}
	w.addrs["evil.test"] = []string{"9.9.9.9"}
	if code, body := get(t, w.client(), "http://good.test/x"); code != 200 || body != "good.test /x " {
		t.Errorf("%d %q", code, body)
	}
	if n := w.lookups.Load(); n != 1 {
		t.Errorf("resolved %d times", n)
	}
	if w.dialled.Load() != "8.8.8.8:80" {
		t.Errorf("dialled %v", w.dialled.Load())
	}
	for _, u := range []string{"http://evil.test/", "http://good.test/away", "http://good.test:22/", "http://127.0.0.1/"} {
		if code, body := get(t, w.client(), u); code != http.StatusForbidden {
			t.Errorf("%s: %d %q", u, code, body)
		}
	}
}

func TestNamesThatLeadToPrivateAddressesAreRefused(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "in") }))
	defer far.Close()
	w := newWorld(t, far.Listener.Addr().String(), "rebind.test", "inner.test", "10.9.0.0/16")
	w.addrs["rebind.test"] = []string{"127.0.0.1", "::ffff:169.254.169.254"}
	w.addrs["inner.test"] = []string{"10.9.1.1"}
	if code, body := get(t, w.client(), "http://rebind.test/"); code != http.StatusForbidden || w.dialled.Load() != nil {
		t.Errorf("%d %q, dialled %v", code, body, w.dialled.Load())
	}
	if code, body := get(t, w.client(), "http://inner.test/"); code != 200 {
		t.Errorf("listed address: %d %q", code, body)
	}
}

func TestTunnelCarriesBytesBothWaysAndEndsWithTheProxy(t *testing.T) {
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() {
		for {
			c, err := far.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	w := newWorld(t, far.Addr().String(), "*.good.test")
	w.addrs["a.good.test"] = []string{"8.8.4.4"}
	status, c, r := connect(t, w.proxy, "a.good.test:443", "a.good.test:443")
	if status != 200 {
		t.Fatal(status)
	}
	defer c.Close()
	fmt.Fprint(c, "hello\n")
	if line, err := r.ReadString('\n'); line != "hello\n" {
		t.Errorf("%q %v", line, err)
	}
	for _, x := range [][2]string{{"evil.test:443", "evil.test:443"}, {"a.good.test:25", "a.good.test:25"}, {"evil.test:443", "a.good.test:443"}} {
		status, c, _ := connect(t, w.proxy, x[0], x[1])
		c.Close()
		if x[0] == x[1] && status != 403 {
			t.Errorf("%v: %d", x, status)
		}
		if d := w.dialled.Load(); d != "8.8.4.4:443" {
			t.Errorf("%v: dialled %v", x, d)
		}
	}
}

func connect(t *testing.T, proxy, target, host string) (int, net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, host)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, c, r
}

func get(t *testing.T, c *http.Client, u string) (int, string) {
	t.Helper()
	resp, err := c.Get(u)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
