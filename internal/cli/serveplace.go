package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/control/host/gateway"
	"github.com/rivumi/rivumi/internal/model/anthropic"
	"github.com/rivumi/rivumi/internal/model/openai"
	"github.com/rivumi/rivumi/internal/model/redact"
	"github.com/rivumi/rivumi/internal/remote/worker"
	"github.com/rivumi/rivumi/internal/runner"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/docker"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/workspace"
)

// placing is what runs of a control plane are carried out with.
type placing struct {
	f      *Factory
	c      *config.Config
	dir    string // state directory
	models served
}

// executor chooses where runs happen, and refuses a place that cannot contain them.
func (p placing) executor(ctx context.Context, kind string) (host.Executor, string, error) {
	if kind != "docker" {
		return p.inProcess(ctx, kind)
	}
	instance, err := instanceOf(p.dir)
	if err != nil {
		return nil, "", err
	}
	o := docker.Options{Image: p.c.String("serve.image"), Runtime: p.c.String("serve.runtime"), Instance: instance}
	e := docker.New(o)
	about, err := e.About(ctx)
	if err != nil {
		return nil, "", err
	}
	if !about.Images && o.Image == "" {
		return nil, "", &sandbox.Error{Code: sandbox.ErrTier, What: "the image " + docker.DefaultImage + " is not there", Hint: "make it with deploy/docker, or set serve.image"}
	}
	tier := sandbox.TierDocker
	if about.Runtime == docker.GVisor {
		tier = sandbox.TierGVisor
	}
	words := fmt.Sprintf("%s, engine %s, runtime %s", tier, about.Version, about.Runtime)
	if p.c.String("serve.placement") == "control" {
		ex, err := p.local(func(t contract.Task) sandbox.Opener {
			o := o
			o.Image = firstOf(t.Sandbox.Image, o.Image)
			return docker.New(o)
		})
		return ex, words + ", agent in the control plane", err
	}
	return host.NewBoxes(host.BoxOptions{
		Launcher: e, Argv: []string{"rivumi", "worker"}, Tier: tier, Model: p.told, Rules: p.hold,
		Image: func(t contract.Task) (string, error) { return firstOf(t.Sandbox.Image, o.Image), nil },
	}), words, nil
}

// inProcess carries runs out in this process, with their commands in a place of this machine.
func (p placing) inProcess(ctx context.Context, kind string) (host.Executor, string, error) {
	o := proc.Options{}
	if kind == "none" {
		o.Want = sandbox.TierNone
	}
	// Looked at once before the first run: what cannot contain anything must not start.
	dir, err := os.MkdirTemp(p.dir, ".probe-")
	if err != nil {
		return nil, "", fmt.Errorf("look at the sandbox: %w", err)
	}
	defer os.RemoveAll(dir)
	floor := sandbox.TierBwrap
	if kind == "none" {
		floor = sandbox.TierNone
	}
	spec := sandbox.Spec{Tree: filepath.Join(dir, "tree"), Scratch: filepath.Join(dir, "scratch"), MinTier: floor}
	for _, d := range []string{spec.Tree, spec.Scratch} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, "", fmt.Errorf("look at the sandbox: %w", err)
		}
	}
	s, err := proc.New(o).Open(ctx, spec)
	if err != nil {
		return nil, "", err
	}
	tier := s.Receipt().Tier
	if err := s.Close(ctx); err != nil {
		return nil, "", fmt.Errorf("look at the sandbox: %w", err)
	}
	ex, err := p.local(func(contract.Task) sandbox.Opener { return flooredOpener{proc.New(o), floor} })
	return ex, fmt.Sprintf("%s on this machine, agent in the control plane", tier), err
}

// flooredOpener holds every session to the tier that was seen when the service started.
type flooredOpener struct {
	sandbox.Opener
	floor sandbox.Tier
}

// Open implements [sandbox.Opener].
func (f flooredOpener) Open(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	if !s.MinTier.AtLeast(f.floor) {
		s.MinTier = f.floor
	}
	return f.Opener.Open(ctx, s)
}

// told is what a box hears of its model: neither its address nor its key.
func (p placing) told(t contract.Task) (worker.Model, error) {
	u, err := p.models.upstream(t.Model)
	return worker.Model{Name: u.Name, Messages: u.Wire == control.WireMessages}, err
}

// local makes the executor whose agent runs here, with its hands in the place that open finds.
func (p placing) local(open func(contract.Task) sandbox.Opener) (host.Executor, error) {
	signer, err := bundle.OpenSigner(p.dir)
	if err != nil {
		return nil, err
	}
	hidden := map[string]string{}
	for _, u := range p.models.upstreams {
		hidden["key of "+u.Name] = u.Key
	}
	return &planeRunner{p: p, runner: runner.New(runner.Config{
		Sandbox: func(_ context.Context, t contract.Task) (runner.Place, error) {
			return runner.Place{Opener: open(t)}, nil
		},
		Model: func(_ context.Context, t contract.Task) (runner.ModelSetup, error) {
			u, err := p.models.upstream(t.Model)
			if err != nil {
				return runner.ModelSetup{}, err
			}
			return p.direct(u)
		},
		Signer: signer, Secrets: redact.New(hidden), Now: p.f.Now,
		Causes: runner.Causes{Cancel: host.ErrCancelRequested, WallTime: host.ErrWallTime, Shutdown: host.ErrShutdown},
	})}, nil
}

// direct is a model that is asked by the control plane itself. The runner's own budget bounds it.
func (p placing) direct(u gateway.Upstream) (runner.ModelSetup, error) {
	set := runner.ModelSetup{Name: u.Model}
	var err error
	if u.Wire == control.WireMessages {
		set.Model, err = anthropic.New(anthropic.Options{BaseURL: u.URL, Key: u.Key})
	} else {
		set.Model, err = openai.New(openai.Options{BaseURL: u.URL, Key: u.Key})
	}
	return set, err
}

// planeRunner carries out runs of a control plane in its own process.
type planeRunner struct {
	p      placing
	runner *runner.Runner
}

// Execute implements [host.Executor].
func (r *planeRunner) Execute(ctx context.Context, j host.Job) contract.Ending {
	task := j.Task
	rep, err := laySource(ctx, j, filepath.Join(j.Dir, "checkout"))
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, host.ErrCancelRequested) {
			return contract.Ending{State: contract.Cancelled}
		}
		return contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: contract.FailWorkspace, Message: oneLine(err.Error())}}
	}
	task.Repository, task.Files, task.Upload = rep, nil, nil
	task.Sandbox.Mode = ""
	return r.runner.Run(ctx, runner.Job{Run: j.Run, Task: task, Session: j.Session, Dir: j.Dir})
}

// laySource makes a repository of a run's source in dir, as a box does for itself.
func laySource(ctx context.Context, j host.Job, dir string) (*contract.Repository, error) {
	rep := &contract.Repository{Path: dir}
	switch {
	case len(j.Task.Files) > 0:
		files, err := inlineFiles(j.Task.Files)
		if err != nil {
			return nil, err
		}
		return rep, workspace.FromFiles(ctx, files, dir)
	case j.Task.Upload == nil:
		return nil, contract.Errorf(contract.KindInvalid, "git sources are not carried out here yet")
	}
	f, _, err := host.Source(j.Dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	included, err := workspace.Unpack(ctx, f, workspace.UnpackOptions{Dir: dir})
	if included {
		rep.Include = []string{"**"}
	}
	return rep, err
}

// instanceOf names this state directory for the labels of its containers.
func instanceOf(dir string) (string, error) {
	path := filepath.Join(dir, "instance")
	b, err := readBounded(path, 256)
	if err == nil && len(b) > 0 {
		return oneLine(string(b)), nil
	}
	name := fmt.Sprintf("%s-%d", contract.At(time.Now()).Format("20060102150405.000"), os.Getpid())
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return "", usagef("remove it while no serve runs", "%s is empty", path)
	}
	if err != nil {
		return "", fmt.Errorf("name the instance: %w", err)
	}
	_, err = io.WriteString(f, name)
	return name, errors.Join(err, f.Close())
}
