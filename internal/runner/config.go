package runner

import (
	"context"
	"time"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/sandbox"
)

// Config is what a runner needs of the process it is in. It is shared by all runs.
type Config struct {
	// Sandbox opens the place the agent works in and, anew for each round, the place checks run in.
	Sandbox sandbox.Opener
	// Model finds the model of a task. It is called once a run, before anything is made on disk; an
	// *model.Error of kind ErrConfig ends the run as model_credentials.
	Model func(ctx context.Context, t contract.Task) (ModelSetup, error)
	// Signer signs manifests.
	Signer *bundle.Signer
	// SystemFile is the user's own SYSTEM.md; "" or a missing file adds nothing.
	SystemFile string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// ModelSetup is the model of one run.
type ModelSetup struct {
	Model     agent.Model
	Name      string // as the provider knows it
	Context   int64  // tokens that fit into one request; 0: unknown
	MaxTokens int    // of one answer; 0: the adapter's default
	// Price gives the cost in USD of one answer; ok is false for a model without a known price. Nil
	// knows no price.
	Price func(u model.Usage) (usd float64, ok bool)
}

// Job is one attempt at a run.
type Job struct {
	Run     contract.Run
	Task    contract.Task
	Session contract.Session
	Dir     string // folder of this run, 0700, exists; an earlier attempt's workspace may be in it
	// History is the log of the earlier attempts of this run, empty for a first one. The agent goes on
	// from it, on the tree as they left it.
	History []contract.Event
}

// Runner carries out runs. It holds no state of a run and is safe for concurrent use.
type Runner struct{ c Config }

// New makes a runner.
func New(c Config) *Runner {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Runner{c: c}
}
