package host

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

// Run implements [contract.Watcher].
func (s *Service) Run(ctx context.Context, id contract.RunID) (run contract.Run, err error) {
	if err := s.genuine(id); err != nil {
		return contract.Run{}, err
	}
	err = s.store.View(ctx, id, func(tx control.Tx) error {
		run, err = s.core.Read(tx)
		return err
	})
	return run, err
}

// Task gives the task of a run as it was asked.
func (s *Service) Task(ctx context.Context, id contract.RunID) (t contract.Task, err error) {
	if err := s.genuine(id); err != nil {
		return contract.Task{}, err
	}
	err = s.store.View(ctx, id, func(tx control.Tx) error {
		t, err = s.core.Task(tx)
		return err
	})
	return t, err
}

// Events implements [contract.Watcher]. It is woken only after a commit, and every event is decoded
// from its stored bytes.
func (s *Service) Events(ctx context.Context, id contract.RunID, after int64) iter.Seq2[contract.Event, error] {
	return s.events(ctx, id, after, true)
}

func (s *Service) events(ctx context.Context, id contract.RunID, after int64, live bool) iter.Seq2[contract.Event, error] {
	return func(yield func(contract.Event, error) bool) {
		for lines, err := range s.follow(ctx, following{run: id, after: after, live: live}) {
			if err != nil {
				yield(contract.Event{}, err)
				return
			}
			for _, line := range lines {
				e, err := contract.DecodeEvent(line)
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// List implements [contract.Lister].
func (s *Service) List(ctx context.Context, f contract.Filter) iter.Seq2[contract.Run, error] {
	return s.list(ctx, "", f)
}

// list lists the runs of a principal, of all with "".
func (s *Service) list(ctx context.Context, principal string, f contract.Filter) iter.Seq2[contract.Run, error] {
	return func(yield func(contract.Run, error) bool) {
		n := 0
		for h, err := range s.store.Runs(ctx, runKey) {
			var run contract.Run
			mine := true
			if err == nil {
				run, mine, err = s.runOf(ctx, h.ID, principal)
			}
			if contract.KindOf(err) == contract.KindRunNotFound {
				continue // removed meanwhile
			}
			if err != nil {
				yield(contract.Run{}, err)
				return
			}
			if !mine || !matches(f, run) {
				continue
			}
			if n++; !yield(run, nil) || f.Limit > 0 && n >= f.Limit {
				return
			}
		}
	}
}

func (s *Service) runOf(ctx context.Context, id contract.RunID, principal string) (run contract.Run, mine bool, err error) {
	err = s.store.View(ctx, id, func(tx control.Tx) error {
		if run, err = s.core.Read(tx); err != nil || principal == "" {
			mine = true
			return err
		}
		status, err := s.core.StatusOf(tx)
		mine = status.Principal == principal
		return err
	})
	return run, mine, err
}

func matches(f contract.Filter, r contract.Run) bool {
	if len(f.States) > 0 && !slices.Contains(f.States, r.Status) {
		return false
	}
	if f.Repository != "" && f.Repository != r.Repository {
		return false
	}
	if k, v, ok := strings.Cut(f.Label, ":"); f.Label != "" {
		if have, there := r.Labels[k]; !ok || !there || have != v {
			return false
		}
	}
	return f.Search == "" || strings.Contains(string(r.ID), f.Search) ||
		strings.Contains(r.Name, f.Search) || strings.Contains(r.Instruction, f.Search)
}
