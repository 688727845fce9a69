package proc

import (
	"math"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox/matrix"
)

// Stages of the program started again. They are told by the whole of argv[0], which no user types.
const (
	stageSupervise = "rivumi-sandbox-supervise" // holds plain commands together
	stageStart     = "rivumi-sandbox-start"     // makes the namespaces
	stageInit      = "rivumi-sandbox-init"      // is pid 1 in them
	stageWeak      = "rivumi-sandbox-weak"      // confines commands without namespaces
	stageInside    = "rivumi-sandbox-inside"    // is pid 1 of what bubblewrap made
	stageBox       = BoxProgram                 // is pid 1 of a container that somebody else made
)

// controlFD is where a stage finds its end of the control socket.
const controlFD = 3

// Main carries out a stage of a sandbox when args say that this process is one; then handled is
// true and the caller must exit with code at once. It must be called before anything else in main,
// and in TestMain of tests that open sessions.
func Main(args []string) (handled bool, code int) {
	if len(args) == 0 {
		return false, 0
	}
	if handled, code := matrix.Main(args); handled {
		return true, code
	}
	stage := args[0]
	if len(args) == 2 && args[1] == stageInside {
		stage = stageInside // bubblewrap keeps no name of its own for what it starts
	}
	stages := map[string]func() int{
		stageSupervise: superviseMain, stageStart: starterMain, stageInit: initMain, stageWeak: weakMain, stageInside: insideMain,
		stageBox: boxMain,
	}
	run, ok := stages[stage]
	if !ok {
		return false, 0
	}
	// Descriptors that whoever started the owner left open are nobody's business inside.
	if err := unix.CloseRange(controlFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return true, 125
	}
	return true, run()
}

// superviseMain is the supervisor of a session outside of any namespace.
func superviseMain() int {
	l, q, err := accept()
	if err != nil {
		return 125
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		_ = l.send(message{Ready: refusal(err)})
		return 125
	}
	runtime.LockOSThread()
	if err := limit(q.Limits); err != nil {
		_ = l.send(message{Ready: refusal(err)})
		return 125
	}
	return serveBelow(l, q, nil)
}

// serveBelow serves as the reaper of everything below this process.
func serveBelow(l *link, q *openRequest, layers map[string]string) int {
	self := os.Getpid()
	s := &supervisor{link: l, tree: q.Tree, all: func(sig unix.Signal) { signalBelow(self, sig) }}
	if err := l.send(message{Ready: &ready{Layers: layers}}); err != nil {
		return 125
	}
	return s.serve()
}

func itoa(n int) string { return strconv.Itoa(n) }
