package access

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

const (
	maxFailures  = 20          // of one address in failWindow
	failWindow   = time.Minute //
	maxAddresses = 4096        // remembered at once
)

// Gate stands before the API on TCP: it checks where a request was meant to go, who sent it, and how
// often an address has guessed wrong.
type Gate struct {
	tokens *Tokens
	hosts  []string // names a Host header may have; nil: any
	pages  []string // origins of web pages that may call; none: no page may
	now    func() time.Time

	mu     sync.Mutex
	failed map[string]failures
}

type failures struct {
	n     int
	since time.Time
}

// NewGate makes a gate. Without hosts any Host header is taken; no web page may call unless its
// origin is named.
func NewGate(tokens *Tokens, hosts, origins []string) *Gate {
	return &Gate{tokens: tokens, hosts: hosts, pages: origins, now: tokens.now, failed: map[string]failures{}}
}

// Authenticate names the principal of a request: "" for nobody, KindForbidden for a request that a web
// page or another name sent here or whose token may not do it, KindTooManyRequests for an address that
// has sent too many bad tokens.
func (g *Gate) Authenticate(r *http.Request) (string, error) {
	if err := g.meant(r); err != nil {
		return "", err
	}
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return "", nil
	}
	address := addressOf(r)
	if g.barred(address) {
		return "", contract.Errorf(contract.KindTooManyRequests, "too many requests with bad tokens from this address; wait a minute")
	}
	tok, ok := g.tokens.Find(strings.TrimSpace(secret))
	if !ok {
		g.count(address)
		return "", nil
	}
	need := Run
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		need = Read
	}
	if !tok.Scope.Covers(need) {
		return "", contract.Errorf(contract.KindForbidden, "the token's scope is %s, this needs %s", tok.Scope, need)
	}
	return tok.Principal, nil
}

// meant refuses what a browser was tricked into sending: a name that was pointed here, or a page.
func (g *Gate) meant(r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if g.hosts != nil && !slices.Contains(g.hosts, host) {
		return contract.Errorf(contract.KindForbidden, "this server is not called by that name; its operator can allow it")
	}
	if o := r.Header.Get("Origin"); o != "" && !slices.Contains(g.pages, o) {
		return contract.Errorf(contract.KindForbidden, "web pages of that origin may not call here")
	}
	return nil
}

func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String() // one subscriber has all of it
	}
	return host
}

func (g *Gate) barred(address string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.failed[address]
	return f.n >= maxFailures && g.now().Sub(f.since) < failWindow
}

func (g *Gate) count(address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if len(g.failed) >= maxAddresses {
		for a, f := range g.failed {
			if now.Sub(f.since) >= failWindow {
				delete(g.failed, a)
			}
		}
		if len(g.failed) >= maxAddresses {
			clear(g.failed) // a flood from everywhere; guessing 256 bits stays hopeless
		}
	}
	f := g.failed[address]
	if now.Sub(f.since) >= failWindow {
		f = failures{since: now}
	}
	f.n++
	g.failed[address] = f
}
