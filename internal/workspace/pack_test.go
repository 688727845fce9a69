package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

func packed(t *testing.T, root string, o workspace.PackOptions) *workspace.Pack {
	t.Helper()
	repo, err := workspace.Discover(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	o.Dir = filepath.Join(t.TempDir(), "pack")
	p, err := repo.Pack(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func unpack(ctx context.Context, bundle, dir string) error {
	f, err := os.Open(bundle)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = workspace.Unpack(ctx, f, workspace.UnpackOptions{Dir: dir})
	return err
}

// startOf makes a workspace of a checkout and gives what the run would start from.
func startOf(t *testing.T, root string, include ...string) (contract.WorkspaceReady, string) {
	t.Helper()
	repo, err := workspace.Discover(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Create(t.Context(), workspace.Options{Repo: repo, Include: include, Dir: filepath.Join(t.TempDir(), "ws")})
	if err != nil {
		t.Fatal(err)
	}
	return w.Ready(), w.Tree()
}

func dirtyRepo(t *testing.T) *gitrepo.Repo {
	t.Helper()
	r := gitrepo.New(t, gitrepo.Files{
		"a.txt": "one\n", "run.sh*": "#!/bin/sh\n", "gone.txt": "bye\n", "link": "-> a.txt", ".gitignore": "*.log\nlocal/\n", "deep/er/x": "x\n",
	})
	r.Write(gitrepo.Files{"a.txt": "one\ntwo\n"})
	r.Commit("second")
	r.Write(gitrepo.Files{
		"a.txt": "one\ntwo\nthree\n", "new.txt": "untracked\n", "staged.log": "ignored but staged\n", "local/data": "for the run\n", "deep/er/y*": "y\n",
	})
	r.Git("add", "-f", "staged.log")
	if err := os.Remove(filepath.Join(r.Root, "gone.txt")); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAPackedSourceStartsTheSameRun(t *testing.T) {
	r := dirtyRepo(t)
	before := gitrepo.Snapshot(t, r.Root)
	p := packed(t, r.Root, workspace.PackOptions{Include: []string{"local/**"}})
	before.Same(t)
	if p.Files != 5 || p.Bytes == 0 || len(p.SHA256) != 64 {
		t.Errorf("preview: %+v", p)
	}
	dir := filepath.Join(t.TempDir(), "src")
	if err := unpack(t.Context(), p.Path, dir); err != nil {
		t.Fatal(err)
	}
	here, hereTree := startOf(t, r.Root, "local/**")
	there, thereTree := startOf(t, dir, "local/**")
	if here.BaseSHA != there.BaseSHA || here.BaseTree != there.BaseTree || here.BaseTree != p.Tree {
		t.Errorf("start: %s %s here, %s %s there, packed %s", here.BaseSHA, here.BaseTree, there.BaseSHA, there.BaseTree, p.Tree)
	}
	if here.Dirty != there.Dirty || here.Dirty != p.Dirty {
		t.Errorf("dirty: %+v here, %+v there, packed %+v", here.Dirty, there.Dirty, p.Dirty)
	}
	for _, name := range []string{"a.txt", "staged.log", "local/data", "new.txt"} {
		a, aerr := os.ReadFile(filepath.Join(hereTree, name))
		b, berr := os.ReadFile(filepath.Join(thereTree, name))
		if aerr != nil || berr != nil || string(a) != string(b) {
			t.Errorf("%s: %q %v, %q %v", name, a, aerr, b, berr)
		}
	}
	if again := packed(t, r.Root, workspace.PackOptions{Include: []string{"local/**"}}); again.SHA256 != p.SHA256 {
		t.Error("the same source packs to other bytes")
	}
}

func TestACleanAndAShallowSourceArrive(t *testing.T) {
	r := gitrepo.New(t, gitrepo.Files{"a": "1\n"})
	r.Write(gitrepo.Files{"a": "2\n"})
	head := r.Commit("second")
	shallow := filepath.Join(t.TempDir(), "shallow")
	r.Git("clone", "-q", "--depth=1", "file://"+r.Root, shallow)
	for _, root := range []string{r.Root, shallow} {
		dir := filepath.Join(t.TempDir(), "src")
		if err := unpack(t.Context(), packed(t, root, workspace.PackOptions{}).Path, dir); err != nil {
			t.Fatal(err)
		}
		got := gitrepo.At(t, dir)
		if got.Git("rev-parse", "HEAD") != head || got.Git("status", "--porcelain") != "" {
			t.Errorf("%s: %s %q", root, got.Git("rev-parse", "HEAD"), got.Git("status", "--porcelain"))
		}
	}
}

func TestCredentialsAreNotSentUnasked(t *testing.T) {
	for name, text := range map[string]string{
		".env": "A=1\n", "deploy/id_rsa": "x\n", "note.txt": "key AKIA" + "ABCDEFGHIJKLMNOP\n", "k.txt": "-----BEGIN OPENSSH PRIVATE " + "KEY-----\n",
	} {
		r := gitrepo.New(t, gitrepo.Files{"a": "1\n"})
		r.Write(gitrepo.Files{name: text, ".env.example": "A=\n"})
		repo, err := workspace.Discover(t.Context(), r.Root)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "pack")
		_, err = repo.Pack(t.Context(), workspace.PackOptions{Dir: dir})
		if contract.KindOf(err) != contract.KindForbidden || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "example") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: the work is left: %v", name, err)
		}
		if p := packed(t, r.Root, workspace.PackOptions{Secrets: true}); len(p.Suspects) != 1 {
			t.Errorf("%s: %+v", name, p.Suspects)
		}
		if p := packed(t, r.Root, workspace.PackOptions{Dirty: contract.DirtyExclude}); len(p.Suspects) != 0 || p.Files != 0 {
			t.Errorf("%s left behind: %+v", name, p)
		}
	}
}

func TestAHostileBundleIsRefused(t *testing.T) {
	r := gitrepo.New(t, gitrepo.Files{"a": "1\n"})
	base := r.Git("rev-parse", "HEAD")
	blob := r.Git("hash-object", "-w", "a")
	evil := func(path string) string { // a commit whose tree has a path git itself would not add
		name := filepath.Join(t.TempDir(), "tree")
		raw := "100644 " + path + "\x00"
		for i := 0; i < len(blob); i += 2 {
			raw += string([]byte{hexByte(blob[i])<<4 | hexByte(blob[i+1])})
		}
		if err := os.WriteFile(name, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		tree := r.Git("hash-object", "-t", "tree", "--literally", "-w", name)
		return r.Git("commit-tree", "-p", base, "-m", "evil", tree)
	}
	bundle := func(refs map[string]string) string {
		file := filepath.Join(t.TempDir(), "b")
		args := []string{"bundle", "create", "-q", file}
		for name, oid := range refs {
			r.Git("update-ref", name, oid)
			args = append(args, name)
		}
		r.Git(args...)
		return file
	}
	whole, err := os.ReadFile(bundle(map[string]string{"refs/rivumi/base": base}))
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(cut, whole[:len(whole)-30], 0o600); err != nil {
		t.Fatal(err)
	}
	other := r.Commit("unrelated")
	r.Git("checkout", "-q", "--orphan", "alone")
	alone := r.Commit("alone")
	r.Git("checkout", "-q", "trunk")
	for name, file := range map[string]string{
		"another ref":      bundle(map[string]string{"refs/rivumi/base": base, "refs/heads/trunk": other}),
		"no base":          bundle(map[string]string{"refs/rivumi/start": base}),
		"cut off":          cut,
		"not on the base":  bundle(map[string]string{"refs/rivumi/base": base, "refs/rivumi/start": alone}),
		"a .git path":      bundle(map[string]string{"refs/rivumi/base": base, "refs/rivumi/start": evil(".git")}),
		"a path upwards":   bundle(map[string]string{"refs/rivumi/base": base, "refs/rivumi/start": evil("..")}),
		"git~1":            bundle(map[string]string{"refs/rivumi/base": base, "refs/rivumi/start": evil("GIT~1")}),
		"no bundle at all": filepath.Join(r.Root, "a"),
	} {
		dir := filepath.Join(t.TempDir(), "src")
		if err := unpack(t.Context(), file, dir); contract.KindOf(err) != contract.KindInvalid {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: something is left", name)
		}
	}
}

func hexByte(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

func TestInlineFilesBecomeARepository(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "src")
	err := workspace.FromFiles(t.Context(), []workspace.InlineFile{
		{Path: "a b/c.txt", Content: []byte("x\x00y")}, {Path: "run", Content: []byte("#!/bin/sh\n"), Executable: true},
	}, dir)
	if err != nil {
		t.Fatal(err)
	}
	r := gitrepo.At(t, dir)
	if r.Git("status", "--porcelain") != "" || r.Read("a b/c.txt") != "x\x00y" || !strings.Contains(r.Git("ls-files", "-s"), "100755") {
		t.Error(r.Git("ls-files", "-s"), r.Git("status", "--porcelain"))
	}
	for _, list := range [][]string{{"a", "a/b"}, {".git/config"}, {"../x"}} {
		var files []workspace.InlineFile
		for _, p := range list {
			files = append(files, workspace.InlineFile{Path: p, Content: []byte("x")})
		}
		if err := workspace.FromFiles(t.Context(), files, filepath.Join(t.TempDir(), "s")); contract.KindOf(err) != contract.KindInvalid {
			t.Errorf("%v: %v", list, err)
		}
	}
}
