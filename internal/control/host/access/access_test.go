package access_test

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host/access"
)

type world struct {
	dir    string
	now    time.Time
	tokens *access.Tokens
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), now: time.Now()}
	var err error
	if w.tokens, err = access.Open(w.dir, func() time.Time { return w.now }, rand.Reader); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) create(t *testing.T, n access.New) (string, access.Token) {
	t.Helper()
	secret, tok, err := w.tokens.Create(n)
	if err != nil {
		t.Fatal(err)
	}
	return secret, tok
}

func TestATokenIsStoredAsItsHashOnly(t *testing.T) {
	w := newWorld(t)
	secret, tok := w.create(t, access.New{Name: "ci", Life: time.Hour})
	if !strings.HasPrefix(secret, "rvm_") || len(secret) != 76 {
		t.Errorf("token %q", secret)
	}
	found, ok := w.tokens.Find(secret)
	if !ok || found.ID != tok.ID || found.Principal != tok.ID || found.Scope != access.Run {
		t.Errorf("found %+v, %v", found, ok)
	}
	files, err := filepath.Glob(filepath.Join(w.dir, "api-tokens", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	info, _ := os.Stat(files[0])
	if err != nil || strings.Contains(string(b), secret[4:68]) || info.Mode().Perm() != 0o600 {
		t.Errorf("stored %s, %v, %v", b, info.Mode(), err)
	}
	wrong := []byte(secret)
	wrong[10] ^= 1
	for _, s := range []string{"", "rvm_", string(wrong), secret + "0", strings.ToUpper(secret), "../" + secret} {
		if _, ok := w.tokens.Find(s); ok {
			t.Errorf("%q is taken", s)
		}
	}
	w.now = w.now.Add(time.Hour)
	if _, ok := w.tokens.Find(secret); ok {
		t.Error("an expired token is taken")
	}
}

func TestARevokedTokenIsDeadAtOnceInEveryProcess(t *testing.T) {
	w := newWorld(t)
	secret, _ := w.create(t, access.New{Name: "ci"})
	other, err := access.Open(w.dir, time.Now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := other.Revoke("ci"); n != 1 || err != nil {
		t.Errorf("revoked %d, %v", n, err)
	}
	if _, ok := w.tokens.Find(secret); ok {
		t.Error("a revoked token is taken")
	}
	if n, err := other.Revoke("ci"); n != 0 || err != nil {
		t.Errorf("revoked %d again, %v", n, err)
	}
}

func TestTokensTellTheirLastUse(t *testing.T) {
	w := newWorld(t)
	secret, _ := w.create(t, access.New{Name: "ci", Principal: "team"})
	if list, err := w.tokens.List(); err != nil || len(list) != 1 || list[0].Used != nil || list[0].Principal != "team" {
		t.Errorf("before its use: %+v, %v", list, err)
	}
	w.now = w.now.Add(time.Hour)
	w.tokens.Find(secret)
	if list, err := w.tokens.List(); err != nil || list[0].Used == nil || list[0].Used.Sub(w.now).Abs() > time.Second {
		t.Errorf("after its use: %+v, %v", list, err)
	}
}

func TestBadRequestsForTokensAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, n := range []access.New{{}, {Name: "a b"}, {Name: "ok", Principal: "local"}, {Name: "ok", Scope: "root"}, {Name: "ok", Life: -1}} {
		if _, _, err := w.tokens.Create(n); contract.KindOf(err) != contract.KindInvalid {
			t.Errorf("%+v: %v", n, err)
		}
	}
	if err := os.Chmod(filepath.Join(w.dir, "api-tokens"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := access.Open(w.dir, time.Now, rand.Reader); contract.KindOf(err) != contract.KindForbidden {
		t.Errorf("a folder others can read: %v", err)
	}
}

func request(method, secret string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, "http://plane.example:7877/v1/runs", nil)
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func TestTheGateHoldsScopesHostsAndOrigins(t *testing.T) {
	w := newWorld(t)
	read, tok := w.create(t, access.New{Name: "look", Scope: access.Read})
	g := access.NewGate(w.tokens, []string{"plane.example"}, []string{"https://ui.example"})
	if who, err := g.Authenticate(request("GET", read)); who != tok.Principal || err != nil {
		t.Errorf("read: %q, %v", who, err)
	}
	for name, r := range map[string]*http.Request{
		"a read token starts runs": request("POST", read), "another page": request("GET", read, "Origin", "https://evil.example"),
	} {
		if who, err := g.Authenticate(r); who != "" || contract.KindOf(err) != contract.KindForbidden {
			t.Errorf("%s: %q, %v", name, who, err)
		}
	}
	if who, err := g.Authenticate(request("GET", read, "Origin", "https://ui.example")); who == "" || err != nil {
		t.Errorf("own page: %q, %v", who, err)
	}
	rebound := request("GET", read)
	rebound.Host = "evil.example"
	if _, err := g.Authenticate(rebound); contract.KindOf(err) != contract.KindForbidden {
		t.Errorf("rebound name: %v", err)
	}
	if who, err := g.Authenticate(request("GET", "")); who != "" || err != nil {
		t.Errorf("nobody: %q, %v", who, err)
	}
}

func TestGuessingIsBounded(t *testing.T) {
	w := newWorld(t)
	good, _ := w.create(t, access.New{Name: "ci"})
	g := access.NewGate(w.tokens, nil, nil)
	for range 20 {
		if who, err := g.Authenticate(request("GET", "rvm_guess")); who != "" || err != nil {
			t.Fatalf("%q, %v", who, err)
		}
	}
	if _, err := g.Authenticate(request("GET", "rvm_guess")); contract.KindOf(err) != contract.KindTooManyRequests {
		t.Errorf("guess 21: %v", err)
	}
	far := request("GET", good)
	far.RemoteAddr = "192.0.2.99:1"
	if who, err := g.Authenticate(far); who == "" || err != nil {
		t.Errorf("another address: %q, %v", who, err)
	}
	w.now = w.now.Add(2 * time.Minute)
	if who, err := g.Authenticate(request("GET", good)); who == "" || err != nil {
		t.Errorf("a minute later: %q, %v", who, err)
	}
}
