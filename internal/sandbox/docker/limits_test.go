package docker_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/docker"
	"github.com/rivumi/rivumi/internal/sandbox/sandboxtest"
)

func TestMemoryEndsTheCommandAndNotTheSession(t *testing.T) {
	s := open(t, options(t), sandbox.Spec{Limits: sandbox.Limits{Memory: 96 << 20}})
	e, _ := script(t, s, "x=xxxxxxxx; while :; do x=$x$x; done")
	if e.Code == 0 || !e.Memory {
		t.Errorf("hog: %+v", e)
	}
	if e, out := script(t, s, "echo on"); out != "on\n" || e.Memory {
		t.Errorf("the session does not go on: %+v %q", e, out)
	}
}

func TestForkBombAndFilledDiskStayInside(t *testing.T) {
	s := open(t, options(t), sandbox.Spec{Limits: sandbox.Limits{Processes: 64, FileSize: 1 << 20}})
	var out bytes.Buffer
	e, err := s.Run(t.Context(), sandbox.Command{
		Argv: []string{"bash", "-c", "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; echo all"}, Timeout: 20 * time.Second,
	}, sandbox.Output{Stdout: &out, Stderr: &out})
	if err != nil || strings.Contains(out.String(), "all\n") || e.Left > 64 {
		t.Errorf("forks: %+v %v %s", e, err, out.String())
	}
	if e, out := script(t, s, "echo on"); e.Code != 0 || out != "on\n" {
		t.Errorf("the session does not go on: %+v %q", e, out)
	}
	if e, out := script(t, s, "head -c 2000000 /dev/zero > big"); e.Code == 0 {
		t.Errorf("a file grew past its limit: %+v %s", e, out)
	}
	for _, dir := range []string{"/tmp", "$HOME"} {
		e, out := script(t, s, "cd "+dir+"; i=0; while [ $i -lt 80 ]; do head -c 1000000 /dev/zero > f$i || exit 9; i=$((i+1)); done; echo all")
		if e.Code != 9 || strings.Contains(out, "all") {
			t.Errorf("%s was filled past its size: %+v %s", dir, e, out)
		}
		script(t, s, "rm -f "+dir+"/f*")
	}
	for _, dir := range []string{"/", "/etc", "/usr/bin", "/var", "/dev"} {
		if e, _ := script(t, s, "touch "+dir+"/x"); e.Code == 0 {
			t.Errorf("wrote to %s", dir)
		}
	}
}

// CX-06: a container that stands still fails the command at its own limit, and closing still works.
func TestCX06PausedContainerFailsAtTheCommandsLimit(t *testing.T) {
	f := engine(t)
	s := open(t, options(t), sandbox.Spec{})
	id := f.containers(t, "dev.rivumi.run="+t.Name())[0]
	w := &firstWrite{seen: make(chan struct{})}
	go func() {
		<-w.seen
		_ = f.pool.Client.PauseContainer(id) // its failure shows as a success of the command
	}()
	begun := time.Now()
	_, err := s.Run(t.Context(), sandbox.Command{Argv: []string{"sh", "-c", "echo up; sleep 3"}, Timeout: 2 * time.Second, Grace: 100 * time.Millisecond}, sandbox.Output{Stdout: w})
	if sandboxtest.Code(err) != sandbox.ErrLost {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > 90*time.Second {
		t.Errorf("took %s", took)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	if left := f.containers(t, "dev.rivumi.run="+t.Name()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// CX-07: the container's user is the tree's owner, who can remove everything afterwards; git works.
func TestCX07TreeOfAnotherUserStaysHis(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	const uid = 12345
	tree := t.TempDir()
	for p := tree; strings.HasPrefix(p, os.TempDir()+"/"); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(tree, uid, uid); err != nil {
		t.Fatal(err)
	}
	s := open(t, options(t), sandbox.Spec{Tree: tree})
	e, out := script(t, s, `set -e; id -u; git init -q --template= .; umask 077; mkdir -p d/e; echo x > d/e/f; chmod 0 d/e/f; git status --short; grep Cap /proc/self/status | grep -cv 0000000000000000 || true
test ! -e "$HOME/.gitconfig"`)
	if e.Code != 0 || out != "12345\n?? d/\n0\n" && out != "12345\n0\n" {
		t.Errorf("%+v %s", e, out)
	}
	if len(s.Receipt().Missing) != 0 {
		t.Errorf("missing: %v", s.Receipt().Missing)
	}
	rm := exec.Command("rm", "-rf", filepath.Join(tree, "d"), filepath.Join(tree, ".git"))
	rm.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if out, err := rm.CombinedOutput(); err != nil {
		t.Errorf("the owner cannot remove it: %v %s", err, out)
	}
}

// WT-08: a linked worktree points to a folder outside; with that shown read-only, git works inside.
func TestWT08LinkedWorktreeWorksInside(t *testing.T) {
	base := t.TempDir()
	repo, tree := filepath.Join(base, "repo"), filepath.Join(base, "tree")
	git := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-c", "user.name=n", "-c", "user.email=a@b"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	git("init", "-q", repo)
	git("-C", repo, "commit", "-q", "--allow-empty", "-m", "one")
	git("-C", repo, "worktree", "add", "-q", "--detach", tree)
	s := open(t, options(t), sandbox.Spec{Tree: tree, Binds: []sandbox.Bind{{Path: filepath.Join(repo, ".git")}}})
	e, out := script(t, s, "echo x > f; git status --short; git log --format=%s; git config core.fsmonitor evil || echo kept")
	if e.Code != 0 || !strings.HasPrefix(out, "?? f\none\n") || !strings.HasSuffix(out, "kept\n") {
		t.Errorf("%+v %s", e, out)
	}
}

func TestReadOnlyTreeAndForbiddenFolders(t *testing.T) {
	o := options(t)
	s := open(t, o, sandbox.Spec{ReadOnly: true})
	if e, _ := script(t, s, "touch x"); e.Code == 0 {
		t.Error("wrote to a read-only tree")
	}
	sock := filepath.Join(t.TempDir(), "docker.sock")
	if err := os.WriteFile(sock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"/", "/proc", "/var/run", sock, "relative"} {
		_, err := docker.New(o).Open(t.Context(), sandbox.Spec{Tree: t.TempDir(), Binds: []sandbox.Bind{{Path: p}}})
		if sandboxtest.Code(err) != sandbox.ErrStart {
			t.Errorf("%s was shown: %v", p, err)
		}
	}
	if _, err := docker.New(o).Open(t.Context(), sandbox.Spec{Tree: t.TempDir(), Overlay: &sandbox.Overlay{}}); sandboxtest.Code(err) != sandbox.ErrOverlay {
		t.Errorf("overlay: %v", err)
	}
	if _, err := docker.New(o).Open(t.Context(), sandbox.Spec{Tree: t.TempDir(), MinTier: sandbox.TierGVisor}); sandboxtest.Code(err) != sandbox.ErrTier {
		t.Errorf("gvisor: %v", err)
	}
}

func TestNetworkIsOnlyTheProxy(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "reached ", r.Host) }))
	defer far.Close()
	host := strings.TrimPrefix(far.URL, "http://")
	get := func(s sandbox.Session, to, url string) string {
		t.Helper()
		var out bytes.Buffer
		to = strings.Replace(to, ":", "/", 1)
		_, err := s.Run(t.Context(), sandbox.Command{Timeout: time.Minute, Argv: []string{
			"bash", "-c", "exec 3<>/dev/tcp/" + to + " || exit 1; printf 'GET " + url + " HTTP/1.1\\r\\nHost: " + host + "\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3",
		}}, sandbox.Output{Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	closed := open(t, options(t), sandbox.Spec{})
	if got := get(closed, "127.0.0.1:8118", far.URL) + get(closed, host, "/"); got != "" {
		t.Errorf("without hosts: %q", got)
	}
	s := open(t, options(t), sandbox.Spec{Hosts: []string{"127.0.0.1"}})
	if r := s.Receipt(); r.Network != "127.0.0.1" {
		t.Errorf("network %q", r.Network)
	}
	if got := get(s, "127.0.0.1:8118", far.URL); !strings.Contains(got, "reached 127.0.0.1") {
		t.Errorf("listed: %q", got)
	}
	if got := get(s, "127.0.0.1:8118", "http://localhost:1/"); !strings.Contains(got, " 403 ") {
		t.Errorf("not listed: %q", got)
	}
	if got := get(s, host, "/"); got != "" {
		t.Errorf("past the proxy: %q", got)
	}
}

// SE-01, SE-03: neither the owner's environment nor pid 1 can be read, nor the way it came in.
func TestSE01SE03NothingOfTheOwnerCanBeRead(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-test-000111222333")
	s := open(t, options(t), sandbox.Spec{})
	_, out := script(t, s, `env; for p in /proc/[0-9]* /proc/self; do cat $p/environ $p/cmdline 2>/dev/null | tr '\0' '\n'; done; grep -r sk-test /tmp /run /etc /var 2>/dev/null; echo end`)
	if strings.Contains(out, "sk-test-000111222333") || !strings.HasSuffix(out, "end\n") {
		t.Error("the key is readable inside")
	}
	for _, what := range []string{"cat /proc/1/environ", "readlink /proc/1/fd/3", "head -c 1 /proc/1/mem", "readlink /proc/1/exe", "cat /proc/1/maps"} {
		if e, out := script(t, s, what); e.Code == 0 {
			t.Errorf("%s: %s", what, out)
		}
	}
	if e, out := script(t, s, "for p in /proc/[0-9]*; do echo ${p#/proc/}; done | wc -l"); e.Code != 0 || len(strings.TrimSpace(out)) > 1 {
		t.Errorf("processes seen: %s", out)
	}
}

type firstWrite struct {
	seen chan struct{}
	done bool
}

func (w *firstWrite) Write(p []byte) (int, error) {
	if !w.done {
		w.done = true
		close(w.seen)
	}
	return len(p), nil
}

// ownerEnv makes the test binary an owner that holds a session with a running command, to be killed.
const ownerEnv = "RIVUMI_TEST_DOCKER_OWNER"

func ownerMain(spec string) int {
	part := strings.Split(spec, "|")
	ctx := context.Background()
	s, err := docker.New(docker.Options{Image: part[0], Binary: part[1], Instance: part[2], Run: part[3]}).
		Open(ctx, sandbox.Spec{Tree: part[4], Env: sandbox.BaseEnv(part[4], nil)})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = s.Run(ctx, sandbox.Command{Argv: []string{"sh", "-c", "echo up; trap '' TERM HUP; sleep 1000; sleep 1000"}}, sandbox.Output{Stdout: os.Stdout})
	fmt.Println(err)
	return 1
}

// CX-04: the owner is killed; the container notices and the engine removes it.
func TestCX04SessionOfAKilledOwnerIsRemoved(t *testing.T) {
	f, o := engine(t), options(t)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), ownerEnv+"="+strings.Join([]string{o.Image, o.Binary, o.Instance, t.Name() + strconv.Itoa(os.Getpid()), t.TempDir()}, "|"))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	label := "dev.rivumi.run=" + t.Name() + strconv.Itoa(os.Getpid())
	if line != "up\n" || len(f.containers(t, label)) != 1 {
		t.Errorf("owner said %q, containers %v", line, f.containers(t, label))
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	poll(t, "the removal", func() bool { return len(f.containers(t, label)) == 0 })
}

func BenchmarkCommand(b *testing.B) {
	s := open(b, options(b), sandbox.Spec{})
	for b.Loop() {
		var out bytes.Buffer
		if e, err := s.Run(b.Context(), sandbox.Command{Argv: []string{"/bin/true"}}, sandbox.Output{Stdout: &out, Stderr: &out}); err != nil || e.Code != 0 {
			b.Fatal(e, err)
		}
	}
}

// From nothing to the first byte of a first command; closing is left out.
func BenchmarkColdStart(b *testing.B) {
	o, dir := options(b), b.TempDir()
	for b.Loop() {
		s, err := docker.New(o).Open(b.Context(), sandbox.Spec{Tree: dir, Env: sandbox.BaseEnv(b.TempDir(), nil)})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Run(b.Context(), sandbox.Command{Argv: []string{"/bin/true"}}, sandbox.Output{}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
