package remote

import (
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
)

// A box that ends without a word, or whose program is not there, ends its run with the reason.
func TestABoxThatSaysNothingIsLost(t *testing.T) {
	box := newChildren(t)
	box.argv = []string{"/bin/sh", "-c", "cat > /dev/null; echo last words; exit 3"}
	p := newPlane(t, twoSteps(), box)
	want := task()
	text := "one\n"
	want.Files = []contract.File{{Path: "a.txt", Content: &text}}
	c := p.client()
	run, err := c.Start(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	done, log := finished(t, c, run.ID)
	if done.Status != contract.Failed || done.Error.Code != contract.FailSandboxLost || !strings.Contains(done.Error.Message, "last words") {
		t.Fatalf("%+v %+v\n%s", done, done.Error, dump(log))
	}
}

func TestSE01SE03ACommandInABoxFindsNoToken(t *testing.T) {
	search := `w=$PPID; while [ "$w" -gt 1 ]; do for f in environ cmdline maps mem; do cat /proc/$w/$f 2>/dev/null | head -c 2000000; done; w=$(awk '/PPid/{print $2}' /proc/$w/status 2>/dev/null || echo 1); done > seen.bin; env >> seen.bin; grep -c -a 'eyJ2I[j]oxLC' seen.bin; true`
	b := &brain{turns: []turn{{bash: search}, {say: "done"}}}
	p := newPlane(t, b, newChildren(t))
	want := task()
	text := "one\n"
	want.Files = []contract.File{{Path: "a.txt", Content: &text}}
	c := p.client()
	run, err := c.Start(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	done, log := finished(t, c, run.ID)
	if done.Status != contract.Completed {
		t.Fatalf("%+v %+v\n%s", done, done.Error, dump(log))
	}
	for _, e := range log {
		if r, ok := contract.As[contract.ToolResult](e); ok && strings.TrimSpace(r.Stdout) != "0" {
			t.Errorf("a token was found: %q %q", r.Stdout, r.Stderr)
		}
	}
	if strings.Contains(dump(log), "eyJ2IjoxLC") {
		t.Error("the log holds a token")
	}
}
