package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/remote/client"
)

// maxIndex bounds what is read of the list of remote runs, in bytes.
const maxIndex = 8 << 20

// remoteRun is what is remembered here of a run at a control plane.
type remoteRun struct {
	ID          contract.RunID `json:"id"`
	Remote      string         `json:"remote"` // name of the control plane
	Repository  string         `json:"repository,omitempty"`
	Name        string         `json:"name,omitempty"`
	Instruction string         `json:"instruction,omitempty"` // its beginning
	CreatedAt   contract.Time  `json:"createdAt"`
}

// run is the remembered run as a listing shows it; its state is not known here.
func (r remoteRun) run() contract.Run {
	return contract.Run{ID: r.ID, Name: r.Name, Instruction: r.Instruction, Repository: r.Repository, CreatedAt: r.CreatedAt, Status: contract.Running}
}

func (f *Factory) indexFile() (string, error) {
	dir, err := f.StateDir()
	return filepath.Join(dir, "remote-runs.ndjson"), err
}

// remember adds a run to the list. A line is written at once, so that programs do not disturb each other.
func (f *Factory) remember(r remoteRun) error {
	path, err := f.indexFile()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("remember the run: %w", err)
	}
	r.Instruction = clip(r.Instruction, 200)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("remember the run: %w", err)
	}
	_, err = file.Write(append(contract.MarshalJSON(r), '\n'))
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("remember the run: %w", err)
	}
	return nil
}

// remembered reads the list, newest first. Lines that are broken are left out.
func (f *Factory) remembered() ([]remoteRun, error) {
	path, err := f.indexFile()
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of remote runs: %w", err)
	}
	defer file.Close()
	seen := map[contract.RunID]bool{}
	var out []remoteRun
	lines := bufio.NewScanner(io.LimitReader(file, maxIndex))
	lines.Buffer(nil, 64<<10)
	for lines.Scan() {
		var r remoteRun
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.ID.WellFormed() && !seen[r.ID] {
			seen[r.ID] = true
			out = append(out, r)
		}
	}
	slices.Reverse(out)
	return out, lines.Err()
}

// everywhere is the runs of this machine and of the control planes this user started runs on: one
// space of ids. Listings are of this machine; see [Factory.known] for both.
type everywhere struct {
	contract.Runs // of this machine
	f             *Factory
	config        *config.Config
	runs          []remoteRun
	open          map[string]*client.Client // by name of the control plane
}

// at finds where a run is. One that is not known here is asked for at every control plane.
func (e *everywhere) at(ctx context.Context, id contract.RunID) (contract.Runs, error) {
	if r := e.remembered(id); r != nil {
		return e.client(r.Remote)
	}
	_, err := e.Runs.Run(ctx, id)
	if contract.KindOf(err) != contract.KindRunNotFound || !id.WellFormed() || e.config == nil {
		return e.Runs, nil
	}
	for _, p := range remotePlaces(e.config) {
		c, err := e.client(p.Name)
		if err != nil {
			continue // not logged in there
		}
		if run, err := c.Run(ctx, id); err == nil {
			e.runs = append(e.runs, remoteRun{ID: id, Remote: p.Name, Name: run.Name, Instruction: run.Instruction, CreatedAt: run.CreatedAt})
			return c, nil
		}
	}
	return e.Runs, nil
}

func (e *everywhere) remembered(id contract.RunID) *remoteRun {
	for i := range e.runs {
		if e.runs[i].ID == id {
			return &e.runs[i]
		}
	}
	return nil
}

func (e *everywhere) client(name string) (*client.Client, error) {
	if c := e.open[name]; c != nil {
		return c, nil
	}
	if e.config == nil {
		return nil, usagef("rivumi doctor", "the settings cannot be read")
	}
	p, err := e.f.remoteNamed(e.config, name)
	if err != nil {
		return nil, err
	}
	c, err := e.f.openRemote(p, "")
	if err == nil {
		e.open[name] = c
	}
	return c, err
}

func (e *everywhere) close() error {
	var errs []error
	for _, c := range e.open {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// there does something where the run is.
func there[T any](ctx context.Context, e *everywhere, id contract.RunID, do func(contract.Runs) (T, error)) (T, error) {
	var zero T
	runs, err := e.at(ctx, id)
	if err != nil {
		return zero, err
	}
	v, err := do(runs)
	if runs != e.Runs {
		err = remoteFailure(err)
	}
	return v, err
}

type nothing = struct{}

// Run implements [contract.Watcher].
func (e *everywhere) Run(ctx context.Context, id contract.RunID) (contract.Run, error) {
	r, err := there(ctx, e, id, func(r contract.Runs) (contract.Run, error) { return r.Run(ctx, id) })
	if k := e.remembered(id); k != nil && r.Repository == "" {
		r.Repository = k.Repository
	}
	return r, err
}

// Events implements [contract.Watcher].
func (e *everywhere) Events(ctx context.Context, id contract.RunID, after int64) iter.Seq2[contract.Event, error] {
	return func(yield func(contract.Event, error) bool) {
		runs, err := e.at(ctx, id)
		if err != nil {
			yield(contract.Event{}, err)
			return
		}
		for ev, err := range runs.Events(ctx, id, after) {
			if runs != e.Runs {
				err = remoteFailure(err)
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// Decide implements [contract.Steerer].
func (e *everywhere) Decide(ctx context.Context, id contract.RunID, approval string, d contract.Decision) error {
	_, err := there(ctx, e, id, func(r contract.Runs) (nothing, error) { return nothing{}, r.Decide(ctx, id, approval, d) })
	return err
}

// Cancel implements [contract.Steerer].
func (e *everywhere) Cancel(ctx context.Context, id contract.RunID, why string) error {
	_, err := there(ctx, e, id, func(r contract.Runs) (nothing, error) { return nothing{}, r.Cancel(ctx, id, why) })
	return err
}

// Send implements [contract.Steerer].
func (e *everywhere) Send(ctx context.Context, id contract.RunID, text string) error {
	_, err := there(ctx, e, id, func(r contract.Runs) (nothing, error) { return nothing{}, r.Send(ctx, id, text) })
	return err
}

// Artifacts implements [contract.Collector].
func (e *everywhere) Artifacts(ctx context.Context, id contract.RunID) ([]contract.Artifact, error) {
	return there(ctx, e, id, func(r contract.Runs) ([]contract.Artifact, error) { return r.Artifacts(ctx, id) })
}

// Artifact implements [contract.Collector].
func (e *everywhere) Artifact(ctx context.Context, id contract.RunID, name string) (io.ReadCloser, error) {
	return there(ctx, e, id, func(r contract.Runs) (io.ReadCloser, error) { return r.Artifact(ctx, id, name) })
}

// isRemote reports whether a run is at a control plane, as far as is known here.
func (r *Runs) isRemote(id contract.RunID) bool {
	e := everywhereOf(r)
	return e != nil && e.remembered(id) != nil
}

// everywhereOf gives the space of ids behind runs, nil where there is this machine only.
func everywhereOf(runs contract.Runs) *everywhere {
	if r, ok := runs.(*Runs); ok {
		runs = r.Runs
	}
	e, _ := runs.(*everywhere)
	return e
}

// known lists runs of this machine and the remembered ones of control planes, newest first.
func (f *Factory) known(ctx context.Context, runs contract.Runs, filter contract.Filter) ([]contract.Run, error) {
	list, err := collect(ctx, runs, filter)
	e := everywhereOf(runs)
	if err != nil || e == nil {
		return list, err
	}
	for _, r := range e.runs {
		if filter.Repository == "" || filter.Repository == r.Repository {
			list = append(list, r.run())
		}
	}
	slices.SortStableFunc(list, func(a, b contract.Run) int {
		return strings.Compare(b.CreatedAt.Format(contract.TimeLayout), a.CreatedAt.Format(contract.TimeLayout))
	})
	if filter.Limit > 0 && len(list) > filter.Limit {
		list = list[:filter.Limit]
	}
	return list, nil
}
