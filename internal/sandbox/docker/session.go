package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

const (
	connectTimeout = 60 * time.Second // from the start to the first word of pid 1
	lastLines      = 20
	maxSocketPath  = 100
)

// Open implements [sandbox.Opener]: a container that holds the tree, and commands in it. ctx bounds
// the opening only. A session that its owner leaves behind ends and is removed by the engine.
func (e *Engine) Open(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	if s.Overlay != nil {
		return nil, &sandbox.Error{Code: sandbox.ErrOverlay, What: "a container cannot mount an overlay", Hint: "a plain tree is used instead"}
	}
	if err := checkShown(s.Tree); err != nil {
		return nil, startError("open the tree", err)
	}
	s.Tree = filepath.Clean(s.Tree)
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	ses, err := e.open(ctx, c, s)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return ses, nil
}

func (e *Engine) open(ctx context.Context, c *client.Client, s sandbox.Spec) (sandbox.Session, error) {
	p, receipt, err := e.prepare(ctx, c, &s)
	if err != nil {
		return nil, err
	}
	d, err := newDoor()
	if err != nil {
		return nil, startError("make the socket", err)
	}
	defer d.close()
	p.mounts = append(p.mounts, bind(d.path, proc.BoxSocket, true))
	begun := time.Now()
	id, err := e.create(ctx, c, p)
	if stage(e.o.Stages, begun, sandbox.Stage{Name: sandbox.StageCreate, Detail: id, Err: err}) != nil {
		return nil, err
	}
	k := &kept{ctx: context.WithoutCancel(ctx), c: c, id: id}
	begun = time.Now()
	conn, err := e.startSession(ctx, k, d)
	if err != nil {
		k.kill()
		return nil, stage(e.o.Stages, begun, sandbox.Stage{Name: sandbox.StageStart, Detail: id, Err: err, Lines: k.lines()})
	}
	_ = stage(e.o.Stages, begun, sandbox.Stage{Name: sandbox.StageStart, Detail: id})
	a := proc.Attachment{
		Conn: conn, Tree: s.Tree, Env: s.Env, Hosts: s.Hosts, Limits: sandbox.Limits{FileSize: s.Limits.FileSize}, Receipt: receipt,
		Gone: k.gone, Kill: k.kill, Words: k.words.String,
	}
	a.Writes = writable(p, s)
	inner, err := proc.Attach(ctx, a)
	if err != nil {
		k.kill()
		return nil, stage(e.o.Stages, begun, sandbox.Stage{Name: sandbox.StageReady, Detail: id, Err: err, Lines: k.lines()})
	}
	_ = stage(e.o.Stages, begun, sandbox.Stage{Name: sandbox.StageReady, Detail: id})
	return &session{Session: inner, kept: k}, nil
}

// prepare finds out what can be had and plans the container. It settles the environment in s.
func (e *Engine) prepare(ctx context.Context, c *client.Client, s *sandbox.Spec) (plan, sandbox.Receipt, error) {
	program, err := e.binary()
	if err != nil {
		return plan{}, sandbox.Receipt{}, startError("open a session", err)
	}
	a, err := e.about(ctx, c)
	if err != nil {
		return plan{}, sandbox.Receipt{}, err
	}
	receipt := e.receipt(a)
	if s.MinTier != "" && !receipt.Tier.AtLeast(s.MinTier) {
		return plan{}, receipt, &sandbox.Error{
			Code: sandbox.ErrTier, What: "tier " + string(s.MinTier) + " is asked for and the engine gives " + string(receipt.Tier),
			Hint: "configure the engine with runtime runsc (gVisor) and name it",
		}
	}
	img, err := image(ctx, c, e.o.Image, e.o.Stages)
	if err != nil {
		return plan{}, receipt, err
	}
	receipt.Versions["image"] = img.digest
	uid, gid, err := owner(s.Tree)
	if err != nil {
		return plan{}, receipt, startError("open the tree", err)
	}
	if a.rootless {
		uid, gid = 0, 0 // which is this user, outside
	} else if uid == 0 {
		receipt.Missing = append(receipt.Missing, "commands run as user 0 without any rights, since the tree is root's: run rivumi as another user")
	}
	p := plan{
		kind: kindSession, run: e.o.Run, image: img, user: fmt.Sprintf("%d:%d", uid, gid), argv: []string{proc.BoxProgram},
		mounts: []mountPoint{bind(program, proc.BoxProgram, false), bind(s.Tree, s.Tree, !s.ReadOnly)},
		limits: s.Limits, about: a, folders: []string{"/tmp", "/var/tmp"},
	}
	foreign := a.rootless
	for _, b := range s.Binds {
		if err := checkShown(b.Path); err != nil {
			return plan{}, receipt, startError("open a session", err)
		}
		if o, _, err := owner(b.Path); err == nil && o != uid {
			foreign = true
		}
		p.mounts = append(p.mounts, bind(filepath.Clean(b.Path), filepath.Clean(b.Path), b.Writable))
	}
	s.Env = environment(s.Env, img.env, p.mounts)
	if foreign && lookup(s.Env, "GIT_CONFIG_COUNT") == "" {
		// git refuses what belongs to another user; nobody but the agent can have put anything there.
		s.Env = sandbox.MergeEnv(s.Env, []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"})
	}
	for _, name := range []string{"HOME", "TMPDIR"} {
		if v := lookup(s.Env, name); filepath.IsAbs(v) && !slices.Contains(p.folders, filepath.Clean(v)) {
			p.folders = append(p.folders, filepath.Clean(v))
		}
	}
	return p, receipt, nil
}

// writable lists what commands may write, for the file rules inside.
func writable(p plan, s sandbox.Spec) []string {
	w := append(append([]string{}, p.folders...), p.image.volumes...)
	if !s.ReadOnly {
		w = append(w, s.Tree)
	}
	for _, b := range s.Binds {
		if b.Writable {
			w = append(w, filepath.Clean(b.Path))
		}
	}
	return w
}

func (e *Engine) receipt(a About) sandbox.Receipt {
	r := sandbox.Receipt{
		Tier: sandbox.TierDocker, Network: "none", Way: "plain",
		Layers: map[string]string{
			"namespaces": "mount, pid, net, ipc, uts", "root": "read-only", "seccomp": "own profile, default deny",
			"capabilities": "dropped", "limits": "control group",
		},
		Versions: map[string]string{"kernel": a.Kernel, "runtime": a.Runtime},
	}
	for k, v := range a.Versions {
		r.Versions[k] = v
	}
	if strings.HasPrefix(a.Runtime, "runsc") {
		r.Tier = sandbox.TierGVisor
	}
	return r
}

// environment settles the variables of commands: the image knows where its programs are, and what
// names a folder of this machine's toolchains means nothing where that folder is not shown.
func environment(env, image []string, shown []mountPoint) []string {
	tools := sandbox.ToolVariables()
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		return slices.Contains(tools, name) && !slices.ContainsFunc(shown, func(m mountPoint) bool {
			return value == m.Target || strings.HasPrefix(value, m.Target+"/")
		})
	})
	for _, kv := range image {
		if name, _, _ := strings.Cut(kv, "="); name == "PATH" || lookup(env, name) == "" {
			env = sandbox.MergeEnv(env, []string{kv})
		}
	}
	return env
}

func lookup(env []string, name string) string {
	v := ""
	for _, e := range env {
		if rest, ok := strings.CutPrefix(e, name+"="); ok {
			v = rest
		}
	}
	return v
}

// startSession starts pid 1 and waits until it has come through the door.
func (e *Engine) startSession(ctx context.Context, k *kept, d *door) (*net.UnixConn, error) {
	if err := k.watch(); err != nil {
		return nil, startError("watch the container", err)
	}
	sctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := k.c.ContainerStart(sctx, k.id, client.ContainerStartOptions{}); err != nil {
		return nil, startError("start the container", err)
	}
	conn, err := d.accept(ctx, k.gone)
	if err != nil {
		k.kill() // its last words are there after its end
		if w := strings.TrimSpace(k.words.String()); w != "" {
			err = fmt.Errorf("%w: %s", err, w)
		}
		return nil, startError("reach the container's first process", err)
	}
	return conn, nil
}

// kept is a container of a session, and what follows it.
type kept struct {
	ctx   context.Context // values only: it outlives what opened it
	c     *client.Client
	id    string
	words *lockedCapture
	gone  chan struct{} // closed when the container has been removed, or nothing can be said of it any more
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu     sync.Mutex
	failed error // why it could not be removed
}

// watch follows the container to its end: its output into words, its removal into gone.
func (k *kept) watch() error {
	k.words, k.gone = &lockedCapture{c: sandbox.Capture{Edge: 4096}}, make(chan struct{})
	ctx, stop := context.WithCancel(k.ctx)
	k.stop = stop
	out, err := k.c.ContainerAttach(ctx, k.id, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		close(k.gone)
		return err
	}
	k.wg.Add(2)
	copied := make(chan struct{})
	go func() {
		defer k.wg.Done()
		defer close(copied)
		defer out.Close()
		_, _ = stdcopy.StdCopy(k.words, k.words, out.Reader) // only for errors
	}()
	w := k.c.ContainerWait(ctx, k.id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	go func() {
		defer k.wg.Done()
		select {
		case <-w.Result:
		case err := <-w.Error: // nothing can be said of it any more
			fmt.Fprintln(k.words, err)
		case <-ctx.Done():
		}
		out.Close() // a reader that the engine forgot
		<-copied
		close(k.gone)
	}()
	return nil
}

// kill removes the container and waits, bounded, for what follows it. It may be called twice.
func (k *kept) kill() {
	err := remove(k.ctx, k.c, k.id)
	k.mu.Lock()
	k.failed = err
	k.mu.Unlock()
	if k.stop == nil {
		return
	}
	t := time.NewTimer(removeTimeout)
	defer t.Stop()
	if err == nil {
		select {
		case <-k.gone:
		case <-t.C:
		}
	}
	k.stop()
	k.wg.Wait()
}

func (k *kept) lines() []string {
	if k.words == nil {
		return nil
	}
	return tail(k.words.String())
}

func tail(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	l := strings.Split(text, "\n")
	return l[max(0, len(l)-lastLines):]
}

// lockedCapture may be read while the container still speaks.
type lockedCapture struct {
	mu sync.Mutex
	c  sandbox.Capture
}

func (l *lockedCapture) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c.Write(p)
}

func (l *lockedCapture) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.ToValidUTF8(l.c.Bytes(), nil))
}

// session is the inner one together with its container.
type session struct {
	sandbox.Session
	kept *kept

	once sync.Once
	err  error
}

// Close implements [sandbox.Session]. It fails when the container is not removed.
func (s *session) Close(ctx context.Context) error {
	s.once.Do(func() {
		err := s.Session.Close(ctx)
		s.kept.kill()
		s.kept.mu.Lock()
		s.err = errors.Join(err, s.kept.failed)
		s.kept.mu.Unlock()
		_ = s.kept.c.Close()
	})
	return s.err
}

// door is the socket that pid 1 comes through, once.
type door struct {
	dir, path string
	ln        *net.UnixListener
	once      sync.Once
}

func newDoor() (*door, error) {
	dir, err := os.MkdirTemp("", "rivumi-box-*")
	if err == nil && len(dir) > maxSocketPath {
		_ = os.Remove(dir)
		dir, err = os.MkdirTemp("/tmp", "rivumi-box-*")
	}
	if err != nil {
		return nil, err
	}
	d := &door{dir: dir, path: filepath.Join(dir, "s")}
	d.ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: d.path, Net: "unix"})
	if err == nil {
		err = os.Chmod(d.path, 0o666) // the folder lets nobody but this user through
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// accept waits for one connection and closes the door.
func (d *door) accept(ctx context.Context, gone <-chan struct{}) (*net.UnixConn, error) {
	defer d.close()
	type result struct {
		conn *net.UnixConn
		err  error
	}
	came := make(chan result, 1)
	_ = d.ln.SetDeadline(time.Now().Add(connectTimeout))
	go func() {
		c, err := d.ln.AcceptUnix()
		came <- result{c, err}
	}()
	select {
	case r := <-came:
		return r.conn, r.err
	case <-gone:
		d.close()
		if r := <-came; r.conn != nil {
			_ = r.conn.Close()
		}
		return nil, errors.New("the container ended")
	case <-ctx.Done():
		d.close()
		if r := <-came; r.conn != nil {
			_ = r.conn.Close()
		}
		return nil, context.Cause(ctx)
	}
}

// close unlinks the socket and ends accept.
func (d *door) close() {
	d.once.Do(func() {
		if d.ln != nil {
			_ = d.ln.Close()
		}
		_ = os.RemoveAll(d.dir)
	})
}
