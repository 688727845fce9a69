// Command rivumi runs a coding agent in a disposable worktree of a git repository, checks its
// work, and keeps what is needed to look at it, apply it or throw it away.
package main

import (
	"os"

	"github.com/rivumi/rivumi/internal/cli"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

// version is set by the linker of a release.
var version = "dev"

func main() {
	// A sandbox is held by this program started again; such a process is nothing else.
	if handled, code := proc.Main(os.Args); handled {
		os.Exit(code)
	}
	os.Exit(cli.Main(version))
}
