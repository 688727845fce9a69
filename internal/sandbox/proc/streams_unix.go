//go:build unix

package proc

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/sandbox"
)

const (
	closeTimeout = 10 * time.Second       // for what ends by itself once its cause is gone
	drainDelay   = 200 * time.Millisecond // what a command left may still end by itself
)

// streams are the pipes of one command and the goroutines that empty them.
type streams struct {
	write [2]*os.File
	read  []*os.File
	wg    sync.WaitGroup
}

// openStreams makes one pipe for each writer, one for both when they are the same, and the null
// device for none.
func openStreams(out sandbox.Output) (*streams, error) {
	st := &streams{}
	for i, w := range []io.Writer{out.Stdout, out.Stderr} {
		if i == 1 && w != nil && same(w, out.Stdout) {
			st.write[1] = st.write[0]
			continue
		}
		if err := st.add(i, w); err != nil {
			st.handedOver()
			st.wait()
			return nil, err
		}
	}
	return st, nil
}

func (st *streams) add(i int, w io.Writer) error {
	if w == nil {
		f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		st.write[i] = f
		return err
	}
	r, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	st.write[i] = pw
	st.read = append(st.read, r)
	st.wg.Add(1)
	go func() {
		defer st.wg.Done()
		_, err := io.Copy(w, onlyReader{r})
		if err != nil {
			_, _ = io.Copy(io.Discard, r) // the writer gave up; the command must not block on it
		}
	}()
	return nil
}

// onlyReader keeps io.Copy from handing the pipe itself to a writer that could keep it.
type onlyReader struct{ io.Reader }

// same compares writers; types that cannot be compared are different.
func same(a, b io.Writer) (eq bool) {
	defer func() {
		if recover() != nil {
			eq = false
		}
	}()
	return a == b
}

func (st *streams) fds() []int { return []int{int(st.write[0].Fd()), int(st.write[1].Fd())} }

// handedOver closes the write ends on this side. It may be called twice.
func (st *streams) handedOver() {
	for _, f := range st.write {
		if f != nil {
			f.Close()
		}
	}
}

// wait returns when every writer has taken everything. All writers of the pipes are dead by then;
// the deadline is for a process that the kernel does not let go.
func (st *streams) wait() {
	st.deadline()
	st.wg.Wait()
	for _, r := range st.read {
		r.Close()
	}
}

// deadline bounds how long a pipe may be held by what should be dead.
func (st *streams) deadline() {
	for _, r := range st.read {
		_ = r.SetReadDeadline(time.Now().Add(closeTimeout)) // closed already is fine
	}
}
