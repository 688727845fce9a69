package proc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A frame is a length of four bytes and a JSON message. Descriptors travel with the first byte.
// Both ends are this program, but what comes from inside a sandbox is still bounded and checked.
const (
	maxFrame = 8 << 20
	maxFDs   = 4
)

// message is everything the two ends say to each other; one field is set.
type message struct {
	Open    *openRequest `json:"open,omitempty"`
	Run     *runRequest  `json:"run,omitempty"`
	Stop    bool         `json:"stop,omitempty"`
	Ready   *ready       `json:"ready,omitempty"`
	Started bool         `json:"started,omitempty"`
	Exit    *exitReply   `json:"exit,omitempty"`
}

// runRequest comes with two descriptors: standard output and standard error.
type runRequest struct {
	Argv    []string
	Dir     string
	Env     []string
	GraceMS int64
}

type ready struct {
	Layers  map[string]string
	Missing []string
	Shown   []string // variables of the caches that are there: NAME=folder
	Code    string   // of a sandbox.Error where the place could not be made
	What    string
	Hint    string

	fds []int // came with it
}

type exitReply struct {
	Code   int
	Signal string
	Left   int
	Memory bool   // the kernel killed for memory meanwhile, where that can be told
	Err    string // why it could not be started
}

// link is one end of the control socket.
type link struct{ conn *net.UnixConn }

// newLink takes the descriptor over.
func newLink(fd int, name string) (*link, error) {
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("control socket: not a unix socket")
	}
	return &link{conn: u}, nil
}

func (l *link) send(m message, fds ...int) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("command of %d bytes is too long", len(body))
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	frame = append(frame, body...)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	n, _, err := l.conn.WriteMsgUnix(frame, rights, nil)
	if err != nil {
		return err
	}
	if n < len(frame) {
		_, err = l.conn.Write(frame[n:])
	}
	return err
}

// receive gives the next message and the descriptors that came with it, all close-on-exec. The
// caller owns them.
func (l *link) receive() (message, []int, error) {
	var m message
	var head [4]byte
	oob := make([]byte, unix.CmsgSpace(4*maxFDs))
	n, oobn, _, _, err := l.conn.ReadMsgUnix(head[:], oob)
	fds := parseRights(oob[:oobn])
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil && n < len(head) {
		_, err = io.ReadFull(l.conn, head[n:])
	}
	if err == nil {
		err = l.body(int64(binary.BigEndian.Uint32(head[:])), &m)
	}
	if err != nil {
		closeAll(fds)
		return m, nil, err
	}
	return m, fds, nil
}

func (l *link) body(size int64, m *message) error {
	if size > maxFrame {
		return fmt.Errorf("frame of %d bytes", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(l.conn, body); err != nil {
		return err
	}
	return json.Unmarshal(body, m)
}

func parseRights(oob []byte) []int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var fds []int
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
