package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model/wire"
	"github.com/rivumi/rivumi/internal/remote/client"
)

const (
	// defaultRemote is the name `--remote` means without one.
	defaultRemote = "default"
	// tokenEnv holds an API token that counts instead of the stored ones, for CI.
	tokenEnv       = "RIVUMI_TOKEN"
	keyringService = "rivumi"
	maxToken       = 8 << 10
	maxCA          = 1 << 20
)

// remotePlace is a control plane of the settings.
type remotePlace struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	CA   string `json:"ca,omitempty"` // file of certificates to trust besides the system's
}

// remotePlaces lists the control planes of the settings, in the order of their names.
func remotePlaces(c *config.Config) []remotePlace {
	var out []remotePlace
	if u := c.String("server"); u != "" {
		out = append(out, remotePlace{Name: defaultRemote, URL: u, CA: c.String("remotes." + defaultRemote + ".ca")})
	}
	for _, name := range c.Names() {
		rest, ok := strings.CutPrefix(name, "remotes.")
		if n, isURL := strings.CutSuffix(rest, ".url"); ok && isURL && (n != defaultRemote || len(out) == 0) {
			out = append(out, remotePlace{Name: n, URL: c.String(name), CA: c.String("remotes." + n + ".ca")})
		}
	}
	return out
}

// remoteNamed finds a control plane by name. With "" or the default name the only one there is will do.
func (f *Factory) remoteNamed(c *config.Config, name string) (remotePlace, error) {
	places := remotePlaces(c)
	for _, p := range places {
		if p.Name == name || name == "" && p.Name == defaultRemote {
			return p, nil
		}
	}
	if (name == "" || name == defaultRemote) && len(places) == 1 {
		return places[0], nil
	}
	if len(places) == 0 {
		return remotePlace{}, usagef("rivumi login https://HOST names one", "no control plane is configured")
	}
	var names []string
	for _, p := range places {
		names = append(names, p.Name)
	}
	return remotePlace{}, usagef("--remote="+names[0], "no control plane is named %q; there are %s", firstOf(name, defaultRemote), strings.Join(names, ", "))
}

// checkRemoteURL holds an address against the rule that tokens and sources travel over TLS only, or
// not at all.
func checkRemoteURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return usagef("rivumi login https://HOST", "%q is not an address such as https://host:8443", clean(address))
	case u.Scheme == "https", u.Scheme == "http" && wire.Loopback(u.Hostname()):
		return nil
	}
	return usagef("use https, or a tunnel to this machine", "%q: plain http is taken on this machine only", clean(address))
}

// openRemote makes a client of a control plane. The caller closes it.
func (f *Factory) openRemote(p remotePlace, token string) (*client.Client, error) {
	if err := checkRemoteURL(p.URL); err != nil {
		return nil, err
	}
	if token == "" {
		token = f.remoteToken(p)
	}
	if token == "" {
		return nil, &failure{contract.ExitCredentials, fmt.Errorf("there is no token for %s", p.URL), "rivumi login " + p.URL}
	}
	opt := client.Options{URL: p.URL, Token: token, UserAgent: "rivumi/" + f.Version}
	if p.CA != "" {
		pool, err := certificates(p.CA)
		if err != nil {
			return nil, err
		}
		opt.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return client.New(opt)
}

func certificates(file string) (*x509.CertPool, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, usagef("give a file of PEM certificates", "read certificates: %w", err)
	}
	defer f.Close()
	pem, err := readAllBounded(f, file, maxCA)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usagef("give a file of PEM certificates", "%s has no certificate in it", file)
	}
	return pool, nil
}

// remoteToken gives the stored token of a control plane, "" for none.
func (f *Factory) remoteToken(p remotePlace) string {
	if t := f.Getenv(tokenEnv); t != "" {
		return t
	}
	if f.hasKeyring() {
		if t, err := keyring.Get(keyringService, p.URL); err == nil && t != "" {
			return t
		}
	}
	path, err := f.tokenFile(p.URL)
	if err != nil {
		return ""
	}
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > maxToken {
		return ""
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// hasKeyring reports whether a keyring can be asked without starting anything.
func (f *Factory) hasKeyring() bool {
	return runtime.GOOS != "linux" || f.Getenv("DBUS_SESSION_BUS_ADDRESS") != ""
}

func (f *Factory) tokenFile(address string) (string, error) {
	dir, err := f.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "tokens", sha256Hex([]byte(address))[:32]), nil
}

// storeToken keeps a token in the keyring, or in a file of its own that only this user can read.
func (f *Factory) storeToken(address, token string) (where string, err error) {
	if f.hasKeyring() && keyring.Set(keyringService, address, token) == nil {
		return "the keyring", nil
	}
	path, err := f.tokenFile(address)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("store token: %w", err)
	}
	t, err := os.CreateTemp(filepath.Dir(path), ".token-*") // 0600
	if err != nil {
		return "", fmt.Errorf("store token: %w", err)
	}
	_, err = t.WriteString(token + "\n")
	if err = errors.Join(err, t.Sync(), t.Close()); err == nil {
		err = os.Rename(t.Name(), path)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("store token: %w", err), os.Remove(t.Name()))
	}
	return path, nil
}

// forgetToken removes a token wherever it is.
func (f *Factory) forgetToken(address string) error {
	if f.hasKeyring() {
		if err := keyring.Delete(keyringService, address); err != nil && !errors.Is(err, keyring.ErrNotFound) {
			f.IO.Warn("the keyring could not be asked: %v", err)
		}
	}
	path, err := f.tokenFile(address)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove token: %w", err)
	}
	return nil
}

// probeTime bounds the one request that shows whether a token is taken.
const probeTime = 20 * time.Second

// probe asks a control plane for one run.
func probe(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	for _, err := range c.List(ctx, contract.Filter{Limit: 1}) {
		return remoteFailure(err)
	}
	return nil
}

// remoteFailure gives an error of a control plane its exit code.
func remoteFailure(err error) error {
	if _, coded := errors.AsType[*failure](err); coded || err == nil {
		return err
	}
	switch contract.KindOf(err) {
	case contract.KindUnavailable, contract.KindUpstream, contract.KindTooManyRequests:
		return &failure{contract.ExitServer, err, "the run, if there is one, goes on at the control plane; try again"}
	case contract.KindUnauthorized:
		return &failure{contract.ExitCredentials, err, "rivumi login URL gives another token"}
	default:
		return err
	}
}
