package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// minPrefix is the shortest prefix of an id that names a run.
const minPrefix = 4

// findRun resolves RUN: an id, a unique prefix of one, a name, @last, or @-N for the Nth before
// the last. @ forms and names mean this repository where the working folder is in one that has
// runs. An empty ref is asked for on a terminal and refused elsewhere.
func (f *Factory) findRun(ctx context.Context, runs contract.Runs, ref string) (contract.Run, error) {
	switch {
	case ref == "":
		r, err := f.pickRun(ctx, runs)
		if err != nil {
			return r, err
		}
		return fresh(ctx, runs, r)
	case contract.RunID(ref).WellFormed():
		return runs.Run(ctx, contract.RunID(ref))
	}
	var r contract.Run
	var err error
	if strings.HasPrefix(ref, "@") {
		r, err = f.relativeRun(ctx, runs, ref)
	} else {
		r, err = f.searchRun(ctx, runs, ref)
	}
	if err != nil {
		return r, err
	}
	return fresh(ctx, runs, r)
}

// fresh reads a run again that is only remembered here.
func fresh(ctx context.Context, runs contract.Runs, r contract.Run) (contract.Run, error) {
	if e := everywhereOf(runs); e == nil || e.remembered(r.ID) == nil {
		return r, nil
	}
	return runs.Run(ctx, r.ID)
}

func (f *Factory) relativeRun(ctx context.Context, runs contract.Runs, ref string) (contract.Run, error) {
	back := 0
	if ref != "@last" {
		n, err := strconv.Atoi(strings.TrimPrefix(ref, "@-"))
		if err != nil || n < 1 || !strings.HasPrefix(ref, "@-") {
			return contract.Run{}, usagef("@last, @-1, an id, or a name", "%q does not name a run", ref)
		}
		back = n
	}
	list, err := f.here(ctx, runs, back+1)
	if err != nil {
		return contract.Run{}, err
	}
	if len(list) <= back {
		return contract.Run{}, usagef("rivumi ps --all lists the runs", "there is no run %s", ref)
	}
	return list[back], nil
}

// here lists the newest runs of this repository.
func (f *Factory) here(ctx context.Context, runs contract.Runs, limit int) ([]contract.Run, error) {
	filter := contract.Filter{Limit: limit}
	if dir, err := f.WorkDir(); err == nil {
		filter.Repository = f.runsRoot(dir)
	}
	return f.known(ctx, runs, filter)
}

func collect(ctx context.Context, runs contract.Lister, filter contract.Filter) ([]contract.Run, error) {
	var out []contract.Run
	for r, err := range runs.List(ctx, filter) {
		if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (f *Factory) searchRun(ctx context.Context, runs contract.Runs, ref string) (contract.Run, error) {
	list, err := f.known(ctx, runs, contract.Filter{})
	if err != nil {
		return contract.Run{}, err
	}
	prefix := strings.TrimPrefix(ref, "run_")
	var found []contract.Run
	for _, r := range list {
		if r.Name == ref {
			return r, nil // the newest of that name
		}
		if len(prefix) >= minPrefix && strings.HasPrefix(strings.TrimPrefix(string(r.ID), "run_"), prefix) {
			found = append(found, r)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return contract.Run{}, usagef("give more of the id", "%q names %d runs", ref, len(found))
	case len(prefix) < minPrefix:
		return contract.Run{}, usagef(fmt.Sprintf("a prefix of an id has at least %d characters", minPrefix), "no run is named %q", ref)
	}
	return contract.Run{}, usagef("rivumi ps --all lists the runs", "no run is named %q", ref)
}

// pickRun lets a person choose one of the newest runs.
func (f *Factory) pickRun(ctx context.Context, runs contract.Runs) (contract.Run, error) {
	if !f.IO.Asks() {
		return contract.Run{}, usagef("@last names the newest one; rivumi ps lists them", "RUN is missing")
	}
	list, err := f.here(ctx, runs, 9)
	if err != nil {
		return contract.Run{}, err
	}
	if len(list) == 0 {
		return contract.Run{}, usagef(`rivumi run "what to do" starts one`, "there are no runs here yet")
	}
	for i, r := range list {
		fmt.Fprintf(f.IO.Err, " %d  %s  %-9s  %s\n", i+1, r.ID.Short(), r.Status, view.Clip(view.OneLine(r.Instruction), 60))
	}
	fmt.Fprintf(f.IO.Err, "rivumi: which run? [1] ")
	line, err := bufio.NewReader(io.LimitReader(f.IO.In, 64)).ReadString('\n')
	line = strings.TrimSpace(line)
	if line == "" && err == nil {
		return list[0], nil
	}
	n, err := strconv.Atoi(line)
	if err != nil || n < 1 || n > len(list) {
		return contract.Run{}, usagef("type the number of a run", "no run was chosen")
	}
	return list[n-1], nil
}

// short is the id to name in a next command.
func short(r contract.Run) string { return r.ID.Short() }
