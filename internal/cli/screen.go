package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/tui"
	"github.com/rivumi/rivumi/internal/workspace"
)

// drawable reports whether a full screen can be drawn and is wanted: both ends are a terminal that can
// move its cursor, and nobody asked for lines.
func (f *Factory) drawable() bool {
	term := f.Getenv("TERM")
	accessible := f.Globals.Accessible || f.Getenv("ACCESSIBLE") != ""
	noisy := f.Globals.Debug && f.Globals.LogFile == "" // messages on stderr would be drawn over
	return f.IO.InTTY && f.IO.OutTTY && f.IO.ErrTTY && f.IO.InFile != nil && term != "" && term != "dumb" && f.Getenv("CI") == "" &&
		!accessible && !f.IO.Quiet && !noisy && f.Globals.Color != "never"
}

// stage is a full screen over the runs of this machine, with what its keys ask for.
type stage struct {
	f     *Factory
	runs  *Runs
	sigs  chan os.Signal
	quiet *Factory // says nothing while the screen is drawn

	mu    sync.Mutex
	owned []contract.RunID // runs that this process carries out
}

// newStage takes over signals until close.
func newStage(f *Factory) *stage {
	s := &stage{f: f, sigs: make(chan os.Signal, 8)}
	still := *f.IO
	still.Quiet, still.Out, still.Err = true, io.Discard, io.Discard
	still.InTTY, still.OutTTY, still.ErrTTY = false, false, false
	quiet := *f
	quiet.IO = &still
	s.quiet = &quiet
	signal.Notify(s.sigs, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return s
}

func (s *stage) close() { signal.Stop(s.sigs) }

// carries remembers a run as one of this process.
func (s *stage) carries(id contract.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owned = append(s.owned, id)
}

// options are what every screen has.
func (s *stage) options(policy contract.ApprovalPolicy) tui.Options {
	o := tui.Options{
		Runs: s.runs, Who: s.f.who(), In: s.f.IO.InFile, Out: s.f.IO.Out, Env: s.f.Environ, Signals: s.sigs, Now: s.f.Now, ASCII: !s.f.utf8(),
	}
	o.Actions = tui.Actions{
		Apply: s.apply, Files: s.files, Later: workspace.RunsLater, Editor: s.editor,
		Explain: func(a contract.Approval) []string {
			return strings.Split(strings.TrimRight(explain(a, policy), "\n"), "\n")
		},
	}
	if s.runs.Local != nil {
		o.Actions.Discard = func(ctx context.Context, r contract.Run) error {
			return s.quiet.discard(ctx, s.runs.Local, r, false)
		}
	}
	return o
}

// utf8 reports whether the locale has signs beyond ASCII. No locale at all is taken for one that
// has: it is usual in containers.
func (f *Factory) utf8() bool {
	locale := strings.ToLower(firstOf(f.Getenv("LC_ALL"), f.Getenv("LC_CTYPE"), f.Getenv("LANG")))
	return locale == "" || strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// apply is `rivumi apply`, with what it would print as its answer.
func (s *stage) apply(ctx context.Context, r contract.Run, how tui.Apply) (string, error) {
	var said bytes.Buffer
	say := *s.quiet.IO
	say.Out = &said
	f := *s.quiet
	f.IO = &say
	k, err := f.result(ctx, s.runs, string(r.ID))
	if err != nil {
		return "", hinted(err)
	}
	o := &applyOptions{Factory: &f, Commit: how.Commit, Branch: how.Branch, Paths: how.Paths, Unverified: how.Force}
	err = o.apply(ctx, k)
	if cerr := k.done(); err == nil {
		err = cerr
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, " | ") + " | rivumi undo " + short(r) + " takes it back", hinted(err)
}

// hinted puts the way out behind an error, as one line.
func hinted(err error) error {
	if err == nil {
		return nil
	}
	text, hint := describe(err)
	return errors.New(oneLine(text) + suffix(" | ", oneLine(hint)))
}

// most names and levels that completion walks through.
const (
	maxNames  = 20_000
	maxLevels = 12
)

// files lists names below the working folder, without what git keeps for itself.
func (s *stage) files(ctx context.Context) ([]string, error) {
	root, err := s.f.WorkDir()
	if err != nil {
		return nil, err
	}
	var out []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(root, path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil || rerr != nil:
			return nil // what cannot be read is not offered
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || strings.Count(rel, string(filepath.Separator)) > maxLevels):
			return fs.SkipDir
		case len(out) >= maxNames:
			return fs.SkipAll
		case !d.IsDir():
			out = append(out, filepath.ToSlash(rel))
		}
		return nil
	})
	return out, err
}

// attach shows one run of the machine, wherever it is carried out.
func (s *stage) attach(ctx context.Context, id contract.RunID, after int64) error {
	o := s.options(contract.ApprovalPolicy{})
	o.Run, o.After = id, after
	res, err := tui.Show(context.WithoutCancel(ctx), o) // signals come by s.sigs
	if err != nil {
		return err
	}
	return s.left(ctx, res)
}

// left tells on the normal screen how things stand with the run that was looked at.
func (s *stage) left(ctx context.Context, res tui.Result) error {
	s.draft(res)
	if res.Run == "" {
		return nil
	}
	r, err := s.runs.Run(context.WithoutCancel(ctx), res.Run)
	if contract.KindOf(err) == contract.KindRunNotFound {
		s.f.IO.Next("rivumi ps")
		return nil // it was discarded
	}
	if err != nil {
		return err
	}
	if r.Status.Terminal() {
		writeSummary(s.f.IO.Out, r, false)
		s.f.IO.Next(nextCommands(r)...)
		return ended(r.ExitCode())
	}
	s.f.IO.Note("left; run %s goes on", short(r))
	s.f.IO.Next("rivumi attach "+short(r), "rivumi cancel "+short(r))
	if res.Signal != nil {
		return &failure{contract.ExitTerminate, fmt.Errorf("ended by %s", res.Signal), "rivumi attach " + short(r) + " shows the run again"}
	}
	return nil
}

// draft gives back what was written and not sent.
func (s *stage) draft(res tui.Result) {
	if res.Draft != "" {
		s.f.IO.Note("your draft was not sent:\n%s", clean(res.Draft))
	}
}

// browse shows the list of runs.
func (s *stage) browse(ctx context.Context, filter contract.Filter) error {
	o := s.options(contract.ApprovalPolicy{})
	o.List, o.Filter = true, filter
	res, err := tui.Show(context.WithoutCancel(ctx), o) // signals come by s.sigs
	if err != nil {
		return err
	}
	if res.Run == "" {
		return nil
	}
	s.draft(res)
	s.f.IO.Next("rivumi show "+res.Run.Short(), "rivumi attach "+res.Run.Short())
	return nil
}

// inRepository reports whether the working folder is in a checkout.
func inRepository(f *Factory) bool {
	dir, err := f.WorkDir()
	return err == nil && repositoryRoot(dir) != ""
}
