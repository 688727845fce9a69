package workspace

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// maxFileBytes is the largest file a run carries, in or out; larger ones are left out and named.
const maxFileBytes = 256 << 20

// errNotHeld says that a path is no longer a file that git can hold.
var errNotHeld = errors.New("not a regular file or link")

// source opens files of a tree by descriptor, never through a link.
type source struct{ root int }

func openSource(root string) (source, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return source{}, fmt.Errorf("open tree %q: %w", root, err)
	}
	return source{fd}, nil
}

func (s source) close() { unix.Close(s.root) }

// open opens a regular file, or gives the text of a link with a nil file.
func (s source) open(path string) (*os.File, string, unix.Stat_t, error) {
	var st unix.Stat_t
	dir, err := openBeneath(s.root, dirName(path))
	if err != nil {
		return nil, "", st, err
	}
	defer unix.Close(dir)
	name := baseName(path)
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, "", st, err
	}
	switch gitMode(&st) {
	case modeLink:
		buf := make([]byte, 4097)
		n, err := unix.Readlinkat(dir, name, buf)
		if err == nil && n > 4096 || errors.Is(err, unix.EINVAL) { // or no link any more
			err = errNotHeld
		}
		return nil, string(buf[:max(n, 0)]), st, err
	case modeFile, modeExec:
	default:
		return nil, "", st, errNotHeld
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", st, err
	}
	f := os.NewFile(uintptr(fd), path)
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		f.Close()
		return nil, "", st, errNotHeld
	}
	return f, "", st, nil
}

// copied is what copyFrom brought over.
type copied struct {
	mode uint32
	size int64
	oid  string // of the raw bytes as a blob
}

// copyFrom copies the file or link at path below dir, with its parent folders, and hashes it as
// git would without any conversion.
func copyFrom(s opener, path, dir, format string) (copied, error) {
	f, link, st, err := s.open(path)
	if err != nil {
		return copied{}, err
	}
	to := filepath.Join(dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		if f != nil {
			f.Close()
		}
		return copied{}, err
	}
	h := newHash(format)
	if f == nil {
		fmt.Fprintf(h, "blob %d\x00%s", len(link), link)
		return copied{modeLink, int64(len(link)), hex.EncodeToString(h.Sum(nil))}, os.Symlink(link, to)
	}
	defer f.Close()
	if st.Size > maxFileBytes {
		return copied{}, errTooBig
	}
	perm, mode := os.FileMode(0o644), uint32(modeFile)
	if st.Mode&0o100 != 0 {
		perm, mode = 0o755, modeExec
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return copied{}, err
	}
	fmt.Fprintf(h, "blob %d\x00", st.Size)
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(f, maxFileBytes))
	if cerr := errors.Join(out.Chmod(perm), out.Close()); err == nil {
		err = cerr
	}
	c := copied{mode: mode, size: n, oid: hex.EncodeToString(h.Sum(nil))}
	if n != st.Size {
		c.oid = "" // it grew or shrank while it was read: git hashes what was copied
	}
	return c, err
}

var errTooBig = fmt.Errorf("larger than %d MiB", maxFileBytes>>20)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// opener opens one file of a tree without following links: a regular file, or a nil file and the
// text of a link.
type opener interface {
	open(path string) (*os.File, string, unix.Stat_t, error)
}

// rawOID hashes a file's bytes as they are, "" when it cannot be read.
func rawOID(src opener, path, format string) string {
	f, link, st, err := src.open(path)
	if err != nil {
		return ""
	}
	h := newHash(format)
	if f == nil {
		fmt.Fprintf(h, "blob %d\x00%s", len(link), link)
		return hex.EncodeToString(h.Sum(nil))
	}
	defer f.Close()
	fmt.Fprintf(h, "blob %d\x00", st.Size)
	if n, err := io.Copy(h, f); err != nil || n != st.Size {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// inTheWay says what keeps a file from being at path, "" when only files of touched or a folder are there.
func (s source) inTheWay(path string, touched []string) string {
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		var st unix.Stat_t
		dir, err := openBeneath(s.root, dirName(path[:i]))
		if err != nil {
			return "its folder cannot be opened"
		}
		err = unix.Fstatat(dir, baseName(path[:i]), &st, unix.AT_SYMLINK_NOFOLLOW)
		unix.Close(dir)
		if err != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		switch {
		case slices.Contains(touched, path[:i]):
			return "" // it goes, or is replaced
		case gitMode(&st) == modeLink:
			return "a link stands in the way: " + path[:i]
		}
		return "something else stands in the way: " + path[:i]
	}
	return ""
}
