package sandboxtest

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Code gives the code of a *sandbox.Error in err's chain, "" for another error or none.
func Code(err error) string {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

var marks atomic.Int64

// unique gives a number of seconds that no other process sleeps, to find a process by.
func unique() string {
	return "300." + strconv.Itoa(os.Getpid()) + strconv.FormatInt(marks.Add(1), 10) + "1"
}

// withArgument lists the processes that have arg among their arguments.
func withArgument(arg string) []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var out []int
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + n + "/cmdline")
		if err == nil && bytes.Contains(b, []byte("\x00"+arg+"\x00")) {
			out = append(out, pid)
		}
	}
	return out
}

// firstWrite tells of the first bytes.
type firstWrite struct {
	seen chan struct{}
	once sync.Once
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.seen) })
	return len(p), nil
}

// guarded notices a write outside of the time it is open.
type guarded struct{ open, late atomic.Bool }

func (g *guarded) Write(p []byte) (int, error) {
	if !g.open.Load() {
		g.late.Store(true)
	}
	return len(p), nil
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("no more") }
