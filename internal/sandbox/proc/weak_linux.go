package proc

import (
	"context"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// openWeak opens the tier of a machine without namespaces: Landlock and seccomp alone. Commands see
// which processes and files exist, but open only what a stronger tier would show, change only the
// tree, signal nothing outside and have no socket at all.
func openWeak(ctx context.Context, s sandbox.Spec, off []string) (sandbox.Session, error) {
	switch {
	case s.Overlay != nil:
		return nil, &sandbox.Error{Code: sandbox.ErrOverlay, What: "the weak tier has no mounts of its own", Hint: "use a plain tree"}
	case len(s.Hosts) > 0:
		return nil, &sandbox.Error{Code: sandbox.ErrTier, What: "the weak tier cannot let single hosts through", Hint: "choose no network or a stronger sandbox"}
	}
	q, err := planFull(s, true)
	if err != nil {
		return nil, err
	}
	q.Off = off
	for _, p := range []string{"/etc/passwd", "/etc/group", "/etc/hosts"} {
		q.Binds = append(q.Binds, bind{Path: p, Optional: true})
	}
	q.Binds = slices.DeleteFunc(q.Binds, func(b bind) bool { return b.At != "" && b.At != b.Path }) // nothing is mounted anywhere else
	q.Folders, q.Files, q.Links = nil, nil, nil                                                     // there is no view to put them in
	ses, r, err := launch(ctx, processOf(stageWeak), q, s.Env)
	if err != nil {
		return nil, err
	}
	closeAll(r.fds)
	ses.receipt = sandbox.Receipt{
		Tier: sandbox.TierWeak, Network: "none", Layers: r.Layers, Way: "plain",
		Missing:  []string{"no view of its own: names of files and processes of the host are visible"},
		Versions: map[string]string{"kernel": kernelVersion()},
	}
	return ses, nil
}

// weakMain is the supervisor of a weak session.
func weakMain() int {
	l, q, err := accept()
	if err != nil {
		return 125
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		_ = l.send(message{Ready: refusal(err)})
		return 125
	}
	return onOtherThread(func() int {
		layers, err := confineThread(q, wallsOf(q, landlockFloorWeak), nil)
		if err != nil {
			_ = l.send(message{Ready: refusal(err)})
			return 125
		}
		layers["processes"] = "subreaper"
		return serveBelow(l, q, layers)
	})
}
