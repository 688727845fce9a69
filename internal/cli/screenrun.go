package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/tui"
)

// onScreen carries out a run while it is drawn. With nothing to begin, the first message starts one.
func (c *carried) onScreen(ctx context.Context) error {
	s := newStage(c.f)
	defer s.close()
	local, err := c.open(ctx)
	if err != nil {
		return err
	}
	s.runs = &Runs{Runs: local, Local: local}
	o := s.options(c.p.Task.Approval)
	o.Owned = true
	o.Actions.FollowUp = func(ctx context.Context, from contract.RunID, prompt string) (contract.Run, error) {
		r, err := local.Resume(ctx, from, prompt)
		s.carries(r.ID)
		return r, hinted(err)
	}
	if c.begin == nil {
		o.Actions.Start = func(ctx context.Context, prompt string) (contract.Run, error) {
			p, err := c.plan(ctx, s.quiet, prompt)
			if err != nil {
				return contract.Run{}, hinted(err)
			}
			r, err := p.start(ctx, local)
			s.carries(r.ID)
			return r, hinted(err)
		}
	} else {
		r, err := c.begin(ctx, local)
		if err != nil {
			return errors.Join(err, closeService(ctx, local))
		}
		s.carries(r.ID)
		o.Run = r.ID
	}
	res, err := tui.Show(ctx, o)
	if err == nil && res.Now {
		s.draft(res)
		return errLeave // the process ends now; what still runs ends with it and is found as interrupted
	}
	return c.afterScreen(ctx, s, local, res, err)
}

// afterScreen ends what this process still carries out, tells of it on the normal screen and closes
// the service. A screen that broke down is replaced by plain lines.
func (c *carried) afterScreen(ctx context.Context, s *stage, local *Local, res tui.Result, broken error) error {
	var err error
	last := res.Run
	for _, id := range s.owned {
		r, rerr := local.Run(ctx, id)
		if rerr != nil || r.Status.Terminal() {
			continue
		}
		last = id
		if broken != nil {
			c.f.IO.Warn("%v; going on with plain lines", broken)
			broken = nil
		} else {
			c.f.IO.Note("stopping run %s; the work so far is kept", short(r))
			err = errors.Join(err, local.Cancel(ctx, id, reasonOf(res)))
		}
		err = errors.Join(err, c.toTheEnd(ctx, local, r, res.Seq))
	}
	s.draft(res)
	err = errors.Join(err, broken)
	var r contract.Run
	if err == nil && slices.Contains(s.owned, last) {
		r, err = c.finish(ctx, local, contract.Run{ID: last})
		if contract.KindOf(err) == contract.KindRunNotFound {
			err = nil // it was discarded from the review
		}
	}
	if cerr := closeService(ctx, local); err == nil && cerr != nil {
		err = cerr
	}
	if err != nil || r.ID == "" {
		return err
	}
	return ended(r.ExitCode())
}

func reasonOf(res tui.Result) string {
	if res.Signal != nil {
		return contract.ReasonTerminated
	}
	return "left at the terminal"
}

// toTheEnd follows a run without a screen. Signals are handled as for a run of plain lines.
func (c *carried) toTheEnd(ctx context.Context, local *Local, r contract.Run, after int64) error {
	st := newStopper(ctx, c.f.IO)
	defer st.close()
	st.started(local, r.ID)
	p := newPrinter(c.f.IO)
	w := &watcher{f: c.f, runs: local, id: r.ID, policy: c.p.Task.Approval, asks: c.f.IO.Asks(), show: func(e contract.Event) error {
		p.event(e)
		return nil
	}}
	return w.follow(st.ctx, after)
}

// blank opens the screen without a run: the first message is the task.
func blank(ctx context.Context, flags *pflag.FlagSet, o *runOptions) error {
	c, err := o.Config()
	if err != nil {
		return err
	}
	if err := applyFlags(flags, c, o); err != nil {
		return err
	}
	carry := &carried{f: o.Factory, p: o.planned(c, contract.Task{}), asks: true}
	carry.plan = func(ctx context.Context, quiet *Factory, prompt string) (*planned, error) {
		inner := *o
		inner.Factory = quiet
		p, err := inner.plan(ctx, flags, []string{prompt})
		if err == nil {
			p.Task.Approval.Unattended = contract.UnattendedWait // a person is at the terminal
			err = checkRepository(ctx, p.Task.Repository)
		}
		return p, err
	}
	return carry.onScreen(ctx)
}
