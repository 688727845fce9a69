package worker

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
)

// Harden makes this process one that nobody of the same user can look into, before it holds any
// secret: no memory, environment or descriptors through /proc, no core file, no new privileges. It
// holds for the process until it ends; programs started by it are ordinary ones again, so that
// sandboxes can still be made (their starter is a program of its own).
func Harden() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	if err := allThreads(unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the process: %w", err)
	}
	return nil
}

// allThreads sets an attribute of threads on all threads of this process. A program with C code in
// it cannot; there it holds for the calling thread and those it starts.
func allThreads(option, value uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, option, value, 0, 0, 0, 0)
	if errno == unix.ENOTSUP {
		return unix.Prctl(int(option), value, 0, 0, 0)
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// Drop makes root another user for good; "" is refused for root and changes nothing for others.
// user is UID:GID in numbers.
func Drop(user string) error {
	if os.Geteuid() != 0 && os.Getuid() != 0 {
		return nil
	}
	if user == "" {
		return contract.Errorf(contract.KindForbidden, "a worker does not run as root: give it --user UID:GID")
	}
	u, g, ok := strings.Cut(user, ":")
	uid, uerr := strconv.ParseUint(u, 10, 31)
	gid, gerr := strconv.ParseUint(g, 10, 31)
	if !ok || uerr != nil || gerr != nil || uid == 0 || gid == 0 {
		return contract.Errorf(contract.KindInvalid, "--user %q is not UID:GID of a user other than root", user)
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := syscall.Setresgid(int(gid), int(gid), int(gid)); err != nil {
		return fmt.Errorf("drop the group of root: %w", err)
	}
	if err := syscall.Setresuid(int(uid), int(uid), int(uid)); err != nil {
		return fmt.Errorf("drop root: %w", err)
	}
	if syscall.Setuid(0) == nil {
		return contract.Errorf(contract.KindInternal, "root could be taken back")
	}
	return nil
}
