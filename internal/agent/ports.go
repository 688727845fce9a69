package agent

import (
	"context"
	"io/fs"
	"iter"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

// Model is what the loop needs of a model; see [model.Model] for what holds.
type Model interface {
	Stream(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error]
}

// Sink is the run's log. Append is durable when it returns.
type Sink interface {
	Append(ctx context.Context, events ...contract.Event) error
}

// Gate asks a person. See [contract.Asker].
type Gate interface {
	Ask(ctx context.Context, a contract.Approval) (contract.Decision, error)
}

// Mailbox hands over follow-up and steering messages. See [contract.Mailbox].
type Mailbox interface {
	Take(ctx context.Context) ([]contract.Message, error)
}

// Judge says what a tool call needs before it runs. It is called in the loop's goroutine.
type Judge interface {
	// Command judges a shell script that would run in dir, a folder of the tree.
	Command(script, dir string) contract.Judgement
	// Write judges a change of one file by a file tool; outside says the path leaves the tree.
	Write(path string, outside bool) contract.Judgement
	// Grant widens the run by exactly the scope of a decision for the session.
	Grant(s contract.SessionScope)
}

// Files are the file tools' hands: every path is slash-separated and relative to the root of the
// tree, resolved beneath it, and a link that leaves it is an error (fs.ErrPermission in its chain).
type Files interface {
	Read(path string) ([]byte, fs.FileMode, error)
	// Write replaces or creates a file and its parent folders. The mode of an existing file is kept.
	Write(path string, data []byte) error
}
