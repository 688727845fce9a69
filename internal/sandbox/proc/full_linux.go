package proc

import (
	"context"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// openFull opens the strongest local tier: namespaces, a root of its own, Landlock and seccomp.
func (o *opener) openFull(ctx context.Context, s sandbox.Spec) (sandbox.Session, error) {
	q, err := planFull(s, o.fullProc)
	if err != nil {
		return nil, err
	}
	q.Off = o.off
	if err := q.showCaches(o.caches, s); err != nil {
		return nil, err
	}
	var g *group
	if !q.off("limits") {
		g = newGroup(cgroupMount, readTrimmed("/proc/self/cgroup"), s.Limits)
	}
	ses, r, err := launch(ctx, processOf(stageStart, slices.Concat(o.off, g.arguments())...), q, s.Env)
	if err != nil {
		g.remove()
		return nil, err
	}
	ses.group = g
	ses.release = func() {
		releaseCaches(q)
		g.remove()
	}
	switch {
	case g != nil && g.held():
		r.Layers["limits"] = g.kind
	case s.Limits.Processes > 0 && os.Getuid() == 0:
		r.Layers["limits"] = "of each process; none of their number, as user 0"
	case s.Limits != (sandbox.Limits{}):
		r.Layers["limits"] = "of each process, and of their number"
	}
	r.Layers["user"] = strconv.Itoa(os.Getuid())
	ses.env = sandbox.MergeEnv(ses.env, r.Shown)
	ses.receipt = sandbox.Receipt{Tier: sandbox.TierFull, Layers: r.Layers, Versions: map[string]string{"kernel": kernelVersion()}}
	if err := ses.adopt(ctx, r, q, s); err != nil {
		return nil, err
	}
	return ses, nil
}

// adopt takes over the descriptors that a place with a view of its own hands out. On an error the
// session is closed.
func (s *session) adopt(ctx context.Context, r ready, q openRequest, spec sandbox.Spec) error {
	want := 1
	if q.Listen {
		want++
	}
	if len(r.fds) != want {
		closeAll(r.fds)
		return s.abandon(ctx)
	}
	s.receipt.Network, s.receipt.Way = networkName(spec.Hosts), "plain"
	if q.Lower != "" {
		s.receipt.Way = "overlay"
		s.work = spec.Overlay.Work
		s.tree = os.NewFile(uintptr(r.fds[0]), "tree")
		s.root = "/proc/" + itoa(os.Getpid()) + "/fd/" + itoa(r.fds[0])
	} else {
		unix.Close(r.fds[0])
		if spec.Overlay != nil {
			s.root = spec.Overlay.Lower
		}
	}
	if !q.Listen {
		return nil
	}
	if err := s.serveProxy(ctx, r.fds[1], spec.Hosts); err != nil {
		_ = s.Close(context.WithoutCancel(ctx))
		return startError("serve the network proxy", err)
	}
	return nil
}

func networkName(hosts []string) string {
	if len(hosts) == 0 {
		return "none"
	}
	name := hosts[0]
	for _, h := range hosts[1:] {
		name += "," + h
	}
	return name
}

func kernelVersion() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
