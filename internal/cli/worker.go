package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/model/redact"
	"github.com/rivumi/rivumi/internal/remote/worker"
	"github.com/rivumi/rivumi/internal/runner"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/workspace"
)

// errWorkerTime ends a run in its box at its wall time; the control plane has its own clock.
var errWorkerTime = errors.New("the run reached its wall time")

// sourceFile is the name of an uploaded source in the folder a box is shown.
const sourceFile = "source"

type workerOptions struct {
	*Factory
	OrderFile string
	User      string
	AsRoot    bool
}

// newWorkerCmd is what runs in a box. Its order, with the tokens of the run, comes on stdin or in a
// file that is removed at once; no word of it stands on the command line.
func newWorkerCmd(f *Factory) *cobra.Command {
	o := &workerOptions{Factory: f}
	cmd := &cobra.Command{
		Use: "worker", Short: "Carry out a run inside a box (internal)", Hidden: true, Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return runWorker(c.Context(), o) },
	}
	p := cmd.Flags()
	p.StringVar(&o.OrderFile, "order-file", "", "read the order from `FILE` and remove it")
	p.StringVar(&o.User, "user", "", "become `UID:GID` when started as root")
	p.BoolVar(&o.AsRoot, "as-root", false, "stay root: for boxes whose root is nobody outside")
	return cmd
}

func runWorker(ctx context.Context, o *workerOptions) error {
	if !o.AsRoot {
		if err := worker.Drop(o.User); err != nil {
			return err
		}
	}
	if err := worker.Harden(); err != nil {
		return err
	}
	order, err := o.read()
	if err != nil {
		return err
	}
	w := &boxWorker{o: order, work: firstOf(o.Getenv(sandbox.EnvBoxWork), sandbox.BoxWork), source: firstOf(o.Getenv(sandbox.EnvBoxSource), sandbox.BoxSource)}
	// The path of a socket is bounded; seen from its own folder it is always short enough.
	if err := os.Chdir(firstOf(o.Getenv(sandbox.EnvBoxChannel), sandbox.BoxChannel)); err != nil {
		return fmt.Errorf("find the channel to the control plane: %w", err)
	}
	w.dial = func(ctx context.Context) (net.Conn, error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		return d.DialContext(ctx, "unix", sandbox.ChannelSocket)
	}
	return w.carry(ctx)
}

func (o *workerOptions) read() (worker.Order, error) {
	var in io.Reader = o.IO.In
	if o.OrderFile != "" {
		b, err := worker.TakeFile(o.OrderFile)
		if err != nil {
			return worker.Order{}, err
		}
		in = bytes.NewReader(b)
	}
	return worker.ReadOrder(in)
}

// boxWorker carries out the one run of a box.
type boxWorker struct {
	o      worker.Order
	work   string // writable folder of the box
	source string // what the control plane shows
	dial   worker.Dial
}

// carry runs the order to its end and reports it. The report outlives the run's own time by the
// margin that its tokens have.
func (w *boxWorker) carry(ctx context.Context) error {
	wall := time.Duration(w.o.Task.Limits.WallTimeSeconds) * time.Second
	life, end := context.WithTimeout(ctx, wall+control.CapabilityMargin)
	defer end()
	s, run := worker.Open(life, w.o, w.dial)
	defer s.Close()
	run, cancel := context.WithTimeoutCause(run, wall, errWorkerTime)
	defer cancel()
	e := w.execute(run, s)
	if errors.Is(context.Cause(run), worker.ErrGone) {
		return fmt.Errorf("the run ended without this box: %w", worker.ErrGone)
	}
	if err := s.Report(life, e); err != nil {
		return fmt.Errorf("report the end of the run: %w", err)
	}
	return nil
}

// execute calls the same runner that local runs have.
func (w *boxWorker) execute(ctx context.Context, s *worker.Session) contract.Ending {
	e, err := w.attempt(ctx, s)
	if err == nil {
		return e
	}
	if errors.Is(context.Cause(ctx), worker.ErrCancel) {
		return contract.Ending{State: contract.Cancelled, Error: &contract.Failure{Code: contract.FailCancelled, Message: "cancelled"}}
	}
	return contract.Ending{State: contract.Failed, Error: &contract.Failure{Code: contract.FailWorkspace, Message: oneLine(err.Error())}}
}

func (w *boxWorker) attempt(ctx context.Context, s *worker.Session) (contract.Ending, error) {
	dir, temp := filepath.Join(w.work, "run"), filepath.Join(w.work, "tmp")
	for _, d := range []string{dir, temp} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return contract.Ending{}, fmt.Errorf("make the folders of the run: %w", err)
		}
	}
	if err := os.Setenv("TMPDIR", temp); err != nil {
		return contract.Ending{}, fmt.Errorf("set the temporary folder: %w", err)
	}
	// The control plane signs what it has held against its rules; this key only fills the place.
	signer, err := bundle.OpenSigner(w.work)
	if err != nil {
		return contract.Ending{}, err
	}
	task := w.o.Task
	if task.Repository, err = w.repository(ctx); err != nil {
		return contract.Ending{}, fmt.Errorf("make a repository of the source: %w", err)
	}
	hidden := map[string]string{}
	for a, t := range w.o.Tokens {
		hidden["run token "+string(a)] = t
	}
	r := runner.New(runner.Config{
		Sandbox: w.place, Model: w.model, Signer: signer, Secrets: redact.New(hidden), CacheDir: filepath.Join(w.work, "bases"),
		Causes: runner.Causes{Cancel: worker.ErrCancel, WallTime: errWorkerTime, Shutdown: worker.ErrGone},
	})
	return r.Run(ctx, runner.Job{Run: w.o.Run, Task: task, Session: s, Dir: dir}), nil
}

// repository lays the source down as a checkout of the box's own.
func (w *boxWorker) repository(ctx context.Context) (*contract.Repository, error) {
	dir := filepath.Join(w.work, "source")
	rep := &contract.Repository{Path: dir}
	if len(w.o.Task.Files) > 0 {
		files, err := inlineFiles(w.o.Task.Files)
		if err != nil {
			return nil, err
		}
		return rep, workspace.FromFiles(ctx, files, dir)
	}
	f, err := os.Open(filepath.Join(w.source, sourceFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	included, err := workspace.Unpack(ctx, f, workspace.UnpackOptions{Dir: dir})
	if included {
		rep.Include = []string{"**"} // what git ignores there is what was asked for, and nothing else
	}
	return rep, err
}

func inlineFiles(in []contract.File) ([]workspace.InlineFile, error) {
	var out []workspace.InlineFile
	for i, f := range in {
		file := workspace.InlineFile{Path: f.Path, Executable: f.Executable}
		switch {
		case f.Content != nil:
			file.Content = []byte(*f.Content)
		case f.ContentBase64 != nil:
			b, err := base64.StdEncoding.DecodeString(*f.ContentBase64)
			if err != nil {
				return nil, fmt.Errorf("files[%d]: %w", i, err)
			}
			file.Content = b
		}
		out = append(out, file)
	}
	return out, nil
}

func (w *boxWorker) model(context.Context, contract.Task) (runner.ModelSetup, error) {
	m, err := w.o.Model.Open(w.o.Tokens["model"], w.dial)
	set := runner.ModelSetup{Model: m, Name: w.o.Model.Name, Context: w.o.Model.Context, MaxTokens: w.o.Model.MaxTokens}
	if p := w.o.Model.Price; p != nil {
		set.Price = p.Cost
	}
	return set, err
}

func (w *boxWorker) place(context.Context, contract.Task) (runner.Place, error) {
	return runner.Place{Opener: insideBox{tier: w.o.Tier}}, nil
}

// insideBox opens the strongest place that can be had inside a box; the box around it is what counts
// as the tier of the run, and the receipt names both.
type insideBox struct{ tier sandbox.Tier }

// Open implements [sandbox.Opener].
func (b insideBox) Open(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	s.MinTier, s.Hosts = "", nil // the control plane has held the box against what the task asks for
	var first error
	for _, want := range []sandbox.Tier{"", sandbox.TierWeak, sandbox.TierNone} {
		got, err := proc.New(proc.Options{Want: want}).Open(ctx, s)
		if err == nil {
			return boxedSession{Session: got, box: b, missing: first}, nil
		}
		if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.ErrTier && e.Code != sandbox.ErrStart || ctx.Err() != nil {
			return nil, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

type boxedSession struct {
	sandbox.Session
	box     insideBox
	missing error
}

// Receipt implements [sandbox.Session].
func (s boxedSession) Receipt() sandbox.Receipt {
	r := s.Session.Receipt()
	layers := map[string]string{"inside": string(r.Tier)}
	for k, v := range r.Layers {
		layers[k] = v
	}
	r.Layers, r.Network, r.Tier = layers, "none", s.box.tier
	if s.missing != nil {
		r.Missing = append(r.Missing, "inside the box: "+oneLine(s.missing.Error()))
	}
	return r
}
