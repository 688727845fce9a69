package contract

import (
	"context"
	"io"
	"iter"
)

// Starter starts runs.
type Starter interface {
	// Start stores the task as a queued run and returns at once. A refusal leaves nothing behind.
	Start(ctx context.Context, t Task) (Run, error)
}

// Watcher reads runs.
type Watcher interface {
	Run(ctx context.Context, id RunID) (Run, error)
	// Events replays the stored events with numbers above after, then follows the log until its
	// terminal event, in the caller's goroutine. Numbers have no gap; a log.gap event says so where
	// the oldest events are gone. It ends with an error only when it cannot go on.
	Events(ctx context.Context, id RunID, after int64) iter.Seq2[Event, error]
}

// Steerer changes what a run does.
type Steerer interface {
	// Decide answers an approval. The first decision wins: a different second one is KindApprovalDecided.
	Decide(ctx context.Context, id RunID, approval string, d Decision) error
	// Cancel asks for the end of the run; nil for a finished one.
	Cancel(ctx context.Context, id RunID, why string) error
	// Send queues a message for the agent's next step.
	Send(ctx context.Context, id RunID, text string) error
}

// Collector reads what a run left.
type Collector interface {
	Artifacts(ctx context.Context, id RunID) ([]Artifact, error)
	// Artifact opens one; the caller closes it.
	Artifact(ctx context.Context, id RunID, name string) (io.ReadCloser, error)
}

// Lister lists runs, newest first.
type Lister interface {
	List(ctx context.Context, f Filter) iter.Seq2[Run, error]
}

// Runs is all that a front end needs; the in-process service and the HTTP client both are one,
// and one suite runs every story over both.
type Runs interface {
	Starter
	Watcher
	Steerer
	Collector
	Lister
}

// Remover is the optional power to remove a finished run with its events and artifacts.
type Remover interface {
	Remove(ctx context.Context, id RunID) error
}

// Appender is the write end of a run's log, as its runner sees it.
type Appender interface {
	// Append stores the events durably, in order and all or none, before it returns.
	Append(ctx context.Context, events ...Event) error
}

// Asker puts a question to whoever watches the run.
type Asker interface {
	// Ask stores the approval, waits for its decision and returns it. The decision is durable before
	// Ask returns. A time-out is a decision (deny, by timeout), not an error; an error means that the
	// run is ending or its owner is gone.
	Ask(ctx context.Context, a Approval) (Decision, error)
}

// Mailbox hands over the messages sent to a run.
type Mailbox interface {
	// Take gives the messages queued since the last call, oldest first, and marks them taken. Their
	// message.user events are already in the log. It does not wait.
	Take(ctx context.Context) ([]Message, error)
}

// Depot takes the artifacts of a run.
type Depot interface {
	// PutArtifact stores r under name, replacing an older one, durable before it returns.
	PutArtifact(ctx context.Context, name, mediaType string, r io.Reader) (Artifact, error)
}

// Session is a run as its runner sees it, whoever owns the log.
type Session interface {
	Appender
	Asker
	Mailbox
	Depot
	// Log replays what is stored of this run, without following.
	Log(ctx context.Context) iter.Seq2[Event, error]
}
