package docker_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"
)

// This file is the only one that knows dockertest: it finds the engine and makes the test's image.

// programs of this machine that the test's image holds, with the libraries they name.
var programs = []string{
	"sh", "bash", "cat", "cp", "dd", "echo", "env", "false", "git", "grep", "head", "id", "ln", "ls", "mkdir", "mktemp", "printf", "pwd", "rm",
	"sed", "seq", "setsid", "sleep", "tail", "test", "touch", "tr", "true", "wc", "yes", "chmod", "stat", "readlink", "basename", "uname", "find",
}

type fixture struct {
	pool   *dockertest.Pool
	image  string
	binary string
}

var shared struct {
	once sync.Once
	f    fixture
	err  error
}

// engine gives the engine, an image and the static program. Where no engine answers the test is
// skipped, except in CI, where it fails.
func engine(t testing.TB) fixture {
	t.Helper()
	shared.once.Do(func() { shared.f, shared.err = prepare() })
	if shared.err != nil {
		if os.Getenv("RIVUMI_CI") != "" {
			t.Fatalf("CI must test with an engine: %v", shared.err)
		}
		t.Skipf("NOT TESTED: no container engine: %v", shared.err)
	}
	return shared.f
}

func prepare() (fixture, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return fixture{}, err
	}
	if err := pool.Client.Ping(); err != nil {
		return fixture{}, err
	}
	f := fixture{pool: pool, binary: filepath.Join(work, "rivumi")}
	build := exec.Command("go", "build", "-o", f.binary, "github.com/rivumi/rivumi/cmd/rivumi")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return f, fmt.Errorf("build the static program: %w\n%s", err, out)
	}
	f.image, err = hostImage(pool)
	return f, err
}

// hostImage imports an image of this machine's own programs, so that nothing is downloaded. It is
// kept under a name that says what is in it.
func hostImage(pool *dockertest.Pool) (string, error) {
	files, err := closure(programs)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, f, st.Size(), st.ModTime().UnixNano())
	}
	tag := fmt.Sprintf("%x", sum.Sum(nil)[:6])
	name := "localhost/rivumi-test:" + tag
	if _, err := pool.Client.InspectImage(name); err == nil {
		return name, nil
	}
	var b bytes.Buffer
	if err := pack(&b, files); err != nil {
		return "", err
	}
	err = pool.Client.ImportImage(dc.ImportImageOptions{
		Repository: "localhost/rivumi-test", Tag: tag, Source: "-", InputStream: &b, OutputStream: io.Discard,
	})
	return name, err
}

// closure lists the programs' files and the libraries they are linked with.
func closure(names []string) ([]string, error) {
	seen := map[string]bool{}
	for _, n := range names {
		p, err := exec.LookPath(n)
		if err != nil {
			return nil, err
		}
		seen[p] = true
		out, _ := exec.Command("ldd", p).Output() // a static one has none
		for _, w := range strings.Fields(string(out)) {
			if strings.HasPrefix(w, "/") {
				seen[w] = true
			}
		}
	}
	var files []string
	for f := range seen {
		files = append(files, f)
	}
	slices.Sort(files)
	return files, nil
}

// pack writes files under the names they are looked for by, links followed.
func pack(w io.Writer, files []string) error {
	tw := tar.NewWriter(w)
	for _, l := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + l); err == nil {
			if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: l, Linkname: target, Mode: 0o777}); err != nil {
				return err
			}
		}
	}
	for _, d := range []string{"tmp", "etc", "proc", "dev", "sys"} {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o755}); err != nil {
			return err
		}
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(f))
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(filepath.Join(dir, filepath.Base(f)), "/")
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(fs.FileMode(0o755)), Size: int64(len(text))}); err != nil {
			return err
		}
		if _, err := tw.Write(text); err != nil {
			return err
		}
	}
	return tw.Close()
}

// containers lists those with a label, running or not.
func (f fixture) containers(t testing.TB, label string) []string {
	t.Helper()
	list, err := f.pool.Client.ListContainers(dc.ListContainersOptions{All: true, Filters: map[string][]string{"label": {label}}})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return ids
}

func (f fixture) pause(t testing.TB, id string) {
	t.Helper()
	if err := f.pool.Client.PauseContainer(id); err != nil {
		t.Fatal(err)
	}
}

// inspect gives all that the engine tells of a container.
func (f fixture) inspect(t testing.TB, id string) string {
	t.Helper()
	c, err := f.pool.Client.InspectContainer(id)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v %+v %+v", c, c.Config, c.HostConfig)
}
