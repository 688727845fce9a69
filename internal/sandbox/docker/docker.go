package docker

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// DefaultImage is used where no image is named. It is never pulled: its name belongs to this
// machine, and deploy/docker makes it.
const DefaultImage = "localhost/rivumi-sandbox:latest"

// GVisor is the name that engines know gVisor's runtime by.
const GVisor = "runsc"

const (
	callTimeout   = 60 * time.Second // one question to the engine
	removeTimeout = 30 * time.Second

	defaultMemory    = 4 << 30
	defaultProcesses = 1024
	defaultCPUs      = 2
	defaultTmp       = 1 << 30
	minMemory        = 64 << 20
)

// Options say how containers are made. The zero value uses the engine that DOCKER_HOST names, or
// the usual socket, and [DefaultImage].
type Options struct {
	Host    string // address of the engine; "" is DOCKER_HOST or the usual socket
	Image   string // "" is DefaultImage
	Runtime string // "" is the engine's default; "runsc" is gVisor
	Binary  string // static rivumi binary on this machine; "" is the running program

	Instance string // labels containers; lists, adoptions and removals see only their own
	Run      string // labels sessions

	Memory    int64   // bytes of a container where the session's limits say nothing; 0: 4 GiB
	Processes int     // likewise; 0: 1024
	CPUs      float64 // 0: 2
	Tmp       int64   // bytes of each memory-backed folder; 0: 1 GiB

	Stages func(sandbox.Stage) // hears of each step of a start, from the goroutine that starts; may be nil

	profile []byte // instead of Profile, for tests that show what it is for
}

// Engine makes containers. It holds no connection and no goroutine; sessions and boxes do.
type Engine struct{ o Options }

// New gives an engine that implements [sandbox.Opener] and [sandbox.Launcher]. What cannot be had
// is said by their calls, with a *sandbox.Error.
func New(o Options) *Engine {
	if o.Image == "" {
		o.Image = DefaultImage
	}
	if o.Instance == "" {
		o.Instance = "local"
	}
	if o.Stages == nil {
		o.Stages = func(sandbox.Stage) {}
	}
	return &Engine{o}
}

// About is what an engine says of itself.
type About struct {
	Version  string
	Kernel   string
	Runtime  string            // the one that containers will run in
	Versions map[string]string // of the engine's parts by name
	Images   bool              // the image is there

	userns, rootless bool
}

// About asks the engine. It fails with a *sandbox.Error of code ErrTier when none answers.
func (e *Engine) About(ctx context.Context) (About, error) {
	c, err := e.connect()
	if err != nil {
		return About{}, err
	}
	defer c.Close()
	a, err := e.about(ctx, c)
	if err != nil {
		return About{}, err
	}
	_, err = c.ImageInspect(ctx, e.o.Image)
	a.Images = err == nil
	return a, nil
}

func (e *Engine) about(ctx context.Context, c *client.Client) (About, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return About{}, unreachable(c.DaemonHost(), err)
	}
	info, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return About{}, unreachable(c.DaemonHost(), err)
	}
	a := About{Version: v.Version, Kernel: info.Info.KernelVersion, Runtime: e.o.Runtime, Versions: map[string]string{"engine": v.Version}}
	for _, p := range v.Components {
		a.Versions[strings.ToLower(p.Name)] = p.Version
	}
	if a.Runtime == "" {
		a.Runtime = info.Info.DefaultRuntime
	}
	if _, ok := info.Info.Runtimes[a.Runtime]; !ok {
		return a, &sandbox.Error{
			Code: sandbox.ErrTier, What: "the engine has no runtime " + a.Runtime,
			Hint: "name one in the engine's daemon.json, or leave the runtime out",
		}
	}
	for _, s := range info.Info.SecurityOptions {
		a.userns = a.userns || strings.Contains(s, "name=userns")
		a.rootless = a.rootless || strings.Contains(s, "name=rootless")
	}
	return a, nil
}

// connect makes a client; nothing is sent yet.
func (e *Engine) connect() (*client.Client, error) {
	opts := []client.Opt{client.FromEnv, client.WithUserAgent("rivumi")}
	if e.o.Host != "" {
		opts = append(opts, client.WithHost(e.o.Host))
	}
	c, err := client.New(opts...)
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.ErrTier, What: "the container engine's address cannot be used", Err: err, Hint: "set DOCKER_HOST to unix:///path/of/docker.sock"}
	}
	if !strings.HasPrefix(c.DaemonHost(), "unix://") {
		host := c.DaemonHost()
		_ = c.Close()
		return nil, &sandbox.Error{
			Code: sandbox.ErrTier, What: "the container engine at " + host + " is not on this machine",
			Hint: "the tree is shown by a mount, so the engine must run here: unset DOCKER_HOST, or use run --remote",
		}
	}
	return c, nil
}

func unreachable(host string, err error) error {
	return &sandbox.Error{
		Code: sandbox.ErrTier, What: "no container engine answers at " + host, Err: err,
		Hint: "install and start one (apt install docker.io; systemctl start docker) and let this user use it (group docker), or use -s auto",
	}
}

// binary finds the program to show in containers and makes sure that it runs in any image.
func (e *Engine) binary() (string, error) {
	p := e.o.Binary
	if p == "" {
		if runtime.GOOS != "linux" {
			return "", &sandbox.Error{Code: sandbox.ErrTier, What: "containers need rivumi's Linux binary", Hint: "use run --remote with a server on Linux"}
		}
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find the running program: %w", err)
		}
		p = self
	}
	p, err := filepath.Abs(p)
	if err == nil {
		p, err = filepath.EvalSymlinks(p)
	}
	if err != nil {
		return "", fmt.Errorf("find the program to show in containers: %w", err)
	}
	f, err := elf.Open(p)
	if err != nil {
		return "", fmt.Errorf("read the program to show in containers: %w", err)
	}
	defer f.Close()
	for _, s := range f.Progs {
		if s.Type == elf.PT_INTERP {
			return "", &sandbox.Error{
				Code: sandbox.ErrTier, What: p + " is linked dynamically and runs in no other image",
				Hint: "build it with CGO_ENABLED=0",
			}
		}
	}
	return p, nil
}

// stage reports a step and gives its error back.
func stage(tell func(sandbox.Stage), begun time.Time, s sandbox.Stage) error {
	s.Took = time.Since(begun)
	tell(s)
	return s.Err
}

func startError(what string, err error) error {
	if _, ok := errors.AsType[*sandbox.Error](err); ok {
		return err
	}
	return &sandbox.Error{Code: sandbox.ErrStart, What: what, Err: err}
}
