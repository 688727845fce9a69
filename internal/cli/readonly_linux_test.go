package cli

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/policy"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

// observed is a writable tree in a sandbox whose every change is seen.
type observed struct {
	tree    string
	session sandbox.Session
	policy  *policy.Policy
	ctx     context.Context
}

func newObserved(t *testing.T) *observed {
	t.Helper()
	terminal(t, newScreen(t))
	o := &observed{tree: t.TempDir(), ctx: t.Context()}
	for name, text := range map[string]string{"a.txt": "b\na\n", "main.go": "package  main\n", "s.sh": "touch ran\n", "dir/f": "f\n", "go.mod": "module m\n\ngo 1.21\n"} {
		p := filepath.Join(o.tree, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	scratch := t.TempDir()
	var err error
	o.session, err = proc.New(proc.Options{}).Open(t.Context(), sandbox.Spec{Tree: o.tree, Scratch: scratch, Env: sandbox.BaseEnv(scratch, nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.session.Close(t.Context()) })
	if o.policy, err = policy.New(policy.Config{Policy: contract.PolicyReadOnly}); err != nil {
		t.Fatal(err)
	}
	return o
}

// state is what a command must leave alone: names, modes, sizes and contents.
func (o *observed) state(t rapid.TB) string {
	h := sha256.New()
	err := filepath.WalkDir(o.tree, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %s\n", p, info.Mode())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(p)
			fmt.Fprintf(h, "%q %v\n", b, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// try runs a script that the policy calls read-only, and sees that it was.
func (o *observed) try(t rapid.TB, script string) (ran bool) {
	if !o.policy.Command(script, "").ReadOnly {
		return false
	}
	before := o.state(t)
	_, err := o.session.Run(o.ctx, sandbox.Command{Argv: []string{"bash", "-c", script}, Timeout: 5 * time.Second, Grace: time.Millisecond}, sandbox.Output{})
	if err != nil {
		t.Fatal(err)
	}
	if o.state(t) != before {
		t.Fatalf("%q counts as read-only and changed the tree", script)
	}
	return true
}

// What the policy calls read-only writes nothing when it is run: the corpus, and scripts put together
// from words that come close to writing.
func TestReadOnlyCommandsWriteNothing(t *testing.T) {
	o := newObserved(t)
	data, err := os.ReadFile("../policy/testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range strings.Lines(string(data)) {
		if class, script, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok && class == "reads" {
			if o.try(t, strings.ReplaceAll(script, `\n`, "\n")) {
				ran++
			}
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{
			"cat", "sort", "-o", "a.txt", "-n", "main.go", "find", ".", "-name", "-exec", "-delete", "-fprint", "new", "sed", "-i", "-n", "w new", "1p", "awk",
			`'{print > "new"}'`, "'{print}'", "git", "diff", "--output=new", "log", "grep", "-r", "x", "|", "&&", ";", ">", ">>", "2>/dev/null", "</dev/null", "tee", "head", "-1",
			"$(touch new)", "`touch new`", "<(touch new)", "env", "A=1", "sh", "-c", "'touch new'", "xargs", "uniq", "tree", "ls", "-la", "diff", "tar", "date", "-s", "printf", "-v", "test", "-f",
			"{", "}", "(", ")", "!", "$((x=1))", "${x:=1}", "touch", "wc", "cut", "yes", "tail", "-f", "rg", "--pre", "./s.sh", "gofmt", "-w", "-l", "go", "vet", "list", "command", "builtin", "exec", "eval",
		}), 1, 7).Draw(r, "words")
		if o.try(r, strings.Join(words, " ")) {
			ran++
		}
	})
	if ran < 20 {
		t.Errorf("only %d scripts were read-only and run: this shows little", ran)
	}
	t.Logf("%d scripts were read-only and run", ran)
}
