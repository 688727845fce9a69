package matrix

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// limits are put on the place under test, so that the attacks on memory, disk and processes have
// something to run into. The control has none.
var limits = sandbox.Limits{Memory: 2 << 30, Processes: 192, FileSize: 64 << 20}

// supervisorAttacks go for the process that holds the commands, which is the parent of each.
func supervisorAttacks() []attack {
	parent := func(name string) string { return "/proc/" + strconv.Itoa(os.Getppid()) + "/" + name }
	return []attack{
		{name: "signal the supervisor", run: func(targets) error { return unix.Kill(os.Getppid(), 0) }, held: []string{"landlock"}},
		{name: "open the supervisor's memory", run: func(targets) error { return opens(parent("mem"), os.O_RDWR) }, held: []string{"dumpable", "landlock", "capabilities"}},
		{name: "rewrite the supervisor's program", run: func(targets) error { return unix.Access(parent("exe"), unix.W_OK) }, held: []string{"namespaces", "dumpable", "landlock", "capabilities"}},
		{name: "rewrite the own program", run: func(targets) error { return unix.Access("/proc/self/exe", unix.W_OK) }, held: []string{"view"}},
		{name: "signal everything", run: func(targets) error { return unix.Kill(-1, 0) }, held: []string{"pid", "landlock"}},
	}
}

// programAttacks run other programs, or their own in another way.
func programAttacks() []attack {
	return []attack{
		{name: "read a key from a program in memory", run: fromMemory, held: []string{"view", "landlock"}},
		{name: "plant a hook in the user's repository", run: func(t targets) error {
			return os.WriteFile(filepath.Join(t.Outside, "repo/.git/hooks/pre-commit"), []byte("#!/bin/sh\n"), 0o700)
		}, seen: func(t targets) bool { return exists(filepath.Join(t.Outside, "repo/.git/hooks/pre-commit")) }, held: []string{"view", "landlock"}},
		{name: "change the config of the user's repository", run: func(t targets) error {
			return os.WriteFile(filepath.Join(t.Outside, "repo/.git/config"), []byte("[core]\n\tfsmonitor = false\n"), 0o600)
		}, seen: func(t targets) bool { return exists(filepath.Join(t.Outside, "repo/.git/config")) }, held: []string{"view", "landlock"}},
		{name: "race links to get outside", run: race, seen: func(t targets) bool { return exists(filepath.Join(t.Outside, "raced")) }, held: []string{"view", "landlock"}},
		{name: "a 32-bit program", run: foreign, held: []string{"seccomp"}},
		{name: "an x32 call", run: x32, held: []string{"seccomp"}},
		{name: "clone3", run: func(targets) error {
			_, _, e := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
			if e == unix.EINVAL {
				return nil // it is there, only asked wrongly
			}
			return e
		}, held: []string{"seccomp"}},
		{name: "gain rights from a set-user-id program", run: func(targets) error {
			v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
			if err == nil && v != 0 {
				err = errors.New("no new privileges")
			}
			return err
		}, held: []string{"no_new_privs", "seccomp", "landlock"}},
		{name: "leave a daemon behind", run: daemon, bare: true, seen: func(t targets) bool { return appears(filepath.Join(t.Tree, "late")) }, held: []string{"end"}},
	}
}

// resourceAttacks take more than a run is given. They reserve and do not fill, so that the control
// does no harm.
func resourceAttacks() []attack {
	return []attack{
		{name: "start 400 processes", run: forks, held: []string{"limits"}},
		{name: "take 4 GiB of memory", run: func(targets) error {
			b, err := unix.Mmap(-1, 0, 4<<30, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
			if err != nil {
				return err
			}
			return unix.Munmap(b)
		}, held: []string{"limits"}},
		{name: "make a file of 1 GiB", run: func(t targets) error {
			p := filepath.Join(t.Tree, "big")
			defer os.Remove(p)
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				return err
			}
			signalsIgnored(syscall.SIGXFSZ)
			return os.Truncate(p, 1<<30)
		}, held: []string{"limits"}},
	}
}

// fromMemory runs this program from a file that is on no disk.
func fromMemory(t targets) error {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("attacker", 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "attacker")
	defer f.Close()
	if _, err := f.Write(self); err != nil {
		return err
	}
	c := &exec.Cmd{Path: "/proc/self/fd/" + strconv.Itoa(fd), Args: []string{"attack", stage, "read a key outside", t.text()}, Env: os.Environ()}
	out, err := c.Output()
	if err != nil && len(out) > 0 {
		return errors.New(firstLine(string(out)))
	}
	return err
}

// race swaps a folder of the tree for a link to the folder outside while it writes through the name.
func race(t targets) error {
	name, dir, link := filepath.Join(t.Tree, "swap"), filepath.Join(t.Tree, "dir"), filepath.Join(t.Tree, "out")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(t.Outside, link); err != nil {
		return err
	}
	var last error
	for i := range 400 {
		target := dir
		if i%2 == 1 {
			target = link
		}
		if err := os.Rename(target, name); err != nil {
			return err
		}
		if last = os.WriteFile(filepath.Join(name, "raced"), nil, 0o600); last == nil && i%2 == 1 {
			return nil
		}
		if err := os.Rename(name, target); err != nil {
			return err
		}
	}
	return last
}

// foreign makes and runs the smallest i386 program, which ends with the exit call of that
// architecture.
func foreign(t targets) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("not on " + runtime.GOARCH)
	}
	code := []byte{0x31, 0xc0, 0x40, 0x31, 0xdb, 0xcd, 0x80} // exit(0) through int 0x80
	const base, at = 0x08048000, 52 + 32
	size := uint32(at + len(code))
	words := func(b []byte, values ...uint32) []byte {
		for _, v := range values {
			b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
		}
		return b
	}
	elf := append([]byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0}, make([]byte, 8)...)
	elf = words(elf, 3<<16|2, 1, base+at, 52, 0, 0, 32<<16|52, 40<<16|1, 0) // executable, i386
	elf = words(elf[:52], 1, 0, base, base, size, size, 5, 0x1000)
	p := filepath.Join(t.Tree, "i386")
	if err := os.WriteFile(p, append(elf, code...), 0o700); err != nil {
		return err
	}
	return exec.Command(p).Run()
}

func x32(targets) error {
	if runtime.GOARCH != "amd64" {
		return errors.New("not on " + runtime.GOARCH)
	}
	if _, _, e := unix.RawSyscall(0x40000000|unix.SYS_GETPID, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// daemon leaves a process that has left the session and writes when its parent is long gone: a
// race-detected one takes a second to exit.
func daemon(t targets) error {
	c := exec.Command("/bin/sh", "-c", "sleep 3; echo late > late")
	c.Dir = t.Tree
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c.Start()
}

// appears waits for a file.
func appears(path string) bool {
	for range 250 {
		if exists(path) {
			return true
		}
		<-time.After(20 * time.Millisecond)
	}
	return false
}

// forks starts many processes that live at the same time.
func forks(targets) error {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		return err
	}
	var all []*os.Process
	defer func() {
		for _, p := range all {
			_ = p.Kill()
			_, _ = p.Wait()
		}
	}()
	for i := range 400 {
		p, err := os.StartProcess(sleep, []string{"sleep", "30"}, &os.ProcAttr{})
		if err != nil {
			return fmt.Errorf("%w", err)
		}
		if all = append(all, p); i > limits.Processes {
			return nil
		}
	}
	return nil
}
