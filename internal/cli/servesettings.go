package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/host/gateway"
	"github.com/rivumi/rivumi/internal/model/wire"
)

// messagesAPI is the word of the settings for the Messages wire.
const messagesAPI = "messages"

// served are the models of a control plane: where their requests go, in the order of their names.
type served struct {
	upstreams []gateway.Upstream
	prices    map[string]control.Price
}

// servedModels reads the models of the settings together with their keys, which stay in memory.
func (f *Factory) servedModels(ctx context.Context, c *config.Config) (served, error) {
	s := served{prices: map[string]control.Price{}}
	for _, name := range c.Names() {
		table, isURL := strings.CutSuffix(name, ".url")
		key, isModel := strings.CutPrefix(table, "serve.models.")
		if !isURL || !isModel {
			continue
		}
		at := func(k string) string { return c.String(table + "." + k) }
		u := gateway.Upstream{Name: firstOf(at("name"), key), Model: at("model"), URL: at("url"), Wire: control.WireChat}
		u.Model = firstOf(u.Model, u.Name)
		if at("api") == messagesAPI {
			u.Wire = control.WireMessages
		}
		if env := at("key_env"); env != "" {
			if u.Key = f.Getenv(env); u.Key == "" {
				return s, &failure{contract.ExitCredentials, fmt.Errorf("model %q: the variable %s that holds its key is not set", u.Name, env), "rivumi config explain " + table + ".key_env"}
			}
		}
		if line := at("key_cmd"); line != "" {
			k, err := runKeyCommand(ctx, line)
			if err != nil {
				return s, &failure{contract.ExitCredentials, err, "rivumi config explain " + table + ".key_cmd"}
			}
			u.Key = k
		}
		if in, out := c.Float(table+".input_price"), c.Float(table+".output_price"); in > 0 || out > 0 {
			s.prices[u.Name] = control.Price{Input: in, Output: out}
		}
		s.upstreams = append(s.upstreams, u)
	}
	if len(s.upstreams) == 0 {
		return s, usagef("put [serve.models.NAME] with url and key_env into "+f.UserConfigFile(), "no model is configured for the control plane")
	}
	return s, nil
}

// upstream finds the model of a task.
func (s served) upstream(name string) (gateway.Upstream, error) {
	i := slices.IndexFunc(s.upstreams, func(u gateway.Upstream) bool { return u.Name == name })
	if i < 0 {
		return gateway.Upstream{}, contract.Errorf(contract.KindInvalid, "model %q is not configured", name)
	}
	return s.upstreams[i], nil
}

// serveCore is what the operator allows.
func serveCore(c *config.Config, s served) (control.Config, error) {
	core := control.Config{
		Profile: contract.Server(), Hosts: nil, Images: c.List("serve.images"), GitHosts: nil, Prices: s.prices,
	}
	if c.String("serve.profile") == "edge" {
		core.Profile = contract.Edge()
	}
	core.Profile.WholeTree = c.Bool("serve.whole_tree")
	for _, u := range s.upstreams {
		core.Models = append(core.Models, u.Name)
	}
	for _, line := range c.List("serve.checks") {
		argv, err := splitCheck(line)
		if err != nil {
			return core, usagef("rivumi config explain serve.checks", "serve.checks: %w", err)
		}
		core.Checks = append(core.Checks, argv)
	}
	return core, nil
}

// serveTLS reads the certificate, nil without one. Plain HTTP leaves this machine only when told.
func serveTLS(o *serveOptions) (*tls.Config, error) {
	if (o.Cert == "") != (o.Key == "") {
		return nil, usagef("give both --tls-cert and --tls-key", "a certificate and its key come together")
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, usagef("give PEM files that belong together", "read the certificate: %w", err)
		}
		return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
	}
	if !loopbackOnly(o.Listen) && !o.InsecureHTTP {
		return nil, usagef("give --tls-cert and --tls-key, or --insecure-http behind a proxy that speaks TLS",
			"%s is not this machine alone: tokens and sources would travel in the clear", o.Listen)
	}
	return nil, nil
}

// loopbackOnly reports whether an address to listen on can be reached from this machine only.
func loopbackOnly(address string) bool {
	h, _, err := net.SplitHostPort(address)
	return err == nil && h != "" && wire.Loopback(h)
}

// serveHosts are the names a request may be for: those of the settings, and of a loopback listener
// the names of this machine to itself. Nil takes any, where nothing says what the server is called.
func serveHosts(c *config.Config, listen string) []string {
	hosts := c.List("serve.hostnames")
	for i := range hosts {
		hosts[i] = strings.ToLower(hosts[i])
	}
	if loopbackOnly(listen) || len(hosts) > 0 {
		return append(hosts, "localhost", "127.0.0.1", "::1")
	}
	return nil
}
