package proc

import (
	"context"
	"os"
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
	ses, r, err := launch(ctx, stageStart, q, s.Env)
	if err != nil {
		return nil, err
	}
	want := 1
	if q.Listen {
		want++
	}
	if len(r.fds) != want {
		closeAll(r.fds)
		return nil, ses.abandon(ctx)
	}
	ses.receipt = sandbox.Receipt{
		Tier: sandbox.TierFull, Network: networkName(s.Hosts), Layers: r.Layers, Missing: r.Missing,
		Way: "plain", Versions: map[string]string{"kernel": kernelVersion()},
	}
	if s.Overlay != nil && !s.ReadOnly {
		ses.receipt.Way = "overlay"
		ses.work = s.Overlay.Work
		ses.tree = os.NewFile(uintptr(r.fds[0]), "tree")
		ses.root = "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/" + strconv.Itoa(r.fds[0])
	} else {
		unix.Close(r.fds[0])
		if s.Overlay != nil {
			ses.root = s.Overlay.Lower
		}
	}
	if q.Listen {
		if err := ses.serveProxy(ctx, r.fds[1], s.Hosts); err != nil {
			_ = ses.Close(context.WithoutCancel(ctx))
			return nil, startError("serve the network proxy", err)
		}
	}
	return ses, nil
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
