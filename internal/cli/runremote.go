package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/remote/client"
	"github.com/rivumi/rivumi/internal/workspace"
)

// startTries is how often the start of a run is repeated while its control plane cannot be reached;
// the idempotency key makes all of them one run.
const startTries = 5

// startRemote sends the source and the task of a planned run to a control plane and follows it there.
// From the moment the run is stored, nothing that happens here stops it.
func startRemote(ctx context.Context, o *runOptions, p *planned) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	place, err := o.remoteNamed(p.Config, o.Remote)
	if err != nil {
		return err
	}
	c, err := o.openRemote(place, "")
	if err != nil {
		return err
	}
	defer c.Close()
	task, root := p.Task, ""
	if rep := task.Repository; rep != nil {
		if root, err = o.sendSource(ctx, c, &task); err != nil {
			return remoteFailure(err)
		}
	}
	r, err := startThere(ctx, c, task)
	if err != nil {
		return remoteFailure(err)
	}
	r.Repository = root
	if err := o.remember(remoteRun{
		ID: r.ID, Remote: place.Name, Repository: root, Name: r.Name, Instruction: r.Instruction, CreatedAt: r.CreatedAt,
	}); err != nil {
		o.IO.Warn("%v; its id is %s", err, r.ID)
	}
	if p.Detach {
		if p.Output == "text" {
			fmt.Fprintln(o.IO.Out, r.ID)
		} else if err := writeJSON(o.IO.Out, r, p.JQ); err != nil {
			return err
		}
		o.IO.Next("rivumi attach "+short(r), "rivumi cancel "+short(r))
		return nil
	}
	return o.followRemote(ctx, p, c, r)
}

// sendSource packs the checkout, shows what is sent, and sends what the control plane does not have.
func (o *runOptions) sendSource(ctx context.Context, c *client.Client, t *contract.Task) (root string, err error) {
	repo, err := workspace.Discover(ctx, t.Repository.Path)
	if err != nil {
		return "", usagef("run it inside a git repository", "%w", err)
	}
	tmp, err := os.MkdirTemp("", "rivumi-source-*")
	if err != nil {
		return "", fmt.Errorf("pack the source: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	rep := t.Repository
	pack, err := repo.Pack(ctx, workspace.PackOptions{
		Base: rep.Base, Dirty: rep.Dirty, Include: rep.Include, Dir: filepath.Join(tmp, "pack"), Secrets: o.IncludeSecrets,
	})
	if contract.KindOf(err) == contract.KindForbidden {
		return "", &failure{contract.ExitUsage, err, "--include-secrets sends them; --dirty exclude leaves uncommitted files behind"}
	}
	if err != nil {
		return "", err
	}
	for _, n := range pack.Notes {
		o.IO.Note("%s", n)
	}
	o.IO.Note("source: %s at %s, %d uncommitted files (%s), %s to send", repo.Root(), clip(pack.Base, 12), pack.Files, size(pack.FileSize), size(pack.Bytes))
	id, err := c.Upload(ctx, client.Source{Path: pack.Path, SHA256: pack.SHA256, Bytes: pack.Bytes, Progress: o.sent()})
	if err != nil {
		return "", err
	}
	t.Repository, t.Upload = nil, &contract.Upload{ID: id}
	return repo.Root(), nil
}

// sent tells now and then how much of an upload has gone.
func (o *runOptions) sent() func(sent, total int64) {
	last := o.Now()
	return func(sent, total int64) {
		if now := o.Now(); now.Sub(last) > time.Second && sent < total {
			last = now
			o.IO.Note("sent %s of %s", size(sent), size(total))
		}
	}
}

func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// startThere creates the run, again where no answer came.
func startThere(ctx context.Context, c *client.Client, t contract.Task) (contract.Run, error) {
	key := make([]byte, 16)
	if _, err := rand.Read(key); err != nil {
		return contract.Run{}, fmt.Errorf("make an idempotency key: %w", err)
	}
	t.IdempotencyKey = hex.EncodeToString(key)
	for n := 1; ; n++ {
		r, err := c.Start(ctx, t)
		if kind := contract.KindOf(err); n >= startTries || kind != contract.KindUnavailable && kind != contract.KindTooManyRequests {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, context.Cause(ctx)
		case <-time.After(time.Duration(n) * 500 * time.Millisecond):
		}
	}
}

// followRemote shows the run like a local one. Leaving does not stop it.
func (o *runOptions) followRemote(ctx context.Context, p *planned, c *client.Client, r contract.Run) error {
	o.IO.Note("run %s at %s; leaving does not stop it", short(r), firstOf(o.Remote, defaultRemote))
	lines := newPrinter(o.IO)
	verify := newChain(0)
	w := &watcher{f: o.Factory, runs: c, id: r.ID, asks: o.IO.Asks(), policy: p.Task.Approval}
	w.show = func(e contract.Event) error {
		if err := verify.next(e); err != nil {
			return err
		}
		if p.Output == "stream-json" {
			return streamEvent(o.IO, e, p.JQ)
		}
		lines.event(e)
		return nil
	}
	if err := w.follow(ctx, 0); err != nil {
		if ctx.Err() != nil {
			o.IO.Note("left; the run goes on")
		}
		o.IO.Next("rivumi attach "+short(r), "rivumi cancel "+short(r))
		return remoteFailure(err)
	}
	root := r.Repository
	r, err := c.Run(ctx, r.ID)
	if err != nil {
		return remoteFailure(err)
	}
	r.Repository = root
	if p.Bundle != "" {
		if err := exportRun(ctx, c, r, p.Bundle, false); err != nil {
			return remoteFailure(err)
		}
	}
	switch p.Output {
	case "json":
		err = writeJSON(o.IO.Out, r, p.JQ)
	case "stream-json":
	default:
		writeSummary(o.IO.Out, r, o.IO.Quiet || !o.IO.OutTTY)
	}
	if err != nil {
		return err
	}
	o.IO.Next(nextCommands(r)...)
	return ended(r.ExitCode())
}
