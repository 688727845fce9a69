// Package sandboxtest is the suite every [sandbox.Opener] passes.
package sandboxtest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Suite runs every test against o. Temporary folders come from dir, which must be outside of
// places the sandbox hides; "" takes the test's own.
func Suite(t *testing.T, o sandbox.Opener) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *place)
	}{
		{"exit codes", exitCodes},
		{"SH01 background child does not hold the call", backgroundChild},
		{"SH02 time-out ends the whole tree", timeoutEndsTree},
		{"SH03 pagers and editors end", pagersEnd},
		{"SH04 no stdin and no terminal", noStdinNoTerminal},
		{"SH05 noisy output stays bounded", noisyOutput},
		{"CX02 cancel is quick", cancelQuick},
		{"terminate comes before kill", terminateFirst},
		{"environment is exact", environmentExact},
		{"output order and size", outputOrder},
		{"folder of a command", commandDir},
		{"descendants in sessions of their own are ended", escapedDescendants},
		{"what ends by itself is not left behind", endsByItself},
		{"commands at once", commandsAtOnce},
		{"close ends everything, twice", closeTwice},
		{"not started", notStarted},
		{"writers are left alone after return", writersLeftAlone},
		{"root opens the tree", rootOpens},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newPlace(t, o)) })
	}
}

// place is one open session and its tree.
type place struct {
	sandbox.Session
	t    *testing.T
	tree string
	o    sandbox.Opener
	env  []string
}

func newPlace(t *testing.T, o sandbox.Opener) *place {
	t.Helper()
	p := &place{t: t, tree: t.TempDir(), o: o}
	scratch := t.TempDir()
	p.env = append(sandbox.BaseEnv(scratch, nil), "RIVUMI_SUITE=yes")
	s, err := o.Open(t.Context(), sandbox.Spec{Tree: p.tree, Env: p.env, Scratch: scratch})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	p.Session = s
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

type result struct {
	sandbox.Exit
	out, err string
	took     time.Duration
}

func (p *place) run(c sandbox.Command) result {
	p.t.Helper()
	return p.runCtx(p.t.Context(), c)
}

func (p *place) runCtx(ctx context.Context, c sandbox.Command) result {
	p.t.Helper()
	var out, errs bytes.Buffer
	begun := time.Now()
	e, err := p.Run(ctx, c, sandbox.Output{Stdout: &out, Stderr: &errs})
	if err != nil {
		p.t.Fatalf("run %q: %v", c.Argv, err)
	}
	return result{e, out.String(), errs.String(), time.Since(begun)}
}

func sh(script string) sandbox.Command {
	return sandbox.Command{Argv: []string{"sh", "-c", script}, Timeout: time.Minute}
}

func exitCodes(t *testing.T, p *place) {
	for code := range map[int]bool{0: true, 1: true, 7: true, 126: true, 255: true} {
		if r := p.run(sh("exit " + strconv.Itoa(code))); r.Code != code || r.Signal != "" {
			t.Errorf("exit %d gave %+v", code, r.Exit)
		}
	}
	if r := p.run(sh("kill -KILL $$")); r.Code != 137 || r.Signal != "SIGKILL" || r.TimedOut || r.Canceled {
		t.Errorf("killed gave %+v", r.Exit)
	}
	if r := p.run(sh("kill -TERM $$")); r.Code != 143 || r.Signal != "SIGTERM" {
		t.Errorf("terminated gave %+v", r.Exit)
	}
}

func backgroundChild(t *testing.T, p *place) {
	mark := unique()
	c := sh("sleep " + mark + " & echo done")
	c.Timeout = 30 * time.Second
	r := p.run(c)
	if r.out != "done\n" || r.Code != 0 || r.TimedOut {
		t.Fatalf("got %+v", r)
	}
	if r.took > 10*time.Second { // the promise is about 1 s; a loaded machine gets more
		t.Errorf("took %s", r.took)
	}
	if r.Left != 1 {
		t.Errorf("left %d, want 1", r.Left)
	}
	waitGone(t, mark)
}

func timeoutEndsTree(t *testing.T, p *place) {
	mark := unique()
	c := sandbox.Command{
		Argv:    []string{"sh", "-c", `(trap "" TERM; sleep ` + mark + `; touch late) & wait`},
		Timeout: 500 * time.Millisecond, Grace: 300 * time.Millisecond,
	}
	r := p.run(c)
	if !r.TimedOut || r.Canceled {
		t.Fatalf("got %+v", r.Exit)
	}
	if r.took > 10*time.Second {
		t.Errorf("took %s", r.took)
	}
	waitGone(t, mark)
	if _, err := os.Stat(filepath.Join(p.tree, "late")); err == nil {
		t.Error("late was written after the time-out")
	}
}

func pagersEnd(t *testing.T, p *place) {
	r := p.run(sh(`set -e
git init -q . ; git config user.email a@b ; git config user.name n
i=0; while [ $i -lt 40 ]; do git commit -q --allow-empty -m "c$i"; i=$((i+1)); done
git log | wc -l; git log --oneline | head -1`))
	if r.Code != 0 {
		t.Fatalf("git log: %+v", r)
	}
	for _, s := range []string{"echo x > f; git add f; git commit", "git rebase -i HEAD~1", "git commit --amend"} {
		c := sh(s)
		c.Timeout = 20 * time.Second
		if r := p.run(c); r.TimedOut || r.Code == 0 {
			t.Errorf("%s: %+v", s, r)
		}
	}
}

func noStdinNoTerminal(t *testing.T, p *place) {
	if r := p.run(sh("cat; read x; echo got=$x")); r.out != "got=\n" {
		t.Errorf("stdin: %+v", r)
	}
	if r := p.run(sh("echo asks > /dev/tty")); r.Code == 0 {
		t.Errorf("wrote to a terminal: %+v", r)
	}
	if r := p.run(sh("test -t 0 || test -t 1 || test -t 2")); r.Code == 0 {
		t.Errorf("a stream is a terminal: %+v", r)
	}
	// A session of its own: the leader's id is its session's.
	if r := p.run(sh("set -- $(cat /proc/$$/stat | sed 's/.*) //'); test \"$4\" = \"$$\"")); r.Code != 0 {
		t.Errorf("not the leader of its session: %+v", r)
	}
}

func noisyOutput(t *testing.T, p *place) {
	var c sandbox.Capture
	e, err := p.Run(t.Context(), sh("head -c 300000000 /dev/zero; printf END"), sandbox.Output{Stdout: &c})
	if err != nil || e.Code != 0 {
		t.Fatal(e, err)
	}
	if c.Total() != 300000003 || !strings.HasSuffix(c.String(), "END") || len(c.Bytes()) > 3*sandbox.CaptureEdge {
		t.Errorf("total %d, kept %d", c.Total(), len(c.Bytes()))
	}
}

func cancelQuick(t *testing.T, p *place) {
	mark := unique()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &firstWrite{seen: make(chan struct{})}
	var at time.Time
	go func() {
		<-w.seen
		at = time.Now()
		cancel()
	}()
	e, err := p.Run(ctx, sh("echo up; sleep "+mark+"; echo not"), sandbox.Output{Stdout: w})
	took := time.Since(at)
	if err != nil || !e.Canceled || e.TimedOut || e.Code == 0 {
		t.Fatalf("%+v %v", e, err)
	}
	if took > 5*time.Second { // under 1 s on a quiet machine
		t.Errorf("cancel took %s", took)
	}
	waitGone(t, mark)
	if r := p.run(sh("echo on")); r.out != "on\n" {
		t.Errorf("the session does not go on: %+v", r)
	}
}

func terminateFirst(t *testing.T, p *place) {
	c := sh(`trap 'echo cleaned; exit 3' TERM; echo up; while :; do sleep 0.05; done`)
	c.Timeout, c.Grace = time.Second, 20*time.Second
	r := p.run(c)
	if !r.TimedOut || r.Code != 3 || r.out != "up\ncleaned\n" {
		t.Errorf("got %+v", r)
	}
}

func environmentExact(t *testing.T, p *place) {
	t.Setenv("RIVUMI_CANARY_KEY", "sk-test-000111222333")
	c := sandbox.Command{Argv: []string{"env"}, Env: []string{"MORE=1", "RIVUMI_SUITE=changed"}}
	r := p.run(c)
	want := sandbox.MergeEnv(p.env, c.Env)
	got := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("environment\n got %q\nwant %q", got, want)
	}
	r = p.run(sh(`cat /proc/$PPID/environ /proc/1/environ 2>/dev/null | tr '\0' '\n' | grep -c sk-test-0001`))
	if strings.TrimSpace(r.out) != "0" {
		t.Errorf("SE01: a key of the owner is visible: %q", r.out)
	}
}

func outputOrder(t *testing.T, p *place) {
	var both bytes.Buffer
	e, err := p.Run(t.Context(), sh("i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"),
		sandbox.Output{Stdout: &both, Stderr: &both})
	if err != nil || e.Code != 0 {
		t.Fatal(e, err)
	}
	var want strings.Builder
	for i := range 200 {
		want.WriteString("o" + strconv.Itoa(i) + "\ne" + strconv.Itoa(i) + "\n")
	}
	if both.String() != want.String() {
		t.Error("one writer for both streams lost the order")
	}
	if r := p.run(sh("head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2")); len(r.out) != 3000000 || len(r.err) != 2000000 {
		t.Errorf("sizes %d %d", len(r.out), len(r.err))
	}
	if e, err := p.Run(t.Context(), sh("echo nobody listens; exit 4"), sandbox.Output{}); err != nil || e.Code != 4 {
		t.Error(e, err)
	}
}

func commandDir(t *testing.T, p *place) {
	p.run(sh("mkdir -p a/b; ln -s / out; ln -s a/b in; echo x > a/b/f"))
	c := sh("cat f")
	c.Dir = "a/b"
	if r := p.run(c); r.out != "x\n" {
		t.Errorf("a/b: %+v", r)
	}
	c.Dir = "in"
	if r := p.run(c); r.out != "x\n" {
		t.Errorf("link inside: %+v", r)
	}
	for _, dir := range []string{"out", "out/etc", "../x", "/etc", "none", "a/../.."} {
		c := sh("pwd")
		c.Dir = dir
		if e, err := p.Run(t.Context(), c, sandbox.Output{}); Code(err) != sandbox.ErrStart {
			t.Errorf("dir %q: %+v %v", dir, e, err)
		}
	}
	if r := p.run(sh("pwd -P")); strings.TrimSpace(r.out) != realPath(t, p.tree) {
		t.Errorf("the tree is at %q inside, %q outside", r.out, p.tree)
	}
}

func escapedDescendants(t *testing.T, p *place) {
	mark := unique()
	r := p.run(sh(`setsid sh -c 'setsid sleep ` + mark + ` & sleep ` + mark + `' & (setsid setsid sleep ` + mark + ` &) ; sleep 0.1; echo ok`))
	if r.out != "ok\n" || r.Left < 3 {
		t.Errorf("got %+v", r)
	}
	waitGone(t, mark)
}

func endsByItself(t *testing.T, p *place) {
	r := p.run(sh(`(sleep 0.02; echo late) & echo early`))
	if r.out != "early\nlate\n" || r.Left != 0 {
		t.Errorf("got %+v", r)
	}
}

func commandsAtOnce(t *testing.T, p *place) {
	type got struct {
		i   int
		out string
		err error
	}
	results := make(chan got)
	for i := range 8 {
		go func() {
			var b bytes.Buffer
			_, err := p.Run(t.Context(), sh("echo "+strconv.Itoa(i)+"; sleep 0.01; echo "+strconv.Itoa(i)), sandbox.Output{Stdout: &b})
			results <- got{i, b.String(), err}
		}()
	}
	for range 8 {
		g := <-results
		if want := strconv.Itoa(g.i) + "\n" + strconv.Itoa(g.i) + "\n"; g.err != nil || g.out != want {
			t.Errorf("command %d: %q %v", g.i, g.out, g.err)
		}
	}
}

func closeTwice(t *testing.T, p *place) {
	mark := unique()
	w := &firstWrite{seen: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := p.Run(t.Context(), sh("setsid sleep "+mark+" & echo up; sleep "+mark), sandbox.Output{Stdout: w})
		ended <- err
	}()
	<-w.seen
	for range 2 {
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; Code(err) != sandbox.ErrLost {
		t.Errorf("the running command got %v", err)
	}
	waitGone(t, mark)
	if _, err := p.Run(t.Context(), sh("true"), sandbox.Output{}); Code(err) != sandbox.ErrLost {
		t.Errorf("after close: %v", err)
	}
}

func notStarted(t *testing.T, p *place) {
	for _, argv := range [][]string{nil, {""}, {"no-such-program-here"}, {"./none"}, {"/etc"}} {
		_, err := p.Run(t.Context(), sandbox.Command{Argv: argv}, sandbox.Output{})
		if Code(err) != sandbox.ErrStart {
			t.Errorf("%q: %v", argv, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Run(ctx, sh("touch ran"), sandbox.Output{}); Code(err) != sandbox.ErrStart {
		t.Errorf("ended context: %v", err)
	}
	if _, err := os.Stat(filepath.Join(p.tree, "ran")); err == nil {
		t.Error("ran under an ended context")
	}
	if r := p.run(sh("echo on")); r.out != "on\n" {
		t.Errorf("the session does not go on: %+v", r)
	}
}

func writersLeftAlone(t *testing.T, p *place) {
	w := &guarded{}
	for range 20 {
		w.open.Store(true)
		if _, err := p.Run(t.Context(), sh("yes | head -c 200000; yes >/dev/null & yes | head -c 1000 & echo x"), sandbox.Output{Stdout: w}); err != nil {
			t.Fatal(err)
		}
		w.open.Store(false)
	}
	if w.late.Load() {
		t.Error("a writer was called after Run had returned")
	}
	e, err := p.Run(t.Context(), sh("yes | head -c 1000000; exit 5"), sandbox.Output{Stdout: failing{}})
	if err != nil || e.Code != 5 {
		t.Errorf("a writer that gives up holds the command: %+v %v", e, err)
	}
}

func rootOpens(t *testing.T, p *place) {
	p.run(sh("echo hello > f; mkdir d"))
	r, err := os.OpenRoot(p.Root())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := r.ReadFile("f")
	if err != nil || string(b) != "hello\n" {
		t.Fatalf("%q %v", b, err)
	}
	if err := r.WriteFile("d/g", []byte("back"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := p.run(sh("cat d/g")); r.out != "back" {
		t.Errorf("got %+v", r)
	}
}

func realPath(t *testing.T, p string) string {
	t.Helper()
	r, err := filepath.EvalSymlinks(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// waitGone waits until no living process of this machine has mark among its arguments.
func waitGone(t *testing.T, mark string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		pids := withArgument(mark)
		if len(pids) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, pid := range pids {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill() // gone meanwhile is fine
				}
			}
			t.Fatalf("still alive: %v", pids)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
