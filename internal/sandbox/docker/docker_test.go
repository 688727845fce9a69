package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/docker"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/sandbox/sandboxtest"
)

// work holds the static program for the time of the tests.
var work string

func TestMain(m *testing.M) {
	if handled, code := proc.Main(os.Args); handled {
		os.Exit(code)
	}
	if spec := os.Getenv(ownerEnv); spec != "" {
		os.Exit(ownerMain(spec))
	}
	dir, err := os.MkdirTemp("", "rivumi-docker-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	work = dir
	code := m.Run()
	if shared.f.pool != nil {
		if tr, ok := shared.f.pool.Client.HTTPClient.Transport.(interface{ CloseIdleConnections() }); ok {
			tr.CloseIdleConnections()
		}
	}
	_ = os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// instance is this test process's, so that runs beside each other see only their own containers.
func instance() string { return fmt.Sprintf("test-%d", os.Getpid()) }

func options(t testing.TB) docker.Options {
	f := engine(t)
	return docker.Options{Image: f.image, Binary: f.binary, Instance: instance(), Run: t.Name(), Tmp: 64 << 20}
}

// plainHome keeps this machine's toolchains out of the built environment.
func plainHome(t testing.TB) {
	t.Setenv("HOME", t.TempDir())
	for _, n := range sandbox.ToolVariables() {
		t.Setenv(n, "")
	}
}

func open(t testing.TB, o docker.Options, s sandbox.Spec) sandbox.Session {
	t.Helper()
	if s.Tree == "" {
		s.Tree = t.TempDir()
	}
	if s.Env == nil {
		s.Env = sandbox.BaseEnv(t.TempDir(), nil)
	}
	ses, err := docker.New(o).Open(t.Context(), s)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := ses.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return ses
}

// script runs a shell script and gives its end and both streams together.
func script(t testing.TB, s sandbox.Session, text string) (sandbox.Exit, string) {
	t.Helper()
	var out bytes.Buffer
	e, err := s.Run(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", text}, Timeout: 2 * time.Minute}, sandbox.Output{Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return e, out.String()
}

func TestSuite(t *testing.T) {
	o := options(t)
	plainHome(t)
	sandboxtest.Suite(t, docker.New(o))
	if left := engine(t).containers(t, "dev.rivumi.instance="+instance()); len(left) > 0 {
		t.Errorf("containers left: %v", left)
	}
}

func TestReceiptSaysWhatHolds(t *testing.T) {
	s := open(t, options(t), sandbox.Spec{})
	r := s.Receipt()
	if r.Tier != sandbox.TierDocker || r.Network != "none" || r.Way != "plain" {
		t.Errorf("receipt %+v", r)
	}
	for _, n := range []string{"engine", "runtime", "kernel", "image"} {
		if r.Versions[n] == "" {
			t.Errorf("no version of %s in %v", n, r.Versions)
		}
	}
	if !strings.HasPrefix(r.Versions["image"], "sha256:") {
		t.Errorf("image %q", r.Versions["image"])
	}
	for _, n := range []string{"seccomp", "landlock", "capabilities", "namespaces", "root", "no_new_privs", "limits"} {
		if r.Layers[n] == "" {
			t.Errorf("no layer %s in %v", n, r.Layers)
		}
	}
	t.Log(r)
}
