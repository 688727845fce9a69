package proc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

// userCaches makes the HOME of a user with caches and with the secrets that lie beside them.
func userCaches(t *testing.T) (home string, caches []sandbox.Cache) {
	t.Helper()
	home = t.TempDir()
	for p, text := range map[string]string{
		"go/pkg/mod/example.test/m@v1.0.0/m.go": "package m\n", ".cache/go-build/00/a": "object\n", ".npm/_cacache/index": "npm\n", ".cache/pip/http": "pip\n",
		".cargo/registry/r": "crate\n", ".cargo/git/g": "git\n", ".m2/repository/j": "jar\n", ".gradle/caches/c": "gradle\n",
		".npmrc": "secret", ".cargo/credentials.toml": "secret", ".m2/settings.xml": "secret", ".gradle/gradle.properties": "secret",
		".npm/_logs/l": "secret", ".config/pip/pip.conf": "secret",
	} {
		p = filepath.Join(home, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return home, sandbox.UserCaches(func(name string) string { return map[string]string{"HOME": home}[name] })
}

const readCaches = `cat $GOMODCACHE/example.test/m@v1.0.0/m.go $GOCACHE/00/a ~/.npm/_cacache/index ~/.cache/pip/http ~/.cargo/registry/r ~/.cargo/git/g ~/.m2/repository/j ~/.gradle/caches/c`

func TestFullCachesAreReadAndNeverChanged(t *testing.T) {
	home, caches := userCaches(t)
	s := openWith(t, proc.Options{Want: sandbox.TierFull, Caches: caches}, sandbox.Spec{})
	code, out := script(t, s, readCaches)
	if code != 0 || strings.Count(out, "\n") != 8 {
		t.Fatalf("exit %d\n%s", code, out)
	}
	if code, out := script(t, s, `echo poison > $GOCACHE/00/a && rm $GOMODCACHE/example.test/m@v1.0.0/m.go && echo new > ~/.npm/_cacache/new && cat $GOCACHE/00/a`); code != 0 || out != "poison\n" {
		t.Errorf("the layer cannot be written: exit %d\n%s", code, out)
	}
	if b, _ := os.ReadFile(filepath.Join(home, ".cache/go-build/00/a")); string(b) != "object\n" {
		t.Errorf("the user's cache was changed: %q", b)
	}
	for _, p := range []string{"go/pkg/mod/example.test/m@v1.0.0/m.go", ".npm/_cacache/index"} {
		if _, err := os.Stat(filepath.Join(home, p)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(home, ".npm/_cacache/new")); err == nil {
		t.Error("a command wrote into the user's cache")
	}
	// The next session, which may run the checks, starts from the user's cache and not from that layer.
	checks := openWith(t, proc.Options{Want: sandbox.TierFull, Caches: caches}, sandbox.Spec{})
	if code, out := script(t, checks, readCaches+" && ! test -e ~/.npm/_cacache/new"); code != 0 || !strings.Contains(out, "object\n") || strings.Contains(out, "poison") {
		t.Errorf("another session sees the layer: exit %d\n%s", code, out)
	}
}

func TestFullCachesShowNoSecrets(t *testing.T) {
	home, caches := userCaches(t)
	s := openWith(t, proc.Options{Want: sandbox.TierFull, Caches: caches}, sandbox.Spec{})
	if code, out := script(t, s, `grep -rs secret ~ `+home+` | grep -v '^Binary'`); code == 0 || out != "" {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// Where no layers can be had the frozen caches are read-only and the others empty.
func TestBwrapCachesAreReadOnly(t *testing.T) {
	needsBwrap(t)
	home, caches := userCaches(t)
	s := openWith(t, proc.Options{Want: sandbox.TierBwrap, Caches: caches}, sandbox.Spec{})
	if code, out := script(t, s, `cat $GOMODCACHE/example.test/m@v1.0.0/m.go && test -z "$GOCACHE" && ! touch $GOMODCACHE/x && mkdir -p ~/.cache/go-build && ! test -e ~/.cache/go-build/00`); code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	if _, err := os.Stat(filepath.Join(home, "go/pkg/mod/x")); err == nil {
		t.Error("the user's cache was changed")
	}
}
