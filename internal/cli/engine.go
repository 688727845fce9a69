package cli

import (
	"context"
	"errors"
)

var errNoModel = errors.New("no model is chosen")

func (f *Factory) openRuns(ctx context.Context) (*Runs, error) {
	return nil, errors.New("runs cannot be opened by this build")
}

// runsRoot is how runs of the repository around dir are found again.
func (f *Factory) runsRoot(dir string) string { return repositoryRoot(dir) }

func startRun(ctx context.Context, o *runOptions, p *planned) error {
	_, err := o.Runs(ctx)
	return err
}
