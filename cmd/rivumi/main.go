// Command rivumi runs a coding agent in a disposable worktree of a git repository, checks its
// work, and keeps what is needed to look at it, apply it or throw it away.
package main

import (
	"os"

	"github.com/rivumi/rivumi/internal/cli"
)

// version is set by the linker of a release.
var version = "dev"

func main() { os.Exit(cli.Main(version)) }
