package proc

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Floors of Landlock. Inside namespaces it is a second wall behind the mounts, and its first
// version holds the file system. Alone it must also hold signals and abstract sockets (6).
const (
	landlockFloorFull = 1
	landlockFloorWeak = 6
)

// walls is what Landlock lets the commands of a place do.
type walls struct {
	readDirs, readFiles   []string
	writeDirs, writeFiles []string
	list                  []string // folders that may be listed
	floor                 int
}

// confineThread confines the calling thread, which must be locked and never be let go: every
// command is started from it and inherits all of this. Limits come first, then capabilities, files,
// system calls. It gives the layers by name.
func confineThread(q *openRequest, w walls, families []uint32) (map[string]string, error) {
	layers := make(map[string]string)
	if !q.off("limits") {
		if err := limit(q.Limits); err != nil {
			return nil, err
		}
	}
	if !q.off("no_new_privs") {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("forbid new privileges: %w", err)
		}
		layers["no_new_privs"] = "on"
	}
	if !q.off("landlock") {
		abi, err := restrictFiles(w)
		if err != nil {
			return nil, err
		}
		layers["landlock"] = "ABI " + strconv.Itoa(abi) + ", floor " + strconv.Itoa(w.floor)
	}
	if !q.off("capabilities") {
		if err := dropCapabilities(); err != nil {
			return nil, err
		}
		layers["capabilities"] = "none"
	}
	if !q.off("seccomp") {
		if err := filterCalls(families); err != nil {
			return nil, err
		}
		layers["seccomp"] = "own filter"
	}
	return layers, nil
}

func limit(l sandbox.Limits) error {
	set := func(resource int, v uint64) error {
		var old unix.Rlimit
		if err := unix.Getrlimit(resource, &old); err != nil {
			return err
		}
		v = min(v, old.Max)
		return unix.Setrlimit(resource, &unix.Rlimit{Cur: v, Max: v})
	}
	err := set(unix.RLIMIT_CORE, 0)
	if l.Memory > 0 {
		err = errors.Join(err, set(unix.RLIMIT_DATA, uint64(l.Memory)))
	}
	if l.Processes > 0 {
		err = errors.Join(err, set(unix.RLIMIT_NPROC, uint64(l.Processes)))
	}
	if l.FileSize > 0 {
		err = errors.Join(err, set(unix.RLIMIT_FSIZE, uint64(l.FileSize)))
	}
	if err != nil {
		return fmt.Errorf("set limits: %w", err)
	}
	return nil
}

// dropCapabilities empties every set of the thread for good: what it starts cannot get any back,
// not as user 0 either, since the bounding set is empty and user 0 is made an ordinary number.
func dropCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have, none [2]unix.CapUserData
	if err := unix.Capget(&hdr, &have[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	if have == none {
		return nil // and no_new_privs, set before, keeps it so: nothing that is started gains any
	}
	const noRoot, noRootLocked, noRaise, noRaiseLocked = 1 << 0, 1 << 1, 1 << 6, 1 << 7
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot|noRootLocked|noRaise|noRaiseLocked, 0, 0, 0); err != nil {
		return fmt.Errorf("make user 0 ordinary: %w", err)
	}
	for c := uintptr(0); c < 64; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Capset(&hdr, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// restrictFiles confines the thread with Landlock and gives the kernel's version of it.
func restrictFiles(w walls) (int, error) {
	abi, err := llsys.LandlockGetABIVersion()
	if err != nil || abi < w.floor {
		return 0, &sandbox.Error{
			Code: sandbox.ErrTier, What: fmt.Sprintf("Landlock ABI %d is needed, this kernel has %d", w.floor, max(abi, 0)),
			Hint: "boot a kernel with Landlock (lsm=landlock,…), or use the docker sandbox",
		}
	}
	const readDir = 1 << 3 // LANDLOCK_ACCESS_FS_READ_DIR
	cfg := landlock.V7.BestEffort()
	// A network of its own is what keeps TCP in; inside it commands may serve and connect as they like.
	c := landlock.MustConfig(cfg.HandledAccessFS, cfg.Scoped).BestEffort() //nolint:staticcheck // the literal would need a second package of the library for the same two fields
	fd, flags, err := c.NewRulesetFD(
		landlock.PathAccess(readDir, w.list...).IgnoreIfMissing(),
		landlock.RODirs(w.readDirs...).IgnoreIfMissing(),
		landlock.ROFiles(w.readFiles...).IgnoreIfMissing(),
		landlock.RWDirs(w.writeDirs...).WithRefer().IgnoreIfMissing(),
		landlock.RWFiles(w.writeFiles...).WithIoctlDev().IgnoreIfMissing(),
	)
	if err != nil {
		return 0, fmt.Errorf("make file rules: %w", err)
	}
	if fd < 0 {
		return 0, errors.New("make file rules: nothing to restrict")
	}
	defer unix.Close(fd)
	if err := llsys.LandlockRestrictSelf(fd, flags); err != nil {
		return 0, fmt.Errorf("restrict files: %w", err)
	}
	return abi, nil
}
