package agent

import (
	"context"
	"io"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/sandbox"
)

// Config is all that one attempt at a task needs. Model, Commander, Files, Sink, Gate and Judge must
// be set; the rest has a meaning when it is empty.
type Config struct {
	Run       contract.RunID // cache key of the model requests
	Task      contract.Task  // valid; instruction, allowed paths, checks, limits, effort and unattended are read
	Model     Model
	ModelName string // as the provider knows it
	Commander sandbox.Commander
	Files     Files
	Sink      Sink
	Gate      Gate
	Mailbox   Mailbox // nil: no messages
	Judge     Judge

	// StrictPaths holds file tools to [contract.CheckPath], as a control plane will; without it names that
	// a user may have in a tree of their own can be written, too.
	StrictPaths bool

	Tools []string // names of the tools the model gets; empty: all
	Env   []string // added to the environment of commands
	// Instructions end the system prompt as they are: AGENTS.md, skills, the user's SYSTEM.md, cut,
	// cleaned and marked as data by the caller.
	Instructions string
	// TreeNote is the listing and status of the tree at the start of the run, part of the first
	// message. It must be the same in every attempt, so that a resumed history is the one that was.
	TreeNote string

	ContextTokens int64 // tokens that fit into one request; 0: unknown
	MaxTokens     int   // of one answer; 0: the adapter's default
	// Price gives the cost in USD of one answer; ok is false for a model without a known price.
	Price func(u model.Usage) (usd float64, ok bool)

	// Check runs the checks of the task, round counting from 1, and appends their events itself, all
	// before it returns. Nil, or no results: there is nothing to check. An error ends the run.
	Check func(ctx context.Context, round int) ([]contract.CheckFinished, error)
	// Changed is called after the calls of a step that may have changed the tree. The events it gives
	// (diff.updated) are appended together with the last result of the step. Nil: not called.
	Changed func(ctx context.Context, step int) ([]contract.Event, error)
	// PutArtifact keeps whole outputs that were cut. Nil: they are lost, and the model is told.
	PutArtifact func(ctx context.Context, name, mediaType string, r io.Reader) (contract.Artifact, error)

	// History is the log of earlier attempts of this run; empty for a first one.
	History []contract.Event
	Now     func() time.Time // nil: time.Now
}

// End says how the loop ended.
type End string

// The ends.
const (
	EndFinished    End = "finished"    // the model says it is done, and no check failed
	EndChecks      End = "checks"      // it says so, but a check fails and nothing is left to try
	EndLimit       End = "limit"       // Failure.Code says which; Reason "loop" for a repeating agent
	EndModel       End = "model"       // the model cannot be asked any more
	EndCredentials End = "credentials" // the key is missing or was refused
	EndDenied      End = "denied"      // an approval nobody answered kept the run from succeeding
	EndCancelled   End = "cancelled"   // ctx ended, or a person answered an approval with cancel
	EndSandbox     End = "sandbox"     // the place commands run in is gone
)

// Result is what an attempt came to. Everything it did is in the log already.
type Result struct {
	End     End
	Failure *contract.Failure        // set unless End is EndFinished or EndCancelled
	Summary string                   // the model's last words
	Checks  []contract.CheckFinished // the last round, nil when none ran
	Usage   contract.Usage           // of all attempts of the run
	// Denied counts calls that a person or the policy denied, Unanswered those that nobody answered.
	Denied, Unanswered int
	// CancelledBy is who answered an approval with cancel, "" for another end.
	CancelledBy string
}
