package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/control/host/access"
	"github.com/rivumi/rivumi/internal/control/host/gateway"
)

// firstToken is the name of the token that the first start prints.
const firstToken = "first"

type serveOptions struct {
	*Factory
	Listen, Admin string
	Cert, Key     string
	InsecureHTTP  bool
	Sandbox       string
	IKnow         bool
	Grace         time.Duration
}

func newServeCmd(f *Factory, do func(context.Context, *serveOptions) error) *cobra.Command {
	o := &serveOptions{Factory: f}
	if do == nil {
		do = runServe
	}
	cmd := &cobra.Command{
		Use: "serve", Short: "Be the control plane for runs of other machines", Args: args(0, 0),
		Long: "rivumi serve takes runs over HTTP and carries each out in a container of its own. It needs a\n" +
			"Docker engine and the models of [serve.models] in the settings, and no other service. The\n" +
			"first start prints a token once; rivumi login uses it.",
		Example: "  rivumi serve\n  rivumi serve --listen :7877 --tls-cert cert.pem --tls-key key.pem\n  rivumi serve token create laptop",
		RunE:    func(c *cobra.Command, _ []string) error { return do(c.Context(), o) },
	}
	p := cmd.Flags()
	p.StringVar(&o.Listen, "listen", "", "listen on `ADDRESS`")
	p.StringVar(&o.Admin, "admin", "", "serve health and metrics on `ADDRESS` of this machine, or off")
	p.StringVar(&o.Cert, "tls-cert", "", "certificate chain in PEM `FILE`")
	p.StringVar(&o.Key, "tls-key", "", "its key in PEM `FILE`")
	p.BoolVar(&o.InsecureHTTP, "insecure-http", false, "listen off this machine without TLS")
	p.StringVar(&o.Sandbox, "sandbox", "docker", "where runs happen: docker, local or none")
	p.BoolVar(&o.IKnow, "i-know", false, "with --sandbox none: whoever has a token may do anything here")
	p.DurationVar(&o.Grace, "grace", 10*time.Second, "how long runs may go on after the first signal")
	cmd.AddCommand(newServeTokenCmd(f))
	return cmd
}

func runServe(ctx context.Context, o *serveOptions) error {
	c, err := o.Config()
	if err != nil {
		return err
	}
	o.fill(c)
	tlsConfig, err := serveTLS(o)
	if err != nil {
		return err
	}
	if err := o.checkSandbox(); err != nil {
		return err
	}
	if o.Admin != "off" && !loopbackOnly(o.Admin) {
		return usagef("--admin 127.0.0.1:7878", "--admin %s: the operator's routes have no authentication and stay on this machine", o.Admin)
	}
	p := &plane{o: o, c: c}
	if err := p.open(ctx); err != nil {
		return errors.Join(err, p.close(ctx))
	}
	if err := p.listen(ctx, host.ListenOptions{Address: o.Listen, TLS: tlsConfig}); err != nil {
		return errors.Join(err, p.close(ctx))
	}
	return p.wait(ctx)
}

// fill takes from the settings what no flag says.
func (o *serveOptions) fill(c *config.Config) {
	o.Listen = firstOf(o.Listen, c.String("serve.listen"))
	o.Admin = firstOf(o.Admin, c.String("serve.admin"))
	if o.Cert == "" && o.Key == "" {
		o.Cert, o.Key = c.String("serve.tls_cert"), c.String("serve.tls_key")
	}
}

func (o *serveOptions) checkSandbox() error {
	switch o.Sandbox {
	case "docker", "local":
		return nil
	case "none":
		if o.IKnow {
			return nil
		}
		return usagef("use --sandbox docker, or type --i-know too", "--sandbox none contains nothing: every run could read the keys and the runs of all others")
	}
	return usagef("--sandbox docker, local or none", "--sandbox %q is not known", o.Sandbox)
}

// plane is a running control plane.
type plane struct {
	o       *serveOptions
	c       *config.Config
	dir     string
	log     *slog.Logger
	gateway *gateway.Gateway
	tokens  *access.Tokens
	service *host.Service
	public  *host.Listener
	admin   *host.Listener
	place   string
}

// open opens state, models, sandbox and service, in the order in which they can fail cheaply.
func (p *plane) open(ctx context.Context) (err error) {
	if p.dir, err = p.o.StateDir(); err != nil {
		return err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	models, err := p.o.servedModels(ctx, p.c)
	if err != nil {
		return err
	}
	if p.gateway, err = gateway.New(models.upstreams); err != nil {
		return err
	}
	core, err := serveCore(p.c, models)
	if err != nil {
		return err
	}
	if p.tokens, err = access.Open(p.dir, p.o.Now, rand.Reader); err != nil {
		return err
	}
	p.log = p.o.serveLog()
	place := placing{f: p.o.Factory, c: p.c, dir: p.dir, models: models}
	ex, words, err := place.executor(ctx, p.o.Sandbox)
	if err != nil {
		return err
	}
	p.place = words
	p.service, err = host.Open(ctx, host.Options{
		Dir: p.dir, Core: core, Executor: ex, Forwarder: p.gateway, Version: p.o.Version, Adopt: true, Now: p.o.Now, Log: p.log,
		MaxRuns: int(p.c.Int("serve.max_runs")), MaxQueued: int(p.c.Int("serve.max_queued")),
	})
	return err
}

// serveLog is the log of the server: stderr, or the file of --log-file.
func (o *serveOptions) serveLog() *slog.Logger {
	if o.Globals.LogFile != "" || o.Globals.Debug {
		if log, err := o.logger(); err == nil {
			return log
		}
	}
	return slog.New(slog.NewTextHandler(o.IO.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// listen opens the listeners and says where they are.
func (p *plane) listen(ctx context.Context, l host.ListenOptions) error {
	gate := access.NewGate(p.tokens, serveHosts(p.c, l.Address), p.c.List("serve.origins"))
	l.Handler, l.Log = p.service.PublicHandler(gate.Authenticate), p.log
	var err error
	if p.public, err = host.Listen(ctx, l); err != nil {
		return err
	}
	scheme := "http"
	if l.TLS != nil {
		scheme = "https"
	}
	fmt.Fprintf(p.o.IO.Out, "rivumi serves on %s://%s\n", scheme, p.public.Address())
	fmt.Fprintf(p.o.IO.Out, "runs happen in: %s\n", p.place)
	if p.o.Admin != "off" {
		p.admin, err = host.Listen(ctx, host.ListenOptions{Address: p.o.Admin, Handler: adminHandler(p.service, p.o.Version), Log: p.log})
		if err != nil {
			return err
		}
		fmt.Fprintf(p.o.IO.Out, "health and metrics: http://%s\n", p.admin.Address())
	}
	return p.first()
}

// first makes the first token of a control plane that has none, and shows it once.
func (p *plane) first() error {
	list, err := p.tokens.List()
	if err != nil || len(list) > 0 {
		return err
	}
	secret, _, err := p.tokens.Create(access.New{Name: firstToken, Scope: access.Admin})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.o.IO.Out, "first token, shown only now: %s\n", secret)
	return nil
}

// wait serves until a signal, then lets runs end; a second signal leaves at once.
func (p *plane) wait(ctx context.Context) error {
	sigs := make(chan os.Signal, 4)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(sigs)
	select {
	case <-sigs:
	case <-ctx.Done():
	}
	load := p.service.Load()
	fmt.Fprintf(p.o.IO.Err, "stopping: %d runs under way have %s, %d stay queued; a second signal leaves at once\n", load.Active, p.o.Grace, load.Queued)
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.end(life) }()
	select {
	case err := <-ended:
		return err
	case <-sigs:
		cancel()
		return &failure{contract.ExitInterrupt, errors.New("left at once; the next start goes on with boxes that live and ends the other runs as interrupted"), ""}
	}
}

// end drains and closes.
func (p *plane) end(ctx context.Context) error {
	drain, cancel := context.WithTimeout(ctx, p.o.Grace)
	defer cancel()
	if n := p.service.Drain(drain); n > 0 {
		fmt.Fprintf(p.o.IO.Err, "%d runs are still under way: those in boxes go on with the next start, the others end as interrupted\n", n)
	}
	return p.close(ctx)
}

// close ends service and listeners. The service comes first: its end lets followers go.
func (p *plane) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime+5*time.Second)
	defer cancel()
	var errs []error
	if p.service != nil {
		errs = append(errs, p.service.Close(ctx))
	}
	for _, l := range []*host.Listener{p.public, p.admin} {
		if l != nil {
			errs = append(errs, l.Close(ctx))
		}
	}
	if p.gateway != nil {
		p.gateway.CloseIdle()
	}
	return errors.Join(errs...)
}
