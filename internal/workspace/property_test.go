package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

// Whatever is done to a tree, its patch applied to a clone of the start gives the same tree, and so does apply on
// the user's own checkout.
func TestAnyEditsComeBackIdentical(t *testing.T) {
	names := []string{"a", "b c", "d/e", "d/f/g", "h/ü", "k\tl", "m", "m.x", "n/o/p/q"}
	content := rapid.SampledFrom([]string{"", "x", "x\n", "1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\nX\n4\n5\n6\n7\n8\n", "a\r\nb\r\n", "\x00bin", "\x00bin2", "\xff\xfe", "-- \n", "diff --git a/x b/x\n"})
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > 25 && testing.Short() || n > 60 {
			return // each round costs a dozen processes
		}
		user := gitrepo.Empty(t)
		scramble(rt, t, user.Root, names, content)
		user.Write(gitrepo.Files{"always": "there\n"})
		user.Commit("first")
		scramble(rt, t, user.Root, names, content) // the user's uncommitted work
		b := open(t, user)
		start := listing(t, user.Root)
		if got := listing(t, b.tree); got != start {
			rt.Fatalf("start:\n%s\nwant:\n%s", got, start)
		}
		scramble(rt, t, b.tree, names, content)
		s := b.snapshot()
		want := listing(t, b.tree)
		changes, err := b.ws.Changes(t.Context())
		if err != nil || len(changes) != len(s.Manifest) {
			rt.Fatalf("changes %v: %+v, snapshot %+v", err, changes, s.Manifest)
		}
		if len(s.Patch) > 0 {
			if r := apply(t, b, s, nil); r.State != workspace.ReceiptApplied {
				rt.Fatalf("%+v", r)
			}
		}
		if got := listing(t, user.Root); got != want {
			rt.Fatalf("applied:\n%s\nwant:\n%s\npatch:\n%s", got, want, s.Patch)
		}
		if err := b.ws.Remove(t.Context()); err != nil {
			rt.Fatal(err)
		}
	})
}

// scramble writes, removes, relinks and re-modes some files.
func scramble(rt *rapid.T, t *testing.T, root string, names []string, content *rapid.Generator[string]) {
	for range rapid.IntRange(0, 6).Draw(rt, "edits") {
		p := filepath.Join(root, rapid.SampledFrom(names).Draw(rt, "name"))
		if err := os.RemoveAll(p); err != nil {
			continue // below what is a file now
		}
		if os.MkdirAll(filepath.Dir(p), 0o755) != nil {
			continue
		}
		switch rapid.IntRange(0, 4).Draw(rt, "kind") {
		case 0:
		case 1:
			_ = os.Symlink("always", p)
		case 2:
			_ = os.WriteFile(p, []byte(content.Draw(rt, "script")), 0o600)
			_ = os.Chmod(p, 0o755)
		default:
			_ = os.WriteFile(p, []byte(content.Draw(rt, "text")), 0o600)
		}
	}
}
