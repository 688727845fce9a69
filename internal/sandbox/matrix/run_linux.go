package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// stage makes this program an attacker.
const stage = "rivumi-sandbox-attack"

// secret is what canaries hold.
const secret = "rivumi-canary-4711"

// targets tell an attacker what to go for.
type targets struct {
	Outside  string // a folder with `key`
	Tree     string // with `link` to the key
	Victim   int    // a process of the same user with the secret in its environment
	TCP, UDP string
	Unix     string // a socket's path
	Abstract string
}

// Run makes the canaries, tries everything in both places and tells how it went. The error is for a
// place that could not be opened.
func Run(ctx context.Context, o Options) (Table, error) {
	base, err := os.MkdirTemp(o.Dir, "rivumi-matrix-")
	if err != nil {
		return Table{}, err
	}
	defer os.RemoveAll(base)
	control, _, err := tryAll(ctx, o.Control, filepath.Join(base, "control"), true)
	if err != nil {
		return Table{}, fmt.Errorf("control: %w", err)
	}
	inside, receipt, err := tryAll(ctx, o.Inside, filepath.Join(base, "inside"), false)
	if err != nil {
		return Table{}, err
	}
	t := Table{Receipt: receipt}
	for i, a := range attacks() {
		r := Row{Name: a.name, Control: control[i], Inside: inside[i], Result: Stopped, Held: a.held}
		switch {
		case r.Inside == worked:
			r.Result = Worked
		case r.Control != worked:
			r.Result = Unshown
		}
		t.Rows = append(t.Rows, r)
	}
	return t, nil
}

// tryAll opens one place and runs every attack in it.
func tryAll(ctx context.Context, o sandbox.Opener, dir string, control bool) ([]string, sandbox.Receipt, error) {
	t, clean, err := prepare(dir)
	defer clean()
	if err != nil {
		return nil, sandbox.Receipt{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, sandbox.Receipt{}, err
	}
	scratch := filepath.Join(dir, "scratch")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		return nil, sandbox.Receipt{}, err
	}
	spec := sandbox.Spec{
		Tree: t.Tree, Scratch: scratch, Env: sandbox.BaseEnv(scratch, []string{"GORACE"}), Binds: []sandbox.Bind{{Path: self}},
	}
	if !control {
		spec.Limits = limits
	}
	s, err := o.Open(ctx, spec)
	if err != nil {
		return nil, sandbox.Receipt{}, err
	}
	defer s.Close(context.WithoutCancel(ctx))
	var out []string
	for _, a := range attacks() {
		place := sandbox.Commander(s)
		if control && a.bare {
			place = bare{dir: t.Tree}
		}
		text, err := attempt(ctx, place, sandbox.Command{Argv: []string{self, stage, a.name, t.text()}, Timeout: 20 * time.Second})
		if err != nil {
			return nil, sandbox.Receipt{}, fmt.Errorf("%s: %w", a.name, err)
		}
		if text == worked && a.seen != nil && !a.seen(t) {
			text = "nothing of it outside"
		}
		out = append(out, text)
	}
	return out, s.Receipt(), nil
}

const worked = "worked"

// bare runs a command as a child and holds nothing.
type bare struct{ dir string }

// Run implements sandbox.Commander.
func (b bare) Run(ctx context.Context, c sandbox.Command, out sandbox.Output) (sandbox.Exit, error) {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = b.dir, out.Stdout, out.Stderr, time.Second
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return sandbox.Exit{}, err
	}
	return sandbox.Exit{Code: cmd.ProcessState.ExitCode()}, nil
}

func attempt(ctx context.Context, s sandbox.Commander, c sandbox.Command) (string, error) {
	out := &sandbox.Capture{Edge: 2048}
	e, err := s.Run(ctx, c, sandbox.Output{Stdout: out, Stderr: out})
	switch {
	case err != nil:
		return "", err
	case e.Code == 0:
		return worked, nil
	case e.TimedOut:
		return "no answer", nil
	case e.Signal != "":
		return e.Signal, nil
	}
	return firstLine(out.String()), nil
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return first
}

func (t targets) text() string {
	b, err := json.Marshal(t)
	if err != nil {
		return ""
	}
	return string(b)
}

// prepare makes the canaries of one place. clean is for every return.
func prepare(dir string) (t targets, clean func(), err error) {
	clean = func() {}
	t = targets{Outside: filepath.Join(dir, "outside"), Tree: filepath.Join(dir, "tree"), Abstract: "@rivumi-" + filepath.Base(filepath.Dir(dir)) + filepath.Base(dir)}
	for _, d := range []string{t.Outside, t.Tree, filepath.Join(t.Outside, "repo/.git/hooks")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return t, clean, err
		}
	}
	key := filepath.Join(t.Outside, "key")
	if err := os.WriteFile(key, []byte(secret), 0o600); err != nil {
		return t, clean, err
	}
	if err := os.Symlink(key, filepath.Join(t.Tree, "link")); err != nil {
		return t, clean, err
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		return t, clean, err
	}
	victim := &exec.Cmd{Path: sleep, Args: []string{"sleep", "600"}, Env: []string{"CANARY=" + secret}, Dir: t.Outside}
	if err := victim.Start(); err != nil {
		return t, clean, err
	}
	t.Victim = victim.Process.Pid
	l, err := listen(&t)
	return t, func() {
		l.close()
		_ = victim.Process.Kill() // ended already is fine
		_ = victim.Wait()
	}, err
}

// listeners answer with the secret.
type listeners struct {
	closers []io.Closer
	wg      sync.WaitGroup
}

func listen(t *targets) (*listeners, error) {
	l := &listeners{}
	t.Unix = filepath.Join(t.Outside, "s")
	var all error
	for _, a := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", t.Unix}, {"unix", t.Abstract}} {
		ln, err := net.Listen(a[0], a[1])
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		if a[0] == "tcp" {
			t.TCP = ln.Addr().String()
		}
		l.closers = append(l.closers, ln)
		l.wg.Add(1)
		go func() {
			defer l.wg.Done()
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, secret) // who left early has seen enough
				c.Close()
			}
		}()
	}
	return l, errors.Join(all, l.udp(t))
}

func (l *listeners) udp(t *targets) error {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	t.UDP = pc.LocalAddr().String()
	l.closers = append(l.closers, pc)
	l.wg.Add(1)
	go func() {
		defer l.wg.Done()
		var b [64]byte
		for {
			_, from, err := pc.ReadFrom(b[:])
			if err != nil {
				return
			}
			_, _ = pc.WriteTo([]byte(secret), from) // the asker waits with a time-out
		}
	}()
	return nil
}

func (l *listeners) close() {
	for _, c := range l.closers {
		c.Close()
	}
	l.wg.Wait()
}

// Main carries out one attack when args say that this process is an attacker. Exit code 0 means that
// it worked; otherwise the first line says what stopped it.
func Main(args []string) (handled bool, code int) {
	if len(args) != 4 || args[1] != stage {
		return false, 0
	}
	var t targets
	if err := json.Unmarshal([]byte(args[3]), &t); err != nil {
		return true, 2
	}
	for _, a := range attacks() {
		if a.name != args[2] {
			continue
		}
		if err := a.run(t); err != nil {
			fmt.Fprintln(os.Stdout, brief(err))
			return true, 1
		}
		return true, 0
	}
	return true, 2
}

// brief is the innermost cause, which is mostly an error number.
func brief(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// sees reports an error unless b holds the canary.
func sees(b []byte, err error) error {
	if err == nil && !bytes.Contains(b, []byte(secret)) {
		return errors.New("no canary seen")
	}
	return err
}
