package proc

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// cgroupMount is where control groups are mounted.
const cgroupMount = "/sys/fs/cgroup"

// joinPrefix marks an argument of the start stage: a group to enter before anything is made.
const joinPrefix = "join="

// group is the control groups of one session. They bound what its processes use together, for user 0
// too, for whom the kernel has no limit of processes. Nil is none.
type group struct {
	dirs []string
	kind string // for the receipt
	// kills is the file that counts processes ended for memory.
	kills string
}

// newGroup makes groups below mount for a process whose membership is text (of /proc/self/cgroup).
// With one hierarchy (version 2) that needs a parent which gives its children the controllers and may
// be written: as root, or where a service manager delegated it. With the older one it needs root. Nil
// where none can be had; limits of each process then have to do.
func newGroup(mount, text string, l sandbox.Limits) *group {
	if l.Processes == 0 && l.Memory == 0 {
		return nil
	}
	name := "rivumi-" + strings.ToLower(rand.Text()[:12])
	var g *group
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err == nil {
		g = unifiedGroup(mount, memberOf(text, ""), name)
	} else {
		g = olderGroup(mount, text, name)
	}
	if g == nil {
		return nil
	}
	for _, s := range []struct {
		file  string
		value int64
	}{
		{"pids.max", int64(l.Processes)}, {"memory.max", l.Memory}, {"memory.limit_in_bytes", l.Memory},
	} {
		if s.value == 0 {
			continue
		}
		for _, d := range g.dirs {
			if f := filepath.Join(d, s.file); exists(f) && os.WriteFile(f, []byte(strconv.FormatInt(s.value, 10)), 0o600) != nil {
				g.remove()
				return nil
			}
		}
	}
	return g
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// memberOf finds the path of a controller in /proc/self/cgroup; "" is the single hierarchy.
func memberOf(text, controller string) string {
	for _, line := range strings.Split(text, "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) == 3 && (f[1] == controller || controller != "" && slices.Contains(strings.Split(f[1], ","), controller)) {
			return f[2]
		}
	}
	return ""
}

// unifiedGroup looks upwards for a group that hands controllers to its children: one with processes of
// its own cannot.
func unifiedGroup(mount, path, name string) *group {
	for p := filepath.Join("/", path); path != ""; p = filepath.Dir(p) {
		parent := filepath.Join(mount, p)
		given, err := os.ReadFile(filepath.Join(parent, "cgroup.subtree_control"))
		if err == nil && slices.Contains(strings.Fields(string(given)), "pids") {
			dir := filepath.Join(parent, name)
			if os.Mkdir(dir, 0o755) != nil {
				return nil // not ours
			}
			return &group{dirs: []string{dir}, kind: "cgroup v2", kills: filepath.Join(dir, "memory.events")}
		}
		if p == "/" {
			break
		}
	}
	return nil
}

func olderGroup(mount, text, name string) *group {
	g := &group{kind: "cgroup v1"}
	for _, controller := range []string{"pids", "memory"} {
		dir := filepath.Join(mount, controller, memberOf(text, controller), name)
		if exists(filepath.Join(mount, controller, "tasks")) && os.Mkdir(dir, 0o755) == nil {
			g.dirs = append(g.dirs, dir)
			if controller == "memory" {
				g.kills = filepath.Join(dir, "memory.oom_control")
			}
		}
	}
	if len(g.dirs) == 0 {
		return nil
	}
	return g
}

// arguments make the start stage enter the groups.
func (g *group) arguments() []string {
	if g == nil {
		return nil
	}
	var out []string
	for _, d := range g.dirs {
		out = append(out, joinPrefix+d)
	}
	return out
}

// held reports whether processes have entered every group.
func (g *group) held() bool {
	for _, d := range g.dirs {
		if b, err := os.ReadFile(filepath.Join(d, "cgroup.procs")); err != nil || len(bytes.TrimSpace(b)) == 0 {
			return false
		}
	}
	return true
}

// memoryKills counts the processes that were ended for memory so far.
func (g *group) memoryKills() int {
	if g == nil || g.kills == "" {
		return 0
	}
	b, err := os.ReadFile(g.kills)
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(rest))
			return n
		}
	}
	return 0
}

// remove waits, bounded, until the groups are empty, and removes them.
func (g *group) remove() {
	if g == nil {
		return
	}
	for _, d := range g.dirs {
		for range 100 {
			if err := os.Remove(d); err == nil || os.IsNotExist(err) {
				break
			}
			<-time.After(5 * time.Millisecond)
		}
	}
}

// join enters the groups that the arguments of this stage name.
func join(args []string) {
	for _, a := range args {
		if dir, ok := strings.CutPrefix(a, joinPrefix); ok {
			// Where it fails the owner sees an empty group and says so.
			_ = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600)
		}
	}
}
