package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/rivumi/rivumi/internal/contract"
)

// Options say what is shown and where. Runs, In and Out must be set; with neither Run, List nor
// Actions.Start there is nothing to show.
type Options struct {
	Runs contract.Runs
	Run  contract.RunID // the run that is opened first
	List bool           // open the list of runs first

	Filter contract.Filter // of the list
	Owned  bool            // the run ends with this process; else it goes on when the person leaves
	After  int64           // show what comes after this event
	Who    string          // the name that decisions carry

	In      io.Reader
	Out     io.Writer
	Env     []string         // for what the terminal can
	Signals <-chan os.Signal // handed over by the caller; nil for none
	Now     func() time.Time
	ASCII   bool // the locale is not UTF-8
	Actions Actions
	Extra   []tea.ProgramOption // for tests: colour profile, window size
}

// Actions are what a person can ask for that needs git, files or processes. A nil one is not
// offered. Those with a context are called by a command, outside of Update; one that changes files or
// starts a run is not cancelled when the person leaves, and is waited for.
type Actions struct {
	Start    func(ctx context.Context, prompt string) (contract.Run, error) // a new run
	FollowUp func(ctx context.Context, from contract.RunID, prompt string) (contract.Run, error)
	Apply    func(ctx context.Context, r contract.Run, how Apply) (said string, err error)
	Discard  func(ctx context.Context, r contract.Run) error
	Files    func(ctx context.Context) ([]string, error) // names for completion
	Explain  func(a contract.Approval) []string          // part by part why it asks; pure
	Later    func(path string) bool                      // whether other programs run that file later; pure
	Editor   func(draft string) Editor
}

// Apply is how a result is brought into the checkout.
type Apply struct {
	Paths  []string // only these, all when empty
	Commit bool
	Branch string // make a branch of the base and the changes instead
	Force  bool   // although it was not verified; asked for by name
}

// Editor is a process that edits a draft. It is run with the terminal given back.
type Editor interface {
	tea.ExecCommand
	// Text gives the draft after Run and removes what was written for it.
	Text() (string, error)
}

// Result is how the screen was left.
type Result struct {
	Run    contract.RunID // the run that was open, "" for none
	Seq    int64          // the newest event that was seen of it
	Now    bool           // leave at once, without waiting for the run
	Signal os.Signal      // that ended the screen, nil for a person's wish
	Draft  string         // what was written and not sent
}

// Show draws until the person leaves. The terminal is as before when it returns, also after a panic of
// the screen, which is an error of the result. It waits for all that it started.
func Show(ctx context.Context, o Options) (Result, error) {
	if o.Now == nil {
		return Result{}, errors.New("show runs: no clock")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, o)
	opts := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond),
	}
	if o.Env != nil {
		opts = append(opts, tea.WithEnvironment(o.Env))
	}
	_, err := tea.NewProgram(m, append(opts, o.Extra...)...).Run()
	cancel()
	m.close()
	if err != nil {
		return m.result, fmt.Errorf("show runs: %w", err)
	}
	return m.result, nil
}

// framesPerSecond caps redraws. It is also how often the library looks whether there is anything to
// draw, so a low number keeps an idle screen idle.
const framesPerSecond = 30
