package proc_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox"
)

func TestFullNetworkIsOnlyTheProxy(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "reached "+r.Host) }))
	defer far.Close()
	get := `node -e '
const u = new URL(process.argv[1]), p = process.env.HTTP_PROXY && new URL(process.env.HTTP_PROXY)
const o = p && process.argv[2] != "direct" ? {host: p.hostname, port: p.port, path: u.href, headers: {host: u.host}} : {host: u.hostname, port: u.port, path: "/"}
require("http").get(o, r => { r.setEncoding("utf8"); let b = ""; r.on("data", d => b += d); r.on("end", () => console.log(r.statusCode, b)) }).on("error", e => { console.log(e.code); process.exit(1) })
' `
	needs(t, "node")
	closed := openFull(t, sandbox.Spec{})
	if code, out := script(t, closed, get+far.URL); code == 0 {
		t.Errorf("no network: %s", out)
	}
	if n := closed.Receipt().Network; n != "none" {
		t.Errorf("receipt says %q", n)
	}
	open := openFull(t, sandbox.Spec{Hosts: []string{"example.org", "127.0.0.1"}})
	if _, out := script(t, open, get+far.URL); !strings.HasPrefix(out, "200 reached 127.0.0.1") {
		t.Errorf("listed: %s", out)
	}
	if _, out := script(t, open, get+"http://localhost:1/"); !strings.HasPrefix(out, "403") {
		t.Errorf("not listed: %s", out)
	}
	if code, out := script(t, open, get+far.URL+" direct"); code == 0 {
		t.Errorf("past the proxy: %s", out)
	}
}
