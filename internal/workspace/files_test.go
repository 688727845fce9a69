package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

func tools(t *testing.T, b *bench) *workspace.Files {
	t.Helper()
	f, err := b.ws.Files(b.tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func denies(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestPP01LinksThatLeaveAreDenied(t *testing.T) {
	out := t.TempDir()
	gitrepo.WriteTree(t, out, gitrepo.Files{"v.txt": "secret\n"})
	b := open(t, gitrepo.New(t, gitrepo.Files{
		"out": "-> " + out, "note.md": "-> " + out + "/v.txt", "new.md": "-> " + out + "/n.txt", "up": "-> ../../..", "self": "-> self",
		"d/in": "-> ../real", "real": "r\n", "dd": "-> d",
	}))
	f := tools(t, b)
	shot := gitrepo.Snapshot(t, out)
	for _, p := range []string{"out/x", "note.md", "new.md", "up/x", "out", "self"} {
		denies(t, "write "+p, f.Write(p, []byte("x")))
		_, _, err := f.Read(p)
		denies(t, "read "+p, err)
	}
	shot.Same(t)
	if err := f.Write("dd/in", []byte("through links\n")); err != nil || b.read("real") != "through links\n" {
		t.Errorf("a link that stays inside: %v", err)
	}
	if fi, err := os.Lstat(filepath.Join(b.tree, "d/in")); err != nil || fi.Mode()&fs.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
}

func TestPP02GitFoldersAreDenied(t *testing.T) {
	b := open(t, gitrepo.New(t, gitrepo.Files{"a": "a\n"}))
	b.write(gitrepo.Files{"nested/.git/config": "c\n", "l": "-> nested/.git", "m": "-> .git"})
	f := tools(t, b)
	for _, p := range []string{
		".git/hooks/pre-commit", ".git", "vendor/x/.git/config", ".GIT/x", "sub/.git", "nested/.git/config", ".git./x", "git~1/x", ".g\u200cit/x",
		"l/config", "m", "x/../.git/y",
	} {
		denies(t, "write "+p, f.Write(p, []byte("x")))
		_, _, err := f.Read(p)
		denies(t, "read "+p, err)
	}
	for _, p := range []string{".gitignore", ".github/x", "a.git", "git"} {
		if err := f.Write(p, []byte("x")); err != nil {
			t.Errorf("write %s: %v", p, err)
		}
	}
}

func TestPP04TwoDotsInNamesAreFine(t *testing.T) {
	f := tools(t, open(t, gitrepo.New(t, gitrepo.Files{"a/x": "a\n"})))
	for _, p := range []string{"foo..bar", ".hidden.json", "a/..b/c", "x...y"} {
		if err := f.Write(p, []byte("x")); err != nil {
			t.Errorf("write %s: %v", p, err)
		}
	}
	for _, p := range []string{"../f", "a/../../f", "a/..", "", ".", "/", "x\x00y"} {
		denies(t, "write "+p, f.Write(p, []byte("x")))
	}
}

func TestWT07PathsOfTheCheckoutAreDeniedAndNamed(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{"a.txt": "a\n"})
	b := open(t, user)
	f := tools(t, b)
	shot := gitrepo.Snapshot(t, user.Root)
	err := f.Write(user.Path("a.txt"), []byte("x"))
	denies(t, "write", err)
	if !strings.Contains(err.Error(), user.Root) || !strings.Contains(err.Error(), b.tree) {
		t.Errorf("the error does not name both roots: %v", err)
	}
	shot.Same(t)
	if err := f.Write(filepath.Join(b.tree, "a.txt"), []byte("in the tree\n")); err != nil || b.read("a.txt") != "in the tree\n" {
		t.Errorf("an absolute path in the tree: %v", err)
	}
}

func TestFilesAreWrittenByteForByte(t *testing.T) {
	b := open(t, gitrepo.New(t, gitrepo.Files{"x*": "#!/bin/sh\n", "long": strings.Repeat("x", 1000)}))
	f := tools(t, b)
	for name, text := range map[string]string{"x": "a\r\nb", "long": "short", "new/deep/f": "\xff\x00\xfe", "empty": ""} {
		if err := f.Write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, _, err := f.Read(name); err != nil || string(got) != text {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if _, mode, _ := f.Read("x"); mode != 0o755 {
		t.Errorf("mode %v", mode)
	}
	if _, _, err := f.Read("nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := unix.Mkfifo(filepath.Join(b.tree, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Read("pipe"); err == nil {
		t.Error("a pipe was read")
	}
	if err := f.Write("pipe", []byte("x")); err == nil {
		t.Error("a pipe was written")
	}
	if _, _, err := f.Read("new"); err == nil {
		t.Error("a folder was read")
	}
}

// Two threads swap a folder with a link that leads out while the file tools and a snapshot work.
func TestRacingLinkSwapsNeverLeadOut(t *testing.T) {
	out := t.TempDir()
	gitrepo.WriteTree(t, out, gitrepo.Files{"f": "SECRET outside\n"})
	b := open(t, gitrepo.New(t, gitrepo.Files{"d/f": "inside\n", "a": "a\n", "d/.gitattributes": "* text\n", "d/.gitignore": "x\n"}))
	f := tools(t, b)
	shot := gitrepo.Snapshot(t, out)
	d, kept, link := filepath.Join(b.tree, "d"), filepath.Join(b.tree, "kept"), filepath.Join(b.tree, "link")
	if err := os.Symlink(out, link); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	})
	_ = kept
	until := time.Now().Add(1500 * time.Millisecond)
	for n := 0; time.Now().Before(until); n++ {
		_ = f.Write("d/f", []byte("written\n"))
		_ = f.Write("d/new", []byte("written\n"))
		if text, _, err := f.Read("d/f"); err == nil && strings.Contains(string(text), "SECRET") {
			t.Fatal("a file outside was read")
		}
		if n%20 == 0 {
			s, err := b.ws.Snapshot(t.Context())
			if strings.Contains(string(s.Patch), "SECRET") {
				t.Fatalf("a file outside is in the patch: %v", err)
			}
			if err != nil {
				t.Errorf("snapshot under attack: %v", err)
			}
		}
	}
	close(stop)
	wg.Wait()
	shot.Same(t)
}
