package host

import (
	"errors"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
)

func shortPath(dir, name string) (path string, done func(), err error) {
	if path = filepath.Join(dir, name); len(path) < maxSocketPath {
		return path, func() {}, nil
	}
	return "", nil, contract.Errorf(contract.KindInvalid, "the path of the state directory is too long for a socket")
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
	var cred *unix.Xucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	if err = errors.Join(err, cerr); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

func isRefused(err error) bool { return errors.Is(err, unix.ECONNREFUSED) }
