package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// bwrapPath is the system's own bubblewrap: distributions that restrict user namespaces let exactly
// this path make them.
const bwrapPath = "/usr/bin/bwrap"

const selfInside = "/run/rivumi" // where the program finds itself again

// openBwrap lets bubblewrap make the view and confines commands in it the same way as the full tier.
func (o *opener) openBwrap(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	if _, err := os.Stat(bwrapPath); err != nil {
		return nil, &sandbox.Error{Code: sandbox.ErrTier, What: bwrapPath + " is not installed", Hint: "install bubblewrap (apt install bubblewrap, dnf install bubblewrap)"}
	}
	if s.Overlay != nil && !s.ReadOnly {
		return nil, &sandbox.Error{Code: sandbox.ErrOverlay, What: "bubblewrap mounts no overlay here", Hint: "use a plain tree"}
	}
	q, err := planFull(s, true)
	if err != nil {
		return nil, err
	}
	q.Off = o.off
	env := q.freezeCaches(o.caches, s)
	p, err := bwrapProcess(q)
	if err != nil {
		return nil, startError("prepare bubblewrap", err)
	}
	ses, r, err := launch(ctx, p, q, sandbox.MergeEnv(s.Env, env))
	if err != nil {
		var se *sandbox.Error
		if errors.As(err, &se) && se.Code == sandbox.ErrStart && ctx.Err() == nil {
			return nil, &sandbox.Error{Code: sandbox.ErrTier, What: "bubblewrap makes no sandbox here", Err: se.Err, Hint: namespaceHint()}
		}
		return nil, err
	}
	ses.receipt = sandbox.Receipt{Tier: sandbox.TierBwrap, Layers: r.Layers, Versions: map[string]string{"kernel": kernelVersion()}}
	if err := ses.adopt(ctx, r, q, s); err != nil {
		return nil, err
	}
	return ses, nil
}

// bwrapProcess turns a plan into bubblewrap's arguments. The made-up files travel in pipes, this
// program as a descriptor of itself.
func bwrapProcess(q openRequest) (process, error) {
	self, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, err
	}
	files := []*os.File{os.NewFile(uintptr(self), "self")}
	args := []string{
		bwrapPath, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--as-pid-1", "--hostname", "sandbox", "--clearenv", "--proc", "/proc", "--dev", "/dev",
	}
	for _, f := range q.Folders {
		if f != "/dev/shm" {
			args = append(args, "--tmpfs", f)
		}
	}
	for _, b := range q.Binds {
		if _, err := os.Stat(b.Path); within(b.Path, "/dev") || b.Optional && err != nil {
			continue
		}
		option := "--ro-bind"
		if b.Writable {
			option = "--bind"
		}
		args = append(args, option, b.Path, b.at())
	}
	for _, l := range q.Links {
		if !within(l[1], "/dev") {
			args = append(args, "--symlink", l[0], l[1])
		}
	}
	for p, text := range q.Files {
		r, w, err := os.Pipe()
		if err != nil {
			closeFiles(files)
			return process{}, err
		}
		_, err = w.WriteString(text) // far below what a pipe holds
		w.Close()
		files = append(files, r)
		if err != nil {
			closeFiles(files)
			return process{}, err
		}
		args = append(args, "--ro-bind-data", itoa(controlFD+len(files)), p)
	}
	args = append(args, "--ro-bind", fmt.Sprintf("/proc/self/fd/%d", controlFD+1), selfInside,
		"--remount-ro", "/", "--chdir", "/", "--", selfInside, stageInside)
	return process{path: bwrapPath, args: args, files: files}, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// process is how a supervisor is started. Its files follow the control socket.
type process struct {
	path  string
	args  []string
	files []*os.File
}

func processOf(stage string, args ...string) process {
	return process{path: "/proc/self/exe", args: append([]string{stage}, args...)}
}

func (p process) command(control *os.File, stderr *sandbox.Capture) *exec.Cmd {
	return &exec.Cmd{
		Path: p.path, Args: p.args, Env: stageEnv(), Dir: "/", Stderr: stderr,
		ExtraFiles:  append([]*os.File{control}, p.files...),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// stageEnv is the environment of a stage: empty, but for the options of the race detector where
// tests run with it (it would hold every stage's end up by a second).
func stageEnv() []string {
	if v, ok := os.LookupEnv("GORACE"); ok {
		return []string{"GORACE=" + v}
	}
	return []string{}
}

// insideMain is pid 1 of what bubblewrap made.
func insideMain() int {
	l, q, err := accept()
	if err != nil {
		return 125
	}
	return onOtherThread(func() int {
		return servePlace(l, q, func() ([]int, error) { return handOut(q) }, "bubblewrap: user, mount, pid, net, ipc, uts")
	})
}
