// Package sandbox says what it means to run one command in a contained place (a [Commander]),
// to hold such a place open for a run (a [Session]), and to start one contained runner
// (a [Launcher]). Implementations: proc (child processes and, on Linux, namespaces), docker.
// The suite every implementation passes is in sandboxtest.
package sandbox

import (
	"context"
	"io"
	"time"
)

// Commander runs one command and waits for it.
//
// Run returns an Exit for every command that was started, whatever its exit code; the error is
// for commands that could not be started or whose place is gone (*Error). Cancelling ctx and the
// command's time-out both end the whole process tree: terminate, Command.Grace, kill. Nothing the
// command started is alive when Run returns, except what Exit.Left counts in places that can only
// end it with the session. Writers of Output are called from at most one goroutine each, never
// after Run has returned, and may be slow: the command then waits.
type Commander interface {
	Run(ctx context.Context, c Command, out Output) (Exit, error)
}

// Command is one command. There is no shell unless Argv names one.
type Command struct {
	Argv    []string
	Dir     string        // slash-separated, relative to the root of the session's tree; "" is the root
	Env     []string      // added to the session's environment
	Timeout time.Duration // 0: none but ctx
	Grace   time.Duration // between terminate and kill; 0: 2 s
}

// Output takes what a command prints. A nil writer drops. Stdin is always empty and there is no
// controlling terminal.
type Output struct {
	Stdout, Stderr io.Writer
}

// Exit is how a command ended.
type Exit struct {
	Code     int // 128 + signal for a killed one
	Signal   string
	TimedOut bool
	Canceled bool
	Left     int  // processes it left behind, ended or still to be ended
	Memory   bool // killed for memory, where the place can tell
	Duration time.Duration
}

// Session is a contained place held open for one run.
type Session interface {
	Commander
	// Root is a host path through which the tree of the session can be opened for as long as the
	// session lives. It may be a /proc path where the tree is only mounted inside.
	Root() string
	Receipt() Receipt
	// Close ends every process of the session and releases it. It is safe to call twice.
	Close(ctx context.Context) error
}

// Opener opens sessions.
type Opener interface {
	Open(ctx context.Context, s Spec) (Session, error)
}

// Spec is what a session is opened for.
type Spec struct {
	Tree     string   // host folder that becomes the tree, writable unless ReadOnly
	Overlay  *Overlay // instead of a plain Tree: mount it at Tree's place inside
	ReadOnly bool
	Binds    []Bind   // more folders of the host
	Env      []string // the whole environment of commands, nothing is inherited
	Hosts    []string // names the network proxy lets through; empty: no network
	MinTier  Tier     // a weaker place is refused with ErrTier
	Scratch  string   // a 0700 host folder of the run for what the session needs; the caller removes it
	Limits   Limits
}

// Overlay is a copy-on-write tree: Lower is read, Upper takes every change, Work is the kernel's.
// Where it cannot be had, Open fails with ErrOverlay and the caller falls back to a plain tree.
type Overlay struct {
	Lower, Upper, Work string
}

// Bind shows a host folder inside at the same path.
type Bind struct {
	Path     string
	Writable bool
}

// Limits bound what the session's processes use together or, where only that can be had, each. Zero is unlimited.
type Limits struct {
	Memory    int64 // bytes
	Processes int
	FileSize  int64 // bytes of one file
}

// DefaultLimits are those of a run: far above what builds need, and low enough that a command that
// multiplies or writes without end fails before the machine does. Memory is not limited: programs
// reserve far more than they use.
func DefaultLimits() Limits { return Limits{Processes: 4096, FileSize: 16 << 30} }

// Tier names how strong a place is, strongest last within the local ones (sandbox.md 4.1).
type Tier string

// The tiers.
const (
	TierNone   Tier = "L0" // plain child processes
	TierWeak   Tier = "L1" // Landlock and seccomp only
	TierBwrap  Tier = "L2"
	TierFull   Tier = "L3" // namespaces, own root, Landlock, seccomp
	TierDocker Tier = "docker"
	TierGVisor Tier = "gvisor"
)

// AtLeast reports whether t is as strong as floor.
func (t Tier) AtLeast(floor Tier) bool { return rank(t) >= rank(floor) }

func rank(t Tier) int {
	switch t {
	case TierNone:
		return 0
	case TierWeak:
		return 1
	case TierBwrap:
		return 2
	case TierFull, TierDocker:
		return 3
	case TierGVisor:
		return 4
	}
	return 0
}

// Receipt is what held a session, for the first line of a run and for its bundle.
type Receipt struct {
	Tier     Tier              `json:"tier"`
	Network  string            `json:"network"`            // none, or the host list
	Layers   map[string]string `json:"layers,omitempty"`   // landlock: "ABI 7", seccomp: "own filter", …
	Missing  []string          `json:"missing,omitempty"`  // what could not be had, and how to get it
	Way      string            `json:"way"`                // plain or overlay
	Matrix   string            `json:"matrix,omitempty"`   // digest of the attacks this tier last held on this machine
	Versions map[string]string `json:"versions,omitempty"` // kernel, engine, runtime
}

// Proof is a table of attacks that a tier of this machine held.
type Proof struct {
	Tier   Tier
	Kernel string
	Digest string
}

// Error codes of [Error].
const (
	ErrTier    = "tier"    // weaker than asked, or not to be had here
	ErrOverlay = "overlay" // no overlay can be mounted here
	ErrStart   = "start"   // a command could not be started
	ErrLost    = "lost"    // the place is gone
)

// Error says what of a sandbox could not be had, and what would help.
type Error struct {
	Code string
	What string
	Hint string
	Err  error
}

// Error implements error.
func (e *Error) Error() string {
	s := "sandbox: " + e.What
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Launcher starts one contained runner.
type Launcher interface {
	// Launch starts a box and returns once its runner has started. When it fails, nothing is left.
	Launch(ctx context.Context, s LaunchSpec) (Box, error)
}

// Adopter is the optional power of a [Launcher] whose boxes outlive the process that started them.
type Adopter interface {
	// Boxes names the runs whose boxes of this instance exist, alive or dead.
	Boxes(ctx context.Context) (runs []string, err error)
	// Adopt takes over the box of a run. One that has ended can be adopted too, to wait for and close it.
	Adopt(ctx context.Context, run string) (Box, error)
}

// Where a box shows its runner the folders of a [LaunchSpec]. A launcher that cannot choose (a plain
// child process) says in the runner's environment where they are: the names are [EnvBoxSource],
// [EnvBoxChannel] and [EnvBoxWork].
const (
	BoxSource  = "/rivumi/source"  // LaunchSpec.Source
	BoxChannel = "/rivumi/channel" // LaunchSpec.Channel
	BoxWork    = "/rivumi/work"    // empty, writable, files in it can be executed

	EnvBoxSource  = "RIVUMI_BOX_SOURCE"
	EnvBoxChannel = "RIVUMI_BOX_CHANNEL"
	EnvBoxWork    = "RIVUMI_BOX_WORK"

	// ChannelSocket is the name of the unix socket in LaunchSpec.Channel. The control plane listens on
	// it for this run alone, and again after a restart: show the folder, not the socket.
	ChannelSocket = "s"
)

// LaunchSpec is what a box is started for. No text of a caller is in Argv or Env.
type LaunchSpec struct {
	Run     string // labels the box
	Image   string // "" is the launcher's own choice
	Argv    []string
	Env     []string
	Stdin   []byte // the runner reads it to its end; it holds secrets and goes nowhere else
	Source  string // host folder, shown read-only at [BoxSource]
	Channel string // host folder, shown read-only at [BoxChannel]
	Limits  Limits
	Scratch string // a 0700 host folder of the run for what the launcher needs; the caller removes it

	Stages func(Stage) // hears of each step of the start, from Launch's goroutine; may be nil
}

// Stage is one step of a start.
type Stage struct {
	Name   string        // StagePull and the others
	Detail string        // the image, the container
	Err    error         // why the start ended here
	Lines  []string      // what the container said last, when the start failed
	Took   time.Duration // since the start, or the step, began
}

// Steps of a start. There is no pull where the image is at hand.
const (
	StagePull   = "pull"
	StageCreate = "create"
	StageStart  = "start"
	StageReady  = "ready"
)

// Box is a started runner.
type Box interface {
	// Wait blocks until the runner has ended. It may be called again.
	Wait(ctx context.Context) (Exit, error)
	// Tail is the last of what the runner printed, untrusted, at most 4 KiB.
	Tail() string
	// Close ends whatever is alive and removes the box. It is safe to call twice. An error means that
	// something may be left.
	Close(ctx context.Context) error
}
