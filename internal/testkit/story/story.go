// Package story gives testscript stories what they are told with: a repository out of the script's
// files, a proof that a checkout was left alone, processes that run beside the script with exact
// exit codes and signals, and waits for what a run has written.
//
// Every process it starts is waited for, or killed and waited for when the script ends.
package story

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
)

// Patience bounds every wait of a story: generous, since machines are loaded.
const Patience = 60 * time.Second

// world is what one script has made.
type world struct {
	tb    testing.TB
	shots map[string]gitrepo.Shot
	procs map[string]*process
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

type worldKey struct{}

// Params are the parameters of the stories in dir. sandbox is the value of RIVUMI_SANDBOX.
func Params(dir, sandbox string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			tb, ok := env.T().(testing.TB)
			if !ok {
				return errors.New("stories are started by testscript.Run")
			}
			w := &world{tb: tb, shots: map[string]gitrepo.Shot{}, procs: map[string]*process{}}
			env.Values[worldKey{}] = w
			env.Defer(w.end)
			return setup(env, sandbox)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"mkrepo": mkrepo, "snapshot": snapshot, "same": same,
			"exits": exits, "start": start, "signal": signal, "finish": finish,
			"waitout": waitOut, "waitevent": waitEvent, "noescape": noEscape, "jsonlines": jsonLines,
		},
	}
}

// setup gives the script a home, a state directory and fixed names and dates of its own.
func setup(env *testscript.Env, sandbox string) error {
	for _, dir := range []string{"home", "state"} {
		if err := os.MkdirAll(filepath.Join(env.WorkDir, dir), 0o700); err != nil {
			return err
		}
	}
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "home", ".config"))
	env.Setenv("RIVUMI_STATE_DIR", filepath.Join(env.WorkDir, "state"))
	env.Setenv("RIVUMI_SANDBOX", sandbox)
	env.Setenv("USER", "ada")
	env.Setenv("PATH", env.Getenv("PATH"))
	for _, kv := range gitrepo.Env() {
		if name, value, _ := strings.Cut(kv, "="); name != "PATH" && name != "HOME" {
			env.Setenv(name, value)
		}
	}
	return nil
}

func of(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// end stops what the script left running.
func (w *world) end() {
	for _, p := range w.procs {
		select {
		case <-p.done:
		default:
			_ = p.cmd.Process.Kill() // ended meanwhile is fine
			<-p.done
		}
	}
}

// mkrepo DIR turns the files of a folder into a repository with one commit.
func mkrepo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: mkrepo DIR")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	r := gitrepo.At(of(ts).tb, dir)
	r.Git("init", "-q", "-b", "trunk", ".")
	r.Git("config", "user.name", "Ada")
	r.Git("config", "user.email", "ada@example.com")
	r.Commit("first")
}

// snapshot NAME DIR remembers a checkout byte by byte.
func snapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: snapshot NAME DIR")
	}
	w := of(ts)
	w.shots[args[0]] = gitrepo.Snapshot(w.tb, ts.MkAbs(args[1]))
}

// same NAME fails when the checkout is not byte for byte as remembered.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: same NAME")
	}
	w := of(ts)
	diff := w.shots[args[0]].Diff(w.tb)
	if neg == (len(diff) == 0) {
		ts.Fatalf("checkout %s changed: %v (wanted changed: %v)", args[0], diff, neg)
	}
}

// exits CODE PROGRAM ARGS... runs a program and wants exactly that exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := codeOf(ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func codeOf(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return -1
	case exit.ExitCode() >= 0:
		return exit.ExitCode()
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return -1
}

// start NAME PROGRAM ARGS... runs a program beside the script. Its output goes to NAME.out and
// NAME.err, its stdin is an open pipe that nobody writes to.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME PROGRAM ARGS...")
	}
	w := of(ts)
	path, err := lookPath(ts, args[1])
	ts.Check(err)
	cmd := exec.CommandContext(w.tb.Context(), path, args[2:]...)
	cmd.Args[0] = args[1]
	cmd.Dir, cmd.Env = ts.MkAbs("."), environ(ts)
	out, err := os.Create(ts.MkAbs(filepath.Join(ts.Getenv("WORK"), args[0]+".out")))
	ts.Check(err)
	errs, err := os.Create(ts.MkAbs(filepath.Join(ts.Getenv("WORK"), args[0]+".err")))
	ts.Check(err)
	cmd.Stdout, cmd.Stderr = out, errs
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	p := &process{cmd: cmd, done: make(chan struct{})}
	w.procs[args[0]] = p
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
		_ = errors.Join(stdin.Close(), out.Close(), errs.Close()) // the process has ended
	}()
}

// lookPath finds a program in the script's PATH, which is not the test's.
func lookPath(ts *testscript.TestScript, name string) (string, error) {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// environ is the script's environment, as far as it is needed by what stories start.
func environ(ts *testscript.TestScript) []string {
	names := []string{"PATH", "HOME", "XDG_CONFIG_HOME", "USER", "TMPDIR", "LANG", "NO_COLOR", "TERM", "OPENAI_API_KEY"}
	for _, kv := range append(os.Environ(), "RIVUMI_STATE_DIR=", "RIVUMI_SANDBOX=", "RIVUMI_MODEL=", "RIVUMI_APPROVE=") {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "RIVUMI_") || strings.HasPrefix(name, "GOCOVERDIR") {
			names = append(names, name)
		}
	}
	var env []string
	for _, n := range names {
		if v := ts.Getenv(n); v != "" {
			env = append(env, n+"="+v)
		}
	}
	return append(env, gitrepo.Env()[1:]...)
}

func (w *world) process(ts *testscript.TestScript, name string) *process {
	p := w.procs[name]
	if p == nil {
		ts.Fatalf("no process %s was started", name)
	}
	return p
}

// signal NAME INT|TERM|KILL sends a signal to a started process.
func signal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME INT|TERM|KILL")
	}
	sig, ok := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[args[1]]
	if !ok {
		ts.Fatalf("signal %s is not known", args[1])
	}
	ts.Check(of(ts).process(ts, args[0]).cmd.Process.Signal(sig))
}

// finish NAME CODE waits for a started process and wants exactly that exit code; 137 is a KILL.
func finish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: finish NAME CODE")
	}
	p := of(ts).process(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(Patience):
		ts.Fatalf("process %s goes on after %s; stderr:\n%s", args[0], Patience, ts.ReadFile(filepath.Join(ts.Getenv("WORK"), args[0]+".err")))
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	if got := codeOf(p.err); got != want {
		ts.Fatalf("exit code %d, want %d; stderr:\n%s", got, want, ts.ReadFile(filepath.Join(ts.Getenv("WORK"), args[0]+".err")))
	}
}

// waitOut NAME PATTERN waits until the output of a started process matches.
func waitOut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitout NAME PATTERN")
	}
	re := regexp.MustCompile(args[1])
	var seen []byte
	ok := poll(func() bool {
		seen = nil
		for _, end := range []string{".out", ".err"} {
			raw, err := os.ReadFile(filepath.Join(ts.Getenv("WORK"), args[0]+end))
			ts.Check(err)
			seen = append(seen, raw...)
		}
		return re.Match(seen)
	})
	if !ok {
		ts.Fatalf("%s did not print %q; it printed:\n%s", args[0], args[1], seen)
	}
}

// waitEvent RUN TYPE waits until the log of a run has an event of that type.
func waitEvent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitevent RUN TYPE")
	}
	path, err := lookPath(ts, "rivumi")
	ts.Check(err)
	want := []byte(`"type":"` + args[1] + `"`)
	var out []byte
	ok := poll(func() bool {
		cmd := exec.CommandContext(of(ts).tb.Context(), path, "logs", args[0], "--json")
		cmd.Args[0], cmd.Dir, cmd.Env = "rivumi", ts.MkAbs("."), environ(ts)
		out, _ = cmd.Output() // there may be no such run yet
		return bytes.Contains(out, want)
	})
	if !ok {
		ts.Fatalf("run %s has no event %s; its log:\n%s", args[0], args[1], out)
	}
}

func poll(done func() bool) bool {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return false
}
