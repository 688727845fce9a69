// Package cli is the command line: it parses, resolves settings into a task, wires the packages
// that do the work, prints, and decides the exit code.
//
// A command is one file: a constructor that takes the [Factory] and an optional run function,
// an options struct that its flags fill, and the run function, which gets only that struct. The
// factory holds functions for whatever is expensive or may fail, so nothing is opened for --help
// or --version. Nothing here writes to os.Stdout; streams come from [IO]. Results go to stdout,
// everything else to stderr, and a command ends by naming the next one.
//
// Goroutines: `run` and `resume` start one that watches signals and one that reads the keys of an
// approval; both end with the command.
package cli
