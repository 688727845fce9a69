package docker

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/rivumi/rivumi/internal/sandbox"
)

const pullTimeout = 10 * time.Minute

// picture is what of an image matters here.
type picture struct {
	id, digest string
	env        []string
	volumes    []string // folders that the engine would back by disk
}

// image finds an image, pulling it where that is wanted.
func image(ctx context.Context, c *client.Client, name string, tell func(sandbox.Stage)) (picture, error) {
	begun := time.Now()
	p, err := inspectImage(ctx, c, name)
	if err == nil || !errdefs.IsNotFound(err) {
		if err != nil {
			err = startError("look for image "+name, err)
		}
		return p, err
	}
	if name == DefaultImage {
		err := &sandbox.Error{
			Code: sandbox.ErrTier, What: "image " + name + " is not on this machine",
			Hint: "docker build -t " + DefaultImage + " deploy/docker, or deploy/docker/build-image.sh, or name one that is there with --image",
		}
		return p, stage(tell, begun, sandbox.Stage{Name: sandbox.StagePull, Detail: name, Err: err})
	}
	if err := pull(ctx, c, name); err != nil {
		err := &sandbox.Error{
			Code: sandbox.ErrTier, What: "image " + name + " is not on this machine and cannot be pulled", Err: err,
			Hint: "docker pull " + name + " shows why; docker images lists what is there",
		}
		return p, stage(tell, begun, sandbox.Stage{Name: sandbox.StagePull, Detail: name, Err: err})
	}
	p, err = inspectImage(ctx, c, name)
	return p, stage(tell, begun, sandbox.Stage{Name: sandbox.StagePull, Detail: name, Err: err})
}

func inspectImage(ctx context.Context, c *client.Client, name string) (picture, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := c.ImageInspect(ctx, name)
	if err != nil {
		return picture{}, err
	}
	p := picture{id: r.ID, digest: r.ID}
	if len(r.RepoDigests) > 0 {
		p.digest = r.RepoDigests[0]
	}
	if r.Config != nil {
		p.env = r.Config.Env
		for v := range r.Config.Volumes {
			p.volumes = append(p.volumes, v)
		}
	}
	return p, nil
}

func pull(ctx context.Context, c *client.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	r, err := c.ImagePull(ctx, name, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Wait(ctx)
}
