package wire

import (
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/rivumi/rivumi/internal/model"
)

var versionPart = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^v\d`)
})

// Endpoint gives the full address of a route such as "chat/completions" below a base address. The
// base may be bare, end in its version, in a slash, or in the whole route: all give the same
// address. A path without any version part gets /v1, unless the whole route was given with it.
// The scheme is https, or http for a loopback host; query, fragment and user info are refused.
func Endpoint(base, route string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil || u.Host == "" || u.Opaque != "" {
		return "", badAddress(base, "it is not an absolute address such as https://host/v1")
	}
	switch {
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", badAddress(base, "it has a query or a fragment")
	case u.User != nil:
		return "", badAddress("", "it carries user info")
	case u.Scheme != "https" && (u.Scheme != "http" || !Loopback(u.Hostname())):
		return "", badAddress(base, "only https is allowed, and http on a loopback host")
	}
	p := path.Clean("/" + u.Path)
	whole := strings.HasSuffix(p, "/"+route)
	p = strings.TrimSuffix(strings.TrimSuffix(p, "/"+route), "/")
	versioned := false
	for part := range strings.SplitSeq(p, "/") {
		versioned = versioned || versionPart().MatchString(part)
	}
	if !versioned && !whole {
		p += "/v1"
	}
	out := url.URL{Scheme: u.Scheme, Host: u.Host, Path: p + "/" + route}
	return out.String(), nil
}

// Loopback reports whether host names this machine.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func badAddress(base, why string) *model.Error {
	text := "the provider's address cannot be used: " + why
	if base != "" {
		text = "the provider's address " + Excerpt(base, 200) + " cannot be used: " + why
	}
	return &model.Error{Kind: model.ErrConfig, Code: "bad_url", Message: text}
}
