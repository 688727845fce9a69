package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Labels of every container made here.
const (
	labelInstance = "dev.rivumi.instance"
	labelRun      = "dev.rivumi.run"
	labelKind     = "dev.rivumi.kind"

	kindSession = "session"
	kindBox     = "box"
)

type mountPoint = mount.Mount

// plan is one container before it is made.
type plan struct {
	kind, run string
	image     picture
	user      string
	argv      []string
	env       []string
	mounts    []mountPoint
	folders   []string // in memory, writable
	limits    sandbox.Limits
	stdin     bool
	about     About
}

// configs give the engine's description of a container. Everything that holds it is in here.
func (e *Engine) configs(p plan) (*container.Config, *container.HostConfig, error) {
	memory := p.limits.Memory
	if memory <= 0 {
		memory = firstOf(e.o.Memory, defaultMemory)
	}
	memory = max(memory, minMemory)
	processes := int64(firstOf(p.limits.Processes, e.o.Processes, defaultProcesses))
	tmp := min(firstOf(e.o.Tmp, defaultTmp), memory)
	profile := e.o.profile
	if profile == nil {
		profile = Profile()
	}
	no := false
	c := &container.Config{
		Hostname: "sandbox", Image: p.image.id, User: p.user, Entrypoint: p.argv[:1], Cmd: p.argv[1:], Env: p.env, WorkingDir: "/",
		AttachStdin: p.stdin, OpenStdin: p.stdin, StdinOnce: p.stdin, AttachStdout: true, AttachStderr: true,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, // an image's would run beside the commands
		Labels:      map[string]string{labelInstance: e.o.Instance, labelRun: p.run, labelKind: p.kind},
	}
	h := &container.HostConfig{
		NetworkMode: "none", IpcMode: "private", CgroupnsMode: "", ReadonlyRootfs: true, Privileged: false, Init: &no,
		CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges", "seccomp=" + string(profile)},
		ShmSize: 64 << 20, Runtime: e.o.Runtime, Mounts: p.mounts, Tmpfs: make(map[string]string), DNS: []netip.Addr{},
		AutoRemove: p.kind == kindSession,
		LogConfig:  container.LogConfig{Type: "none"},
		Resources: container.Resources{
			Memory: memory, MemorySwap: memory, PidsLimit: &processes, NanoCPUs: int64(firstOf(e.o.CPUs, defaultCPUs) * 1e9),
			Ulimits: []*container.Ulimit{{Name: "core"}, {Name: "nofile", Soft: 4096, Hard: 4096}},
		},
	}
	if p.kind == kindBox {
		// Its last lines must be there after a restart of the owner. Never more than this on disk.
		h.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "1"}}
	}
	if p.about.userns {
		h.UsernsMode = "host" // with other numbers inside nobody could write the tree
	}
	folders := append(append([]string{}, p.folders...), p.image.volumes...) // a volume would be on disk
	for _, f := range folders {
		if slices.ContainsFunc(p.mounts, func(m mountPoint) bool { return m.Target == f }) {
			continue
		}
		h.Tmpfs[f] = "rw,exec,nosuid,nodev,mode=1777,size=" + strconv.FormatInt(tmp, 10)
	}
	return c, h, nil
}

func firstOf[T int | int64 | float64](values ...T) T {
	for _, v := range values {
		if v > 0 {
			return v
		}
	}
	return 0
}

// create makes a container; it is not started.
func (e *Engine) create(ctx context.Context, c *client.Client, p plan) (string, error) {
	config, hostConfig, err := e.configs(p)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := c.ContainerCreate(ctx, client.ContainerCreateOptions{Config: config, HostConfig: hostConfig})
	if err != nil {
		return "", startError("create a container", err)
	}
	return r.ID, nil
}

// remove ends a container and removes it. One that is gone already is fine. It outlives ctx.
func remove(ctx context.Context, c *client.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	for {
		_, err := c.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		if !errdefs.IsConflict(err) {
			return fmt.Errorf("remove container %.12s: %w", id, err)
		}
		// The engine removes it already; the end of that is waited for, since it may fail.
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove container %.12s: %w", id, errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// bind shows something of the host.
func bind(source, target string, writable bool) mountPoint {
	return mountPoint{
		Type: mount.TypeBind, Source: source, Target: target, ReadOnly: !writable,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
	}
}

// forbidden must not be shown: they are the host's, or hold what reaches beyond a container.
var forbidden = []string{"/", "/proc", "/sys", "/dev", "/run", "/etc", "/boot", "/var", "/var/run", "/var/lib/docker", "/run/docker.sock", "/var/run/docker.sock"}

func checkShown(p string) error {
	if !filepath.IsAbs(p) {
		return fmt.Errorf("%q is not an absolute path", p)
	}
	p = filepath.Clean(p)
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return fmt.Errorf("show %s: %w", p, err)
	}
	for _, q := range []string{p, real} {
		if slices.Contains(forbidden, q) || filepath.Base(q) == "docker.sock" || filepath.Base(q) == "containerd.sock" {
			return fmt.Errorf("%s cannot be shown in a container", p)
		}
	}
	return nil
}
