package host

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// shortPath gives a path of a socket that fits the kernel's bound however long the folder's is: by
// way of a descriptor of the folder. done must be called when the path has been used.
func shortPath(dir, name string) (path string, done func(), err error) {
	if path = filepath.Join(dir, name); len(path) < maxSocketPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, name), func() { _ = unix.Close(fd) }, nil
}

// peerUID is the user at the other end.
func peerUID(c net.Conn) (int, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, cerr); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

func isRefused(err error) bool { return errors.Is(err, unix.ECONNREFUSED) }
