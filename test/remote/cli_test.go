package remote

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
)

// shell runs the program with a home of its own.
type shell struct {
	t         *testing.T
	dir, home string
}

func (s shell) run(stdin string, args ...string) (out string, code int) {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(s.t.Context(), self, args...)
	cmd.Dir, cmd.Stdin = s.dir, strings.NewReader(stdin)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "RIVUMI_TEST_CLI=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
	}
	b, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(b), exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	return string(b), 0
}

func (s shell) ok(stdin string, args ...string) string {
	s.t.Helper()
	out, code := s.run(stdin, args...)
	if code != 0 {
		s.t.Fatalf("rivumi %v: exit code %d\n%s", args, code, out)
	}
	return out
}

func TestARemoteRunComesHomeOntoADirtyTree(t *testing.T) {
	r := dirty(t)
	p := newPlane(t, twoSteps(), newChildren(t))
	s := shell{t: t, dir: r.Root, home: t.TempDir()}
	if out, code := s.run("wrong\n", "login", p.addr); code != contract.ExitCredentials {
		t.Errorf("a wrong token: exit code %d\n%s", code, out)
	}
	if out, code := s.run(apiToken, "login", "http://example.com"); code != contract.ExitUsage {
		t.Errorf("plain http off this machine: exit code %d\n%s", code, out)
	}
	s.ok(apiToken, "login", p.addr)
	before := gitrepo.Snapshot(t, r.Root)
	out := s.ok("", "run", "--remote", "-m", "one", "--approve", "all", "--timeout", "2m", "add a line")
	before.Same(t)
	if !strings.Contains(out, "b.txt") {
		t.Errorf("the summary:\n%s", out)
	}
	s.ok("", "attach", "@last")
	s.ok("", "diff", "@last")
	if out := s.ok("", "ps", "--remote"); !strings.Contains(out, "add a line") {
		t.Errorf("ps --remote:\n%s", out)
	}
	s.ok("", "apply", "@last")
	if r.Read("a.txt") != "one\nmine\nagent\n" || r.Read("b.txt") != "new\n" || r.Read("u.txt") != "untracked\n" {
		t.Errorf("%q %q %q", r.Read("a.txt"), r.Read("b.txt"), r.Read("u.txt"))
	}
	s.ok("", "undo", "@last")
	if r.Read("a.txt") != "one\nmine\n" {
		t.Errorf("undone: %q", r.Read("a.txt"))
	}
	tokens, err := filepath.Glob(filepath.Join(s.home, ".local/state/rivumi/tokens/*"))
	if err != nil || len(tokens) != 1 {
		t.Fatalf("tokens: %v %v", tokens, err)
	}
	if info, err := os.Stat(tokens[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token file: %v %v", info.Mode(), err)
	}
	r.Write(gitrepo.Files{".env": "A=1\n"})
	if out, code := s.run("", "run", "--remote", "-m", "one", "more"); code != contract.ExitUsage || !strings.Contains(out, ".env") {
		t.Errorf("an environment file was sent: exit code %d\n%s", code, out)
	}
	p.stop()
	if err := os.Remove(filepath.Join(r.Root, ".env")); err != nil {
		t.Fatal(err)
	}
	if out, code := s.run("", "run", "--remote", "-m", "one", "more"); code != contract.ExitServer {
		t.Errorf("a control plane that is away: exit code %d\n%s", code, out)
	}
}
