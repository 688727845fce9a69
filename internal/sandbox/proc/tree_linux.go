package proc

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// signalBelow sends sig to every process below root, root itself left out. A process that was
// started meanwhile is missed; callers that kill repeat it until nothing is left.
func signalBelow(root int, sig unix.Signal) {
	for _, p := range below(root) {
		// The descriptor pins the process; only then is it looked at again, so that a number that
		// went to somebody else in between is left alone.
		fd, err := unix.PidfdOpen(p.pid, 0)
		if err != nil {
			continue
		}
		if parentOf(p.pid) == p.parent || p.parent == 0 {
			_ = unix.PidfdSendSignal(fd, sig, nil, 0) // gone already is fine
		}
		unix.Close(fd)
	}
}

type descendant struct{ pid, parent int }

// below lists the descendants of root, parents first.
func below(root int) []descendant {
	names, err := readNames("/proc")
	if err != nil {
		return nil
	}
	children := make(map[int][]descendant)
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if parent := parentOf(pid); parent > 0 {
			children[parent] = append(children[parent], descendant{pid, parent})
		}
	}
	out := children[root]
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i].pid]...)
	}
	return out
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// parentOf reads the parent of a process, 0 when it is gone. The name in the stat line may hold
// anything, spaces and parentheses too, so fields count from the last parenthesis.
func parentOf(pid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return 0
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(string(f[1]))
	return ppid
}
