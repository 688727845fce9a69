package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/remote/client"
)

var errNoModel = errors.New("no model is chosen")

// closeTime bounds the end of a service: what still runs has its grace, and then the process ends.
const closeTime = (contract.GraceSeconds + 5) * time.Second

// Local is the runs of this machine, opened.
type Local struct {
	*host.Service
	Dir string // state directory
}

// openService opens the service of the state directory. Without an executor it reads and steers
// runs, also those of other processes, and starts none.
func (f *Factory) openService(ctx context.Context, ex host.Executor) (*Local, error) {
	dir, err := f.StateDir()
	if err != nil {
		return nil, err
	}
	log, err := f.logger()
	if err != nil {
		return nil, err
	}
	s, err := host.Open(ctx, host.Options{Dir: dir, Executor: ex, Now: f.Now, Version: f.Version, Log: log})
	if err != nil {
		return nil, fmt.Errorf("open the runs in %s: %w", dir, err)
	}
	return &Local{Service: s, Dir: dir}, nil
}

// closeService ends a service on a context of its own, so that a cancelled command still ends its
// runs properly.
func closeService(ctx context.Context, s *Local) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return s.Close(ctx)
}

func (f *Factory) openRuns(ctx context.Context) (*Runs, error) {
	s, err := f.openService(ctx, nil)
	if err != nil {
		return nil, err
	}
	e := &everywhere{Runs: s, f: f, open: map[string]*client.Client{}}
	if e.runs, err = f.remembered(); err == nil {
		e.config, err = f.Config()
	}
	if err != nil {
		f.IO.Warn("runs of control planes are left out: %v", err)
	}
	return &Runs{Runs: e, Local: s, Close: func() error { return errors.Join(e.close(), closeService(ctx, s)) }}, nil
}

// runDir is the folder of a run in the state directory.
func (l *Local) runDir(id contract.RunID) string { return filepath.Join(l.Dir, "runs", string(id)) }

// runsRoot is how runs of the repository around dir are found again: by the root of its checkout.
func (f *Factory) runsRoot(dir string) string { return repositoryRoot(dir) }

// Names in the folder of a run, as the runner lays it out.
const (
	dirWorkspace = "workspace"
	dirTree      = "tree"
)

func (l *Local) workspaceDir(id contract.RunID) string {
	return filepath.Join(l.runDir(id), dirWorkspace)
}

func (l *Local) treeDir(id contract.RunID) string {
	return filepath.Join(l.workspaceDir(id), dirTree)
}
