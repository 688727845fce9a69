package docker_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/docker"
	"github.com/rivumi/rivumi/internal/sandbox/sandboxtest"
)

func launch(t *testing.T, o docker.Options, s sandbox.LaunchSpec) sandbox.Box {
	t.Helper()
	if s.Run == "" {
		s.Run = t.Name()
	}
	b, err := docker.New(o).Launch(t.Context(), s)
	if err != nil {
		t.Fatalf("launch: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func wait(t *testing.T, b sandbox.Box) sandbox.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := b.Wait(ctx)
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return e
}

func shell(script string) []string { return []string{"sh", "-c", script} }

func TestBoxRunsTheBinaryAndTakesItsTokensOnStandardInput(t *testing.T) {
	o := options(t)
	if e := wait(t, launch(t, o, sandbox.LaunchSpec{Argv: []string{"rivumi", "version"}})); e.Code != 0 {
		t.Errorf("version: %+v", e)
	}
	b := launch(t, o, sandbox.LaunchSpec{
		Run: "stdin", Stdin: []byte("tok-en-4711"),
		Argv: shell(`test "$(cat)" = tok-en-4711 && echo got; id -u; echo x > $HOME/f && cp /bin/true $HOME/t && $HOME/t && echo runs; grep CapEff /proc/self/status; exit 7`),
	})
	e := wait(t, b)
	if text := b.Tail(); e.Code != 7 || !strings.Contains(text, "got\n65532\nruns\n") || !strings.Contains(text, "0000000000000000") {
		t.Errorf("%+v %q", e, text)
	}
	if again := wait(t, b); again.Code != 7 {
		t.Errorf("waited again: %+v", again)
	}
}

// SE-02: what was given on standard input stands in nothing that the engine would tell.
func TestSE02TokensAreInNoDescriptionOfTheBox(t *testing.T) {
	f, o := engine(t), options(t)
	b := launch(t, o, sandbox.LaunchSpec{Stdin: []byte("tok-en-4711"), Argv: shell("cat >/dev/null; tr '\\0' '\\n' </proc/self/environ; cat /proc/1/cmdline; sleep 1000")})
	poll(t, "its words", func() bool { return strings.Contains(b.Tail(), "HOME=") })
	for _, id := range f.containers(t, "dev.rivumi.run="+t.Name()) {
		if text := f.inspect(t, id); strings.Contains(text, "tok-en-4711") {
			t.Error("the engine knows the token")
		}
	}
	if strings.Contains(b.Tail(), "tok-en-4711") {
		t.Error("the token is in environment or arguments")
	}
}

func TestBoxReachesOnlyItsChannel(t *testing.T) {
	o := options(t)
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	source, channel := t.TempDir(), t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(channel, sandbox.ChannelSocket))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })}
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()
	for _, err := range []error{
		os.Chmod(filepath.Join(channel, sandbox.ChannelSocket), 0o666), os.Chmod(source, 0o755), os.Chmod(channel, 0o755),
		os.WriteFile(filepath.Join(source, "task"), []byte("text"), 0o444),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b := launch(t, o, sandbox.LaunchSpec{Source: source, Channel: channel, Argv: []string{"bash", "-c", `exec 2>&1; cat /rivumi/source/task; ls -ld /rivumi/channel/s
echo y > /rivumi/source/task || echo kept; touch /rivumi/channel/x || echo kept; (echo > /dev/tcp/127.0.0.1/` + portOf(far) + `) && echo REACHED; grep -c : /proc/net/dev; exit 0`}})
	e := wait(t, b)
	text := b.Tail()
	if e.Code != 0 || !strings.HasPrefix(text, "text") || !strings.Contains(text, "srw-rw-rw-") || strings.Count(text, "kept") != 2 || strings.Contains(text, "REACHED") {
		t.Errorf("%+v %s", e, text)
	}
	if !strings.HasSuffix(strings.TrimSpace(text), "\n1") { // the loopback interface alone
		t.Errorf("interfaces: %s", text)
	}
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func TestBoxThatRunsOutOfMemorySaysSo(t *testing.T) {
	b := launch(t, options(t), sandbox.LaunchSpec{Limits: sandbox.Limits{Memory: 64 << 20}, Argv: shell("x=xxxxxxxx; while :; do x=$x$x; done")})
	if e := wait(t, b); !e.Memory || e.Code != 137 {
		t.Errorf("%+v", e)
	}
}

func TestBoxThatNeverEndsIsEndedByItsOwner(t *testing.T) {
	f := engine(t)
	b := launch(t, options(t), sandbox.LaunchSpec{Argv: shell(`trap "" TERM INT HUP; while :; do sleep 1000; done`)})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait: %v", err)
	}
	for range 2 {
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if left := f.containers(t, "dev.rivumi.run="+t.Name()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// CX-04: another process of the same instance finds the box and ends it; one of another instance
// sees nothing of it.
func TestCX04BoxesAreFoundAgainByTheirInstanceOnly(t *testing.T) {
	f, o := engine(t), options(t)
	o.Instance += "-cx04"
	for _, run := range []string{"live", "dead", "paused", "kept"} {
		argv := shell("sleep 1000")
		if run == "dead" {
			argv = shell("echo last words; exit 3")
		}
		launch(t, o, sandbox.LaunchSpec{Run: run, Argv: argv})
	}
	f.pause(t, f.containers(t, "dev.rivumi.run=paused")[0])
	other := o
	other.Instance += "-other"
	if runs, err := docker.New(other).Boxes(t.Context()); err != nil || len(runs) != 0 {
		t.Errorf("another instance sees %v %v", runs, err)
	}
	if runs, err := docker.New(other).Reap(t.Context(), func(string) bool { return false }); err != nil || len(runs) != 0 {
		t.Errorf("another instance removed %v %v", runs, err)
	}
	again := docker.New(o)
	runs, err := again.Boxes(t.Context())
	slices.Sort(runs)
	if err != nil || !slices.Equal(runs, []string{"dead", "kept", "live", "paused"}) {
		t.Fatalf("boxes %v %v", runs, err)
	}
	dead, err := again.Adopt(t.Context(), "dead")
	if err != nil {
		t.Fatal(err)
	}
	if e := wait(t, dead); e.Code != 3 || !strings.Contains(dead.Tail(), "last words") {
		t.Errorf("dead: %+v %q", e, dead.Tail())
	}
	if err := dead.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := again.Adopt(t.Context(), "unknown"); sandboxtest.Code(err) != sandbox.ErrLost {
		t.Errorf("unknown: %v", err)
	}
	gone, err := again.Reap(t.Context(), func(run string) bool { return run == "kept" })
	slices.Sort(gone)
	if err != nil || !slices.Equal(gone, []string{"live", "paused"}) {
		t.Errorf("removed %v %v", gone, err)
	}
	if runs, err := again.Boxes(t.Context()); err != nil || !slices.Equal(runs, []string{"kept"}) {
		t.Errorf("left %v %v", runs, err)
	}
}

func TestStartThatFailsSaysAtWhichStepAndLeavesNothing(t *testing.T) {
	f, o := engine(t), options(t)
	try := func(s sandbox.LaunchSpec) (stages []string, last sandbox.Stage, err error) {
		s.Run, s.Stages = t.Name(), func(st sandbox.Stage) { stages, last = append(stages, st.Name), st }
		_, err = docker.New(o).Launch(t.Context(), s)
		return stages, last, err
	}
	stages, last, err := try(sandbox.LaunchSpec{Image: docker.DefaultImage + "-none", Argv: shell("true")})
	if !slices.Equal(stages, []string{"pull"}) || last.Err == nil || sandboxtest.Code(err) != sandbox.ErrTier {
		t.Errorf("absent image: %v %v", stages, err)
	}
	stages, last, err = try(sandbox.LaunchSpec{Argv: []string{"/no/such/program"}})
	if !slices.Equal(stages, []string{"create", "start"}) || last.Err == nil || sandboxtest.Code(err) != sandbox.ErrStart {
		t.Errorf("absent program: %v %v", stages, err)
	}
	stages, _, err = try(sandbox.LaunchSpec{Argv: shell("true"), Source: filepath.Join(t.TempDir(), "none")})
	if len(stages) != 0 || sandboxtest.Code(err) != sandbox.ErrStart {
		t.Errorf("absent source: %v %v", stages, err)
	}
	if left := f.containers(t, "dev.rivumi.run="+t.Name()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestNoEngineIsSaidWithTheWayToGetOne(t *testing.T) {
	for _, host := range []string{"unix:///nonexistent/docker.sock", "tcp://127.0.0.1:1"} {
		_, err := docker.New(docker.Options{Host: host, Binary: engine(t).binary}).Open(t.Context(), sandbox.Spec{Tree: t.TempDir()})
		e, ok := errors.AsType[*sandbox.Error](err)
		if !ok || e.Code != sandbox.ErrTier || e.Hint == "" {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}
