package control

import (
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// Effect is something the host does after the transaction has committed. The set is the types of
// this file; a host switches over them.
type Effect interface{ effect() }

// StartRun puts a queued run on the host's queue.
type StartRun struct{ Run contract.RunID }

// StopRun ends the run's attempt: asks it to stop where Kill is false, and kills it after the
// grace; with Kill its box, sockets and folders go at once.
type StopRun struct {
	Run    contract.RunID
	Kill   bool
	Reason string
}

// Notify wakes the followers of the run's log, and whoever waits for an approval or a message.
// LastSeq is 0 where the decision did not look it up.
type Notify struct {
	Run     contract.RunID
	LastSeq int64
}

// SetAlarm asks for a call of [Core.Alarm] at that moment; a later SetAlarm of the run replaces it.
type SetAlarm struct {
	Run contract.RunID
	At  time.Time
}

// ForwardModel sends a model request on. The host attaches the provider's key, forwards to its
// configured URL, follows no redirect, bounds the answer, and calls [Core.ModelReply] with the
// outcome, also when the call failed or the caller went away.
type ForwardModel struct {
	Run       contract.RunID
	Attempt   int
	CallID    string
	Wire      Wire
	Model     string
	Body      []byte // rewritten: bounded max_tokens, streaming as the profile allows
	Streaming bool
	MaxBytes  int64 // of the answer
}

// Stream answers with the run's events after a number: as SSE it replays and follows until the
// terminal event, as NDJSON it ends with what is stored now. Frames come from [Frame].
type Stream struct {
	Run       contract.RunID
	After     int64
	SSE       bool
	KeepAlive time.Duration // at most this long between two comments; one at once on open
}

// ServeArtifact answers with the bytes of an artifact; the headers of the response stand.
type ServeArtifact struct {
	Run      contract.RunID
	Artifact contract.Artifact
}

// StoreArtifact reads the request's body into an artifact, bounded, and then calls
// [Core.ArtifactStored] with what came.
type StoreArtifact struct {
	Run       contract.RunID
	Attempt   int
	Name      string
	MediaType string
	MaxBytes  int64
	SHA256    string // hex, "" where the sender gave none
}

// StoreUpload reads the request's body into an upload of the principal, bounded, and then answers
// with [Core.UploadStored].
type StoreUpload struct {
	ID        string
	Principal string
	MediaType string
	MaxBytes  int64
	SHA256    string
	Expires   time.Time
}

// FindUpload answers 204 when the principal has an upload of that digest, else 404; see
// [Core.UploadFound].
type FindUpload struct {
	Principal string
	SHA256    string
}

// ListRuns answers with a page of the principal's runs, newest first; see [Core.Listing].
type ListRuns struct {
	Principal string
	Filter    contract.Filter
	// The last run of the page before, "" for the first page: runs sort by time of creation, then id.
	Before     contract.RunID
	BeforeTime contract.Time
}

// AwaitApproval holds the request until the approval is decided or the wait is over, and then
// answers with [Core.Awaited].
type AwaitApproval struct {
	Run      contract.RunID
	Approval string
	Wait     time.Duration
}

// Forget removes what the host keeps of a deleted run outside its records: artifact bytes, index rows.
type Forget struct{ Run contract.RunID }

func (StartRun) effect()      {}
func (StopRun) effect()       {}
func (Notify) effect()        {}
func (SetAlarm) effect()      {}
func (ForwardModel) effect()  {}
func (Stream) effect()        {}
func (ServeArtifact) effect() {}
func (StoreArtifact) effect() {}
func (StoreUpload) effect()   {}
func (FindUpload) effect()    {}
func (ListRuns) effect()      {}
func (AwaitApproval) effect() {}
func (Forget) effect()        {}
