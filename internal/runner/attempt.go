package runner

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/policy"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/workspace"
)

// finishTime bounds what happens after the owner has ended the run: it must fit into the grace that
// the owner gives after a cancel or the wall time.
const finishTime = (contract.GraceSeconds - 1) * time.Second

// Names in the folder of a run.
const (
	dirWorkspace = "workspace"
	dirScratch   = "scratch"
	dirChecks    = "checks"
	dirReceipt   = "receipt"
	fileStart    = "start.json"
)

// attempt is one job on its way.
type attempt struct {
	c     Config
	j     Job
	log   *sink
	out   *bundle.Writer
	setup ModelSetup
	place Place

	began    time.Time
	ws       *workspace.Workspace
	session  sandbox.Session // nil until it is open
	receipt  sandbox.Receipt
	files    *workspace.Files
	start    start
	diff     diffWatch
	step     int           // the agent's, as its events tell
	rounds   []*checkRound // what the rounds of checks showed, the last one last
	result   agent.Result
	refused  int               // approvals that a person denied
	rejected bool              // the patch must not be applied
	noPatch  bool              // the tree could not be taken
	notices  []contract.Notice // what went wrong on the way and does not end the run
}

// Run carries out the job and says how it ended. It blocks until then; a cancelled ctx ends the agent,
// and Run comes back with the patch so far within the grace. All that it says is in the log and among the
// artifacts before it returns, but for the terminal event, which is the owner's to write.
func (r *Runner) Run(ctx context.Context, j Job) contract.Ending {
	a := &attempt{
		c: r.c, j: j, log: newSink(j.Session, r.c.Secrets), out: bundle.NewWriter(j.Session, r.c.Signer), began: r.c.Now(),
	}
	a.log.seen = a.watch
	err := protect(func() error { return a.walk(ctx) })
	cause := context.Cause(ctx)
	ctx, cancel := afterwards(ctx)
	defer cancel()
	return a.finish(ctx, err, cause)
}

// afterwards is the context of what happens when the agent has ended. It outlives ctx by finishTime, and
// has no other bound: a large patch of a good run may take its time.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	after, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, cancel) })
	return after, func() { stop(); cancel() }
}

// protect turns a panic of do into an error, so that what was done before it is still kept.
func protect(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{value: v, stack: string(debug.Stack())}
		}
	}()
	return do()
}

// walk goes from the source to the agent's end.
func (a *attempt) walk(ctx context.Context) (err error) {
	if a.setup, err = a.c.Model(ctx, a.j.Task); err != nil {
		return modelSetupFailed(err)
	}
	if a.place, err = a.c.Sandbox(ctx, a.j.Task); err != nil {
		return startFailed(err)
	}
	if err := a.prepare(ctx); err != nil {
		return err
	}
	c, err := a.agentConfig()
	if err != nil {
		return err
	}
	a.result, err = agent.Run(ctx, c)
	return err
}

func (a *attempt) agentConfig() (agent.Config, error) {
	t := a.j.Task
	judge, err := policy.New(policy.Config{
		Policy: t.Approval.Policy, Allow: t.Approval.Allow, Deny: t.Approval.Deny, AllowedPaths: t.AllowedPaths,
		Contained: a.receipt.Tier.AtLeast(sandbox.TierFull),
	})
	if err != nil {
		return agent.Config{}, fmt.Errorf("read the approval policy: %w", err)
	}
	return agent.Config{
		Run: a.j.Run.ID, Task: t, Model: a.model(), ModelName: a.setup.Name,
		Commander: a.session, Files: a.files, Sink: a.log, Gate: gate{a}, Mailbox: a.j.Session, Judge: judge,
		StrictPaths: a.c.StrictPaths, Tools: t.Sandbox.Tools, Instructions: a.start.Instructions, TreeNote: a.start.TreeNote,
		ContextTokens: a.setup.Context, MaxTokens: a.setup.MaxTokens, Price: a.setup.Price,
		Check: a.check, Changed: a.changed, PutArtifact: a.putArtifact,
		History: a.j.History, Now: a.c.Now,
	}, nil
}

// model puts what every run needs around the bare model: secrets out of requests, each attempt
// counted, failed ones tried again.
func (a *attempt) model() agent.Model {
	l := a.j.Task.Limits
	m := model.WithRedaction(a.setup.Model, a.c.Secrets)
	m = model.WithBudget(m, &model.Budget{MaxRequests: int64(l.ModelRequests()), MaxOutput: l.MaxOutputTokens})
	return model.WithRetry(m, a.c.Retry)
}

// folder gives a path in the run's folder.
func (a *attempt) folder(name string) string { return filepath.Join(a.j.Dir, name) }

// watch sees every event on its way to the log.
func (a *attempt) watch(e contract.Event) {
	switch e.Type {
	case contract.TypeToolStarted:
		p, ok := contract.As[contract.ToolStarted](e)
		a.diff.edited = a.diff.edited || ok && (p.Name == "edit" || p.Name == "write")
	case contract.TypeStepStarted:
		a.step = e.Step
	default:
	}
}

// left is how much of the wall time is left.
func (a *attempt) left() time.Duration {
	from := a.began
	if s := a.j.Run.StartedAt; s != nil && s.Before(from) {
		from = s.Time
	}
	return time.Duration(a.j.Task.Limits.WallTimeSeconds)*time.Second - a.c.Now().Sub(from)
}

// warn notes something a person should see. It is stored at once where the log still takes it.
func (a *attempt) warn(ctx context.Context, code, format string, args ...any) {
	n := contract.Notice{Level: "warning", Code: code, Text: oneLine(fmt.Sprintf(format, args...))}
	if err := a.log.Append(ctx, contract.NewEvent(0, n)); err != nil {
		a.notices = append(a.notices, n) // told with the end, where the log takes it by then
	}
}
