package netproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Rules are the names and addresses that may be reached. The zero value lets nothing through.
type Rules struct {
	names    []nameRule
	networks []netip.Prefix
}

type nameRule struct {
	name string // without the *.
	any  bool   // every name below it, not itself
	port int    // 0: 80 and 443
}

// ParseRules reads a list of host names (`example.org`, `*.example.org`, `example.org:8443`),
// addresses and networks (`10.1.2.3`, `10.1.0.0/16`). A name lets ports 80 and 443 through unless it
// has one of its own. A name never lets a private address through; the address must be listed too.
func ParseRules(hosts []string) (Rules, error) {
	var r Rules
	for _, h := range hosts {
		if p, err := parseNetwork(h); err == nil {
			r.networks = append(r.networks, p)
			continue
		}
		n, err := parseName(h)
		if err != nil {
			return Rules{}, fmt.Errorf("network rule %q: %w", h, err)
		}
		r.names = append(r.names, n)
	}
	return r, nil
}

func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

func parseName(s string) (nameRule, error) {
	var n nameRule
	if host, port, ok := strings.Cut(s, ":"); ok {
		v, err := strconv.ParseUint(port, 10, 16)
		if err != nil || v == 0 {
			return n, errors.New("port is not a number from 1 to 65535")
		}
		s, n.port = host, int(v)
	}
	if rest, ok := strings.CutPrefix(s, "*."); ok {
		s, n.any = rest, true
	}
	name, err := Normalise(s)
	if err != nil {
		return n, err
	}
	if n.any && !strings.Contains(name, ".") {
		return n, errors.New("a whole top-level domain cannot be listed")
	}
	n.name = name
	return n, nil
}

// Normalise gives the one spelling of a host name that is compared and looked up, or says why it
// is none: only ASCII letters, digits, hyphens and underscores in labels, no empty label (so no
// final dot), and a last label that no parser takes for a number.
func Normalise(s string) (string, error) {
	if s == "" || len(s) > 253 {
		return "", errors.New("host name has no proper length")
	}
	name := strings.ToLower(s)
	for _, label := range strings.Split(name, ".") {
		if label == "" || len(label) > 63 {
			return "", errors.New("host name has an empty or over-long label")
		}
		for i := range len(label) {
			c := label[i]
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return "", fmt.Errorf("host name has the byte %q", string(rune(c)))
			}
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last[0] >= '0' && last[0] <= '9' {
		return "", errors.New("host name ends like a number")
	}
	return name, nil
}

// Target is a checked destination: a name to look up once, or an address.
type Target struct {
	Name string
	Addr netip.Addr // valid for a literal
	Port uint16
}

// Check reads the authority of a request and says whether it may be reached.
func (r Rules) Check(authority string, defaultPort uint16) (Target, error) {
	host, port, err := splitAuthority(authority, defaultPort)
	if err != nil {
		return Target{}, err
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" || a.Is4In6() {
			return Target{}, errors.New("address has a zone or is a mapped one")
		}
		if !r.listed(a) {
			return Target{}, fmt.Errorf("address %s is not listed", a)
		}
		return Target{Addr: a, Port: port}, nil
	}
	name, err := Normalise(host)
	if err != nil {
		return Target{}, err
	}
	for _, n := range r.names {
		if n.match(name, port) {
			return Target{Name: name, Port: port}, nil
		}
	}
	return Target{}, fmt.Errorf("%s:%d is not listed", name, port)
}

func (n nameRule) match(name string, port uint16) bool {
	if n.port == 0 && port != 80 && port != 443 || n.port != 0 && int(port) != n.port {
		return false
	}
	if n.any {
		return strings.HasSuffix(name, "."+n.name)
	}
	return name == n.name
}

func splitAuthority(s string, defaultPort uint16) (host string, port uint16, err error) {
	rest := s
	if inner, ok := strings.CutPrefix(s, "["); ok {
		host, rest, ok = strings.Cut(inner, "]")
		if !ok || !strings.Contains(host, ":") {
			return "", 0, errors.New("brackets hold no address")
		}
		if rest == "" {
			return host, defaultPort, nil
		}
		if rest[0] != ':' {
			return "", 0, errors.New("authority is malformed")
		}
		rest = rest[1:]
	} else {
		var ok bool
		host, rest, ok = strings.Cut(s, ":")
		if !ok {
			return host, defaultPort, nil
		}
	}
	v, err := strconv.ParseUint(rest, 10, 16)
	if err != nil || v == 0 || strconv.FormatUint(v, 10) != rest {
		return "", 0, errors.New("port is malformed")
	}
	return host, uint16(v), nil
}

func (r Rules) listed(a netip.Addr) bool {
	for _, p := range r.networks {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Reachable reports whether an address that a listed name resolved to may be connected to.
func (r Rules) Reachable(a netip.Addr) bool {
	a = a.Unmap()
	return Public(a) || r.listed(a)
}

// notPublic are networks beyond those that netip knows, which lead to this machine, its
// neighbours, or to a translated private address.
var notPublic = []string{
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
}

// Public reports whether a is an address of the public internet.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Zone() != "" {
		return false
	}
	for _, s := range notPublic {
		if netip.MustParsePrefix(s).Contains(a) {
			return false
		}
	}
	return true
}
