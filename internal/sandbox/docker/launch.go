package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rivumi/rivumi/internal/sandbox"
)

const (
	// boxUser owns nothing, here and in usual images.
	boxUser = "65532:65532"
	// boxBinary is where a box shows this program; Argv[0] "rivumi" means it.
	boxBinary = "/rivumi/bin/rivumi"
	tailBytes = 4096
	stdinTime = 10 * time.Second
)

// Launch implements [sandbox.Launcher]. What the box is shown must be readable by any user, since it
// runs as one that owns nothing; the folder around it is what keeps others out. Source and Channel
// may be empty.
func (e *Engine) Launch(ctx context.Context, s sandbox.LaunchSpec) (sandbox.Box, error) {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		return nil, startError("launch a box", errors.New("no command"))
	}
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	b, err := e.launch(ctx, c, s)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return b, nil
}

func (e *Engine) launch(ctx context.Context, c *client.Client, s sandbox.LaunchSpec) (*box, error) {
	tell := s.Stages
	if tell == nil {
		tell = e.o.Stages
	}
	p, err := e.planBox(ctx, c, s, tell)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	id, err := e.create(ctx, c, p)
	if stage(tell, begun, sandbox.Stage{Name: sandbox.StageCreate, Detail: id, Err: err}) != nil {
		return nil, err
	}
	b := &box{ctx: context.WithoutCancel(ctx), c: c, id: id}
	begun = time.Now()
	if err := b.start(ctx, s.Stdin); err != nil {
		lines := tail(b.Tail())
		err = errors.Join(startError("start the box", err), remove(b.ctx, c, id))
		return nil, stage(tell, begun, sandbox.Stage{Name: sandbox.StageStart, Detail: id, Err: err, Lines: lines})
	}
	_ = stage(tell, begun, sandbox.Stage{Name: sandbox.StageStart, Detail: id})
	_ = stage(tell, begun, sandbox.Stage{Name: sandbox.StageReady, Detail: id})
	return b, nil
}

func (e *Engine) planBox(ctx context.Context, c *client.Client, s sandbox.LaunchSpec, tell func(sandbox.Stage)) (plan, error) {
	a, err := e.about(ctx, c)
	if err != nil {
		return plan{}, err
	}
	name := s.Image
	if name == "" {
		name = e.o.Image
	}
	img, err := image(ctx, c, name, tell)
	if err != nil {
		return plan{}, err
	}
	p := plan{
		kind: kindBox, run: s.Run, image: img, user: boxUser, argv: slices.Clone(s.Argv), limits: s.Limits, about: a,
		env:     sandbox.MergeEnv([]string{"HOME=" + sandbox.BoxWork, "TMPDIR=/tmp"}, s.Env),
		folders: []string{"/tmp", "/var/tmp", sandbox.BoxWork}, stdin: len(s.Stdin) > 0,
	}
	if p.argv[0] == "rivumi" {
		program, err := e.binary()
		if err != nil {
			return plan{}, startError("launch a box", err)
		}
		p.argv[0] = boxBinary
		p.mounts = append(p.mounts, bind(program, boxBinary, false))
	}
	for _, m := range [][2]string{{s.Source, sandbox.BoxSource}, {s.Channel, sandbox.BoxChannel}} {
		if m[0] == "" {
			continue
		}
		if err := checkShown(m[0]); err != nil {
			return plan{}, startError("launch a box", err)
		}
		p.mounts = append(p.mounts, bind(filepath.Clean(m[0]), m[1], false))
	}
	return p, nil
}

// box is one container with a runner.
type box struct {
	ctx context.Context // values only: calls without a context of their own are bounded by time
	c   *client.Client
	id  string

	once sync.Once
	err  error
}

// start starts the runner and gives it its standard input.
func (b *box) start(ctx context.Context, stdin []byte) error {
	sctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var in net.Conn
	if len(stdin) > 0 {
		at, err := b.c.ContainerAttach(sctx, b.id, client.ContainerAttachOptions{Stream: true, Stdin: true})
		if err != nil {
			return fmt.Errorf("attach standard input: %w", err)
		}
		defer at.Close()
		in = at.Conn
	}
	if _, err := b.c.ContainerStart(sctx, b.id, client.ContainerStartOptions{}); err != nil {
		return err
	}
	if in == nil {
		return nil
	}
	_ = in.SetWriteDeadline(time.Now().Add(stdinTime))
	if _, err := in.Write(stdin); err != nil {
		return fmt.Errorf("give standard input: %w", err)
	}
	if cw, ok := in.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite() // the engine closes the other end
	}
	return nil
}

// Wait implements [sandbox.Box].
func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) {
	w := b.c.ContainerWait(ctx, b.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case r := <-w.Result:
		if r.Error != nil {
			return sandbox.Exit{}, lost(errors.New(r.Error.Message))
		}
		return b.exit(ctx, int(r.StatusCode))
	case err := <-w.Error:
		if ctx.Err() != nil {
			return sandbox.Exit{}, context.Cause(ctx)
		}
		return sandbox.Exit{}, lost(err)
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
}

func (b *box) exit(ctx context.Context, code int) (sandbox.Exit, error) {
	ictx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := b.c.ContainerInspect(ictx, b.id, client.ContainerInspectOptions{})
	if err != nil {
		return sandbox.Exit{}, lost(err)
	}
	e := sandbox.Exit{Code: code}
	if st := r.Container.State; st != nil {
		e.Code, e.Memory = st.ExitCode, st.OOMKilled
		begun, berr := time.Parse(time.RFC3339Nano, st.StartedAt)
		ended, eerr := time.Parse(time.RFC3339Nano, st.FinishedAt)
		if berr == nil && eerr == nil {
			e.Duration = ended.Sub(begun)
		}
	}
	return e, nil
}

func lost(err error) error {
	return &sandbox.Error{Code: sandbox.ErrLost, What: "the box is gone", Err: err}
}

// Tail implements [sandbox.Box].
func (b *box) Tail() string {
	ctx, cancel := context.WithTimeout(b.ctx, stdinTime)
	defer cancel()
	r, err := b.c.ContainerLogs(ctx, b.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "100"})
	if err != nil {
		return ""
	}
	defer r.Close()
	var text sandbox.Capture
	text.Edge = tailBytes
	_, _ = stdcopy.StdCopy(&text, &text, io.LimitReader(r, 4<<20)) // what there is will do
	all := append(append([]byte{}, text.Head()...), text.Tail()...)
	return string(all[max(0, len(all)-tailBytes):])
}

// Close implements [sandbox.Box].
func (b *box) Close(ctx context.Context) error {
	b.once.Do(func() {
		b.err = remove(ctx, b.c, b.id)
		_ = b.c.Close()
	})
	return b.err
}

// Boxes implements [sandbox.Adopter].
func (e *Engine) Boxes(ctx context.Context) ([]string, error) {
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	all, err := e.list(ctx, c)
	if err != nil {
		return nil, err
	}
	var runs []string
	for _, f := range all {
		if run := f.Labels[labelRun]; f.Labels[labelKind] == kindBox && !slices.Contains(runs, run) {
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// list gives the containers of this instance, the newest first.
func (e *Engine) list(ctx context.Context, c *client.Client) ([]container.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := c.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: make(client.Filters).Add("label", labelInstance+"="+e.o.Instance),
	})
	if err != nil {
		return nil, unreachable(c.DaemonHost(), err)
	}
	slices.SortFunc(r.Items, func(a, b container.Summary) int { return int(b.Created - a.Created) })
	return r.Items, nil
}

// Adopt implements [sandbox.Adopter].
func (e *Engine) Adopt(ctx context.Context, run string) (sandbox.Box, error) {
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	all, err := e.list(ctx, c)
	if err == nil {
		for _, f := range all {
			if f.Labels[labelRun] == run && f.Labels[labelKind] == kindBox {
				return &box{ctx: context.WithoutCancel(ctx), c: c, id: f.ID}, nil
			}
		}
		err = lost(errors.New("no container of run " + run))
	}
	_ = c.Close()
	return nil, err
}

// Reap removes the boxes of this instance that keep does not name, and what ended sessions left. It
// gives the runs whose containers it removed; the error says which could not be removed.
func (e *Engine) Reap(ctx context.Context, keep func(run string) bool) ([]string, error) {
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	all, err := e.list(ctx, c)
	if err != nil {
		return nil, err
	}
	var gone []string
	var failed error
	for _, f := range all {
		run := f.Labels[labelRun]
		live := f.State == container.StateRunning || f.State == container.StatePaused
		if f.Labels[labelKind] == kindBox && keep(run) || f.Labels[labelKind] == kindSession && live {
			continue
		}
		if err := remove(ctx, c, f.ID); err != nil && !errdefs.IsNotFound(err) {
			failed = errors.Join(failed, err)
			continue
		}
		gone = append(gone, run)
	}
	return gone, failed
}

var (
	_ sandbox.Opener   = (*Engine)(nil)
	_ sandbox.Launcher = (*Engine)(nil)
	_ sandbox.Adopter  = (*Engine)(nil)
)
