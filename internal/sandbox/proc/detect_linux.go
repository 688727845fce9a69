package proc

import (
	"context"
	"errors"
	"os"
	"strings"

	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Detect opens a session of every tier in an empty folder, runs one command in it, and says what
// this machine can do, what is missing and how to get it.
func Detect(ctx context.Context) Report {
	r := Report{Versions: map[string]string{"kernel": kernelVersion()}}
	if abi, err := llsys.LandlockGetABIVersion(); err == nil {
		r.Versions["landlock"] = itoa(abi)
	}
	for _, t := range []sandbox.Tier{sandbox.TierFull, sandbox.TierBwrap, sandbox.TierWeak, sandbox.TierNone} {
		tr := try(ctx, t)
		r.Tiers = append(r.Tiers, tr)
		if r.Best == "" && tr.Available && t.AtLeast(sandbox.TierBwrap) {
			r.Best = t
		}
	}
	return r
}

func try(ctx context.Context, t sandbox.Tier) TierReport {
	tr := TierReport{Tier: t}
	dir, err := os.MkdirTemp("", "rivumi-detect-")
	if err != nil {
		tr.Missing = err.Error()
		return tr
	}
	defer os.RemoveAll(dir)
	s, err := New(Options{Want: t}).Open(ctx, sandbox.Spec{Tree: dir, Env: []string{"PATH=/usr/bin:/bin"}})
	if err == nil {
		defer s.Close(context.WithoutCancel(ctx))
		tr.Layers = s.Receipt().Layers
		_, err = s.Run(ctx, sandbox.Command{Argv: []string{"true"}, Timeout: openTimeout}, sandbox.Output{})
	}
	var e *sandbox.Error
	switch {
	case err == nil:
		tr.Available = true
	case errors.As(err, &e):
		tr.Missing, tr.Hint = strings.TrimPrefix(e.Error(), "sandbox: "), e.Hint
	default:
		tr.Missing = err.Error()
	}
	return tr
}

// namespaceHint names what most likely keeps user namespaces from being made.
func namespaceHint() string {
	switch {
	case readTrimmed("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor restricts user namespaces: install bubblewrap (apt install bubblewrap), or allow them with " +
			"`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or use the docker sandbox"
	case readTrimmed("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "allow them with `sysctl -w kernel.unprivileged_userns_clone=1`, or use the docker sandbox"
	case readTrimmed("/proc/sys/user/max_user_namespaces") == "0":
		return "allow them with `sysctl -w user.max_user_namespaces=15000`, or use the docker sandbox"
	case inContainer():
		return "this is a container whose engine forbids namespaces: the container itself is the boundary, so use the weak sandbox " +
			"or none inside it, or run the container with a seccomp profile that allows unshare and mount"
	default:
		return "`unshare -Urm true` shows the kernel's answer; or use the docker sandbox"
	}
}

func inContainer() bool {
	for _, p := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(p); err == nil {
			return true
		}
	}
	return false
}

func readTrimmed(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
