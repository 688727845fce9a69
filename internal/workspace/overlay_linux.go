package workspace

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// canOverlay reports whether layers can be kept in dir: deleted files need a mark there.
func canOverlay(dir string) bool {
	p := filepath.Join(dir, "stage-mark")
	if unix.Mknod(p, unix.S_IFCHR, 0) != nil {
		return false
	}
	return os.Remove(p) == nil
}

// isWhiteout reports whether the name in an upper layer is the mark of a deleted file.
func isWhiteout(fd int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && isWhiteoutStat(&st)
}

func isWhiteoutStat(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0 }

// isOpaque reports whether a folder of an upper layer hides the one below it.
func isOpaque(fd int) bool {
	var v [1]byte
	for _, name := range []string{"trusted.overlay.opaque", "user.overlay.opaque"} {
		if n, err := unix.Fgetxattr(fd, name, v[:]); err == nil && n == 1 && v[0] == 'y' {
			return true
		}
	}
	return false
}
