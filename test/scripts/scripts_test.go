// Package scripts holds the stories of the command line: each file is one, told in commands and in
// what they print. The program runs inside the test binary, with real git, real files, real
// processes and a scripted model.
package scripts

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rivumi/rivumi/internal/cli"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/testkit/story"
)

func TestMain(m *testing.M) {
	if handled, code := proc.Main(os.Args); handled {
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){
		"rivumi": func() { os.Exit(cli.Main(context.Background(), "test")) },
	})
}

func TestScripts(t *testing.T) {
	for _, dir := range []string{"run", "steer", "result", "setup", "cases"} {
		if files, _ := filepath.Glob(filepath.Join(dir, "*.txtar")); len(files) == 0 {
			t.Errorf("no stories in %s", dir)
			continue
		}
		t.Run(dir, func(t *testing.T) { testscript.Run(t, story.Params(dir, sandboxHere(t))) })
	}
}

// sandboxHere is the sandbox that stories run with: what the machine has, else none, so that the
// stories about everything else also hold where no sandbox can be had.
func sandboxHere(t *testing.T) string {
	if proc.Detect(context.WithoutCancel(t.Context())).Best == "" {
		return "none"
	}
	return "auto"
}
