package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// gate is the run's asker with secrets taken out of what is shown.
type gate struct{ a *attempt }

// Ask implements the agent's Gate.
func (g gate) Ask(ctx context.Context, ask contract.Approval) (contract.Decision, error) {
	var clean contract.Approval
	raw := redactJSON(contract.MarshalJSON(ask), g.a.c.Secrets.String)
	if err := json.Unmarshal(raw, &clean); err != nil {
		return contract.Decision{}, fmt.Errorf("redact approval: %w", err)
	}
	d, err := g.a.j.Session.Ask(ctx, clean)
	if err == nil && d.Verdict == contract.Deny && !d.NoAnswer() && d.By != contract.ByPolicy {
		g.a.refused++
	}
	return d, err
}

// putArtifact keeps the whole output of a tool without secrets.
func (a *attempt) putArtifact(ctx context.Context, name, mediaType string, r io.Reader) (contract.Artifact, error) {
	var buf bytes.Buffer
	w := a.c.Secrets.Writer(&buf)
	if _, err := io.Copy(w, r); err != nil {
		return contract.Artifact{}, fmt.Errorf("redact artifact %s: %w", name, err)
	}
	if err := w.Close(); err != nil {
		return contract.Artifact{}, fmt.Errorf("redact artifact %s: %w", name, err)
	}
	return a.out.Put(ctx, name, mediaType, &buf)
}

// scanEvery is how often the tree is looked at after commands; file tools are looked at at once.
const scanEvery = 2 * time.Second

// maxDiffBytes bounds a diff.updated event below the bound of all events.
const maxDiffBytes = 200 << 10

// diffWatch decides when the tree is worth a look.
type diffWatch struct {
	edited bool      // a file tool ran since the last look
	looked time.Time // end of the last look
	cost   time.Duration
	last   []contract.FileChange
}

// due reports whether to look now. Looking never takes more than a tenth of the time.
func (d *diffWatch) due(now time.Time) bool {
	return d.looked.IsZero() || d.edited || now.Sub(d.looked) >= max(scanEvery, 10*d.cost)
}

// changed is the agent's hook after a step.
func (a *attempt) changed(ctx context.Context, step int) ([]contract.Event, error) {
	began := a.c.Now()
	if !a.diff.due(began) {
		return nil, nil
	}
	changes, err := a.ws.Changes(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the tree: %w", err)
	}
	a.diff.edited, a.diff.looked = false, a.c.Now()
	a.diff.cost = a.diff.looked.Sub(began)
	return a.diffEvents(step, changes), nil
}

// diffEvents gives the event for a list of changes, none when it is the list told last.
func (a *attempt) diffEvents(step int, changes []contract.FileChange) []contract.Event {
	if slices.Equal(changes, a.diff.last) {
		return nil
	}
	a.diff.last = changes
	p := contract.DiffUpdated{Files: changes}
	if p.Files == nil {
		p.Files = []contract.FileChange{}
	}
	for len(contract.MarshalJSON(p)) > maxDiffBytes {
		p.Files = p.Files[:len(p.Files)/2] // the whole list is in the result and the manifest
	}
	return []contract.Event{contract.NewEvent(step, p)}
}
