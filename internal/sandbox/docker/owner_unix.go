//go:build unix

package docker

import (
	"os"
	"syscall"
)

// owner gives who owns a folder.
func owner(dir string) (uid, gid int, err error) {
	st, err := os.Stat(dir)
	if err != nil {
		return 0, 0, err
	}
	if !st.IsDir() {
		return 0, 0, &os.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return os.Getuid(), os.Getgid(), nil
	}
	return int(s.Uid), int(s.Gid), nil
}
