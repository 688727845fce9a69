package proc

import (
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Stages of the program started again. They are told by the whole of argv[0], which no user types.
const (
	stageSupervise = "rivumi-sandbox-supervise" // holds plain commands together
	stageStart     = "rivumi-sandbox-start"     // makes the namespaces
	stageInit      = "rivumi-sandbox-init"      // is pid 1 in them
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
	switch args[0] {
	case stageSupervise, stageStart, stageInit:
		// Descriptors that whoever started the owner left open are nobody's business inside.
		if err := unix.CloseRange(controlFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
			return true, 125
		}
	}
	switch args[0] {
	case stageSupervise:
		return true, superviseMain()
	case stageStart:
		return true, starterMain()
	case stageInit:
		return true, initMain()
	default:
		return false, 0
	}
}

// superviseMain is the supervisor of a session outside of any namespace.
func superviseMain() int {
	l, err := newLink(controlFD, "control")
	if err != nil {
		return 125
	}
	m, fds, err := l.receive()
	closeAll(fds)
	if err != nil || m.Open == nil {
		return 125
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		_ = l.send(message{Ready: &ready{Code: "tier", What: "become the reaper of commands: " + err.Error()}})
		return 125
	}
	self := os.Getpid()
	s := &supervisor{
		link: l,
		tree: m.Open.Tree,
		all:  func(sig unix.Signal) { signalBelow(self, sig) },
	}
	if err := l.send(message{Ready: &ready{}}); err != nil {
		return 125
	}
	return s.serve()
}

func itoa(n int) string { return strconv.Itoa(n) }
