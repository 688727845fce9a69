// Package runner takes one task from its source to its bundle: it makes the disposable workspace, opens
// the sandbox, lets the agent work, runs the checks itself on a clean checkout, holds the patch
// against the allowed paths, writes the bundle and says how the run ended. It is the same code on a
// laptop and inside a container.
//
// What it stands for: whatever ends a run — a limit, a cancel, a failing model, a full disk, a panic of
// a tool — the patch so far, the transcript and the reason are kept; a run is completed only when
// checks that the runner ran itself passed; nothing reaches the log or a model that still holds a
// secret the runner knows.
//
// It knows no store, no HTTP and no terminal: all it writes goes through the run's [contract.Session]. It
// starts no goroutine of its own; the loop, the sandbox and git are run in the caller's.
package runner
