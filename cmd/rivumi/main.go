// Command rivumi runs a coding agent in a disposable worktree of a git repository, checks its
// work, and keeps what is needed to look at it, apply it or throw it away.
package main

import (
	"context"
	"os"
	"runtime"

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
	ballast := make([]byte, ballastBytes)
	code := cli.Main(context.Background(), version)
	runtime.KeepAlive(ballast)
	os.Exit(code)
}

// ballastBytes is memory that is never touched, so that it costs addresses only. The collector counts it
// as alive and lets as much garbage gather again before it runs: with the few megabytes that a run
// keeps alive it would otherwise run hundreds of times.
const ballastBytes = 16 << 20
