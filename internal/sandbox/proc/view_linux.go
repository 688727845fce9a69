package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// newRoot is where the view is put together before it becomes the root. Nothing of the host is
// looked up by name after the first mount there.
const newRoot = "/tmp"

// source is a bind with its mount, cloned before anything of the host is hidden.
type source struct {
	bind
	fd   int
	file bool
}

// buildView makes the root that commands see and enters it.
func buildView(q *openRequest) error {
	sources, err := openSources(q)
	if err != nil {
		return err
	}
	layers, shown := openLayers(q)
	q.Layered = shown
	overlay := -1
	if q.Lower != "" {
		if overlay, err = overlayMount(q.Lower, q.Upper, q.Work); err != nil {
			return &overlayError{err}
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := tmpfs(newRoot, "mode=0755,size=16m"); err != nil {
		return err
	}
	if err := fillView(q, sources, overlay); err != nil {
		return err
	}
	if err := placeLayers(layers); err != nil {
		return err
	}
	return enterView()
}

type overlayError struct{ err error }

func (e *overlayError) Error() string { return "mount the overlay: " + e.err.Error() }
func (e *overlayError) Unwrap() error { return e.err }

func openSources(q *openRequest) ([]source, error) {
	var out []source
	for _, b := range q.Binds {
		fd, err := unix.OpenTree(unix.AT_FDCWD, b.Path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			if b.Optional && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR)) {
				continue
			}
			return nil, fmt.Errorf("show %s: %w", b.Path, err)
		}
		var st unix.Stat_t
		if err := unix.Fstatat(fd, "", &st, unix.AT_EMPTY_PATH); err != nil {
			return nil, fmt.Errorf("show %s: %w", b.Path, err)
		}
		out = append(out, source{b, fd, st.Mode&unix.S_IFMT != unix.S_IFDIR})
	}
	return out, nil
}

// overlayMount makes a copy-on-write mount that is attached nowhere yet.
func overlayMount(lower, upper, work string) (int, error) {
	fd, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	escape := strings.NewReplacer(`\`, `\\`, `:`, `\:`)
	for _, kv := range [][2]string{{"lowerdir", escape.Replace(lower)}, {"upperdir", escape.Replace(upper)}, {"workdir", escape.Replace(work)}} {
		if err := unix.FsconfigSetString(fd, kv[0], kv[1]); err != nil {
			return -1, fmt.Errorf("%s: %w", kv[0], err)
		}
	}
	if err := unix.FsconfigSetFlag(fd, "userxattr"); err != nil {
		return -1, fmt.Errorf("userxattr: %w", err)
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return -1, err
	}
	return unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

func tmpfs(at, options string) error {
	if err := unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount memory at %s: %w", at, err)
	}
	return nil
}

func fillView(q *openRequest, sources []source, overlay int) error {
	for _, f := range q.Folders {
		if err := os.MkdirAll(newRoot+f, 0o755); err != nil {
			return err
		}
		if err := tmpfs(newRoot+f, "mode=1777,size=50%"); err != nil {
			return err
		}
	}
	for _, s := range sources {
		if err := place(newRoot+s.at(), s.file); err != nil {
			return err
		}
		if err := attach(s, newRoot+s.at()); err != nil {
			return err
		}
	}
	if overlay >= 0 {
		if err := os.MkdirAll(newRoot+q.Tree, 0o755); err != nil {
			return err
		}
		if err := move(overlay, newRoot+q.Tree); err != nil {
			return err
		}
	}
	for _, l := range q.Links {
		if err := os.MkdirAll(filepath.Dir(newRoot+l[1]), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(l[0], newRoot+l[1]); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for p, text := range q.Files {
		if err := os.MkdirAll(filepath.Dir(newRoot+p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(newRoot+p, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return mountProc(newRoot+"/proc", q)
}

// place makes the point where something is mounted.
func place(at string, file bool) error {
	if !file {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func attach(s source, at string) error {
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if strings.HasPrefix(s.Path, "/dev/") {
		attr.Attr_set = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
	}
	if !s.Writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(s.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
		return fmt.Errorf("protect %s: %w", s.at(), err)
	}
	return move(s.fd, at)
}

func move(fd int, at string) error {
	defer unix.Close(fd)
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount at %s: %w", strings.TrimPrefix(at, newRoot), err)
	}
	return nil
}

// mountProc shows only processes, and of these only one's own: no kernel tunables, no other's
// memory. The whole of it, where it is asked for, is read-only by the file system rules.
func mountProc(at string, q *openRequest) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if q.off("pid") { // a view of one's own processes needs a namespace of them
		m, err := unix.OpenTree(unix.AT_FDCWD, "/proc", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("open proc: %w", err)
		}
		return move(m, at)
	}
	fd, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open proc: %w", err)
	}
	defer unix.Close(fd)
	options := [][2]string{{"hidepid", "ptraceable"}, {"subset", "pid"}}
	if q.FullProc {
		options = options[:1]
	}
	for _, kv := range options {
		if err := unix.FsconfigSetString(fd, kv[0], kv[1]); err != nil {
			return fmt.Errorf("proc option %s: %w", kv[0], err)
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return fmt.Errorf("make proc: %w", err)
	}
	m, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	return move(m, at)
}

// enterView makes the view the root, drops the host's and makes the root itself read-only.
func enterView() error {
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return unix.Chdir("/")
}
