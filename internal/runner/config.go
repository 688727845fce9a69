package runner

import (
	"context"
	"io"
	"time"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/redact"
	"github.com/rivumi/rivumi/internal/sandbox"
)

// Config is what a runner needs of the process it is in. It is shared by all runs.
type Config struct {
	// Sandbox finds the opener of the place a task asks for: for the agent and, anew for each round, for
	// the checks. It is called once a run; an error ends the run as sandbox_start_failed.
	Sandbox func(ctx context.Context, t contract.Task) (Place, error)
	// Model finds the model of a task. It is called once a run, before anything is made on disk; a
	// *model.Error with Credentials ends the run as model_credentials.
	Model func(ctx context.Context, t contract.Task) (ModelSetup, error)
	// Signer signs manifests.
	Signer *bundle.Signer
	// Secrets are hidden in events, artifacts, approvals and model requests. Nil hides nothing.
	Secrets *redact.Set
	// StrictPaths refuses names of files that the server and edge profiles would not take, as soon as the
	// agent writes one.
	StrictPaths bool
	// SystemFile is the user's own SYSTEM.md; "" or a missing file adds nothing.
	SystemFile string
	// CacheDir is where base trees are kept for overlays, shared by all runs; "" makes none.
	CacheDir string
	// Causes are the causes with which the owner cancels the context of a run.
	Causes Causes
	// Retry sets the waits between attempts of a model call; zero is the default.
	Retry model.RetryOptions
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// ModelSetup is the model of one run.
type ModelSetup struct {
	Model     agent.Model // bare: retry, budget and redaction are put around it here
	Name      string      // as the provider knows it
	Context   int64       // tokens that fit into one request; 0: unknown
	MaxTokens int         // of one answer; 0: the adapter's default
	// Price gives the cost in USD of one answer; ok is false for a model without a known price. Nil
	// knows no price.
	Price func(u model.Usage) (usd float64, ok bool)
}

// Place is where the commands of one run are carried out.
type Place struct {
	Opener sandbox.Opener
	// Overlay says that the opener can mount overlays. Where it then cannot after all, the run falls
	// back to a plain worktree.
	Overlay bool
}

// Job is one attempt at a run.
type Job struct {
	Run     contract.Run
	Task    contract.Task
	Session contract.Session
	Dir     string // folder of this run, 0700, exists
	// History is the log of the run that this one goes on from, empty for a first one. The agent goes on
	// from it, on the tree as that run left it.
	History []contract.Event
	// Prior is the folder of that run, whose workspace is gone on with.
	Prior string
	// PriorPatch opens that run's patch. It is asked for only where the workspace is gone; nil fails then.
	PriorPatch func(ctx context.Context) (io.ReadCloser, error)
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
