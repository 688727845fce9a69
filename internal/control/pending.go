package control

import (
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

var errPending = contract.Errorf(contract.KindUnavailable, "decision is not built yet")

// Create stores a task as a queued run with its first event, under the id of RunIDFor(env,
// principal, task.IdempotencyKey). A repeated key with the same task gives the run that stands,
// with another task KindIdempotencyConflict.
func (c *Core) Create(tx Tx, env Env, principal string, task contract.Task) (contract.Run, error) {
	return contract.Run{}, errPending
}

// Claim moves a queued run to running for one owner and starts the next attempt (Run.Attempt).
func (c *Core) Claim(tx Tx, env Env, owner string, lease time.Duration) (contract.Run, error) {
	return contract.Run{}, errPending
}

// Renew extends the lease of an attempt and says whether a cancel was asked for. Messages is empty.
func (c *Core) Renew(tx Tx, env Env, attempt int, lease time.Duration) (Pulse, error) {
	return Pulse{}, errPending
}

// Append stores events of the runner and gives their stored lines.
func (c *Core) Append(tx Tx, env Env, attempt int, events ...contract.Event) ([][]byte, error) {
	return nil, errPending
}

// AppendClient is Append for a remote runner that may repeat a batch.
func (c *Core) AppendClient(tx Tx, env Env, attempt int, b Batch) (Appended, error) {
	return Appended{}, errPending
}

// Ask stores an approval and its event. The returned approval carries the id, and the decision
// where the task says that nobody can answer.
func (c *Core) Ask(tx Tx, env Env, attempt int, a contract.Approval) (contract.Approval, error) {
	return contract.Approval{}, errPending
}

// Decide answers an approval; with an error of KindApprovalDecided the standing approval is returned too.
func (c *Core) Decide(tx Tx, env Env, id string, d contract.Decision) (contract.Approval, error) {
	return contract.Approval{}, errPending
}

// Due says when the run needs another look.
type Due struct {
	At      time.Time // zero: never
	Expired int       // approvals denied by this call
}

// Expire denies the approvals whose time is over and says when the next one is due.
func (c *Core) Expire(tx Tx, env Env) (Due, error) { return Due{}, errPending }

// ApprovalOf gives one approval.
func (c *Core) ApprovalOf(tx Tx, id string) (contract.Approval, error) {
	return contract.Approval{}, errPending
}

// Approvals gives all approvals, oldest first.
func (c *Core) Approvals(tx Tx) (ApprovalList, error) { return ApprovalList{}, errPending }

// Cancel asks for the end of the run.
func (c *Core) Cancel(tx Tx, env Env, by, reason string) (contract.Run, error) {
	return contract.Run{}, errPending
}

// Send stores a message for the agent's next step and its event.
func (c *Core) Send(tx Tx, env Env, text string) (contract.Message, error) {
	return contract.Message{}, errPending
}

// TakeMessages hands over the messages queued since the last call, oldest first.
func (c *Core) TakeMessages(tx Tx, env Env, attempt int) ([]contract.Message, error) {
	return nil, errPending
}

// Grant is the model capability of an attempt. Zero values come from the task's limits.
type Grant struct {
	Model     string
	ExpiresAt time.Time // zero: wall time + 80 s from now
}

// Activate opens the run's model capability, once an attempt.
func (c *Core) Activate(tx Tx, env Env, attempt int, g Grant) error { return errPending }

// Call asks to spend one model request.
type Call struct {
	ID          string // repeats with a retry of the same call
	Model       string
	MaxTokens   int   // most output the call may produce
	PromptBytes int64 // size of the request, the upper bound of what its input costs
}

// Reservation is one model request that may be made, or the answer that stands for it.
type Reservation struct {
	CallID    string
	MaxTokens int    // clamped to what is left
	Remaining int    // requests left after this one
	Repeated  bool   // the call was settled before: Answer is its answer
	Answer    []byte // nil where it was too big to keep
}

// Reserve spends one model request before it is made. A call that is never settled counts as spent.
func (c *Core) Reserve(tx Tx, env Env, attempt int, call Call) (Reservation, error) {
	return Reservation{}, errPending
}

// Settle replaces what Reserve took for a call by what it really used, and keeps the answer.
func (c *Core) Settle(tx Tx, env Env, callID string, u contract.ModelUsage, answer []byte) error {
	return errPending
}

// Revoke closes the capability for good. It is nil when there is none.
func (c *Core) Revoke(tx Tx, env Env) error { return errPending }

// Finish ends a running attempt with its one terminal event.
func (c *Core) Finish(tx Tx, env Env, attempt int, e contract.Ending) (contract.Run, error) {
	return contract.Run{}, errPending
}

// Interrupt ends a running run whose owner's lease is over as failed: interrupted.
func (c *Core) Interrupt(tx Tx, env Env) (contract.Run, error) { return contract.Run{}, errPending }

// Origin is an ended run that another one goes on from.
type Origin struct {
	Run       contract.Run
	Task      contract.Task
	Principal string
}

// Resumable gives what Resume needs of an ended run; a run that has not ended is KindRunNotFinished.
func (c *Core) Resumable(tx Tx) (Origin, error) { return Origin{}, errPending }

// Resume stores a new queued run that goes on from an ended one, under the id of RunIDFor(env, "", "").
func (c *Core) Resume(tx Tx, env Env, from Origin, prompt string) (contract.Run, error) {
	return contract.Run{}, errPending
}

// Delete removes every record of an ended run.
func (c *Core) Delete(tx Tx) error { return errPending }

// Read gives the run as it stands.
func (c *Core) Read(tx Tx) (contract.Run, error) { return contract.Run{}, errPending }

// Status is what a host needs to know of a run besides the Run.
type Status struct {
	Principal  string
	Owner      string
	LeaseUntil time.Time            // zero while not running
	StopReason contract.FailureCode // the run must end with this, "" for nothing
}

// StatusOf gives owner, lease and principal.
func (c *Core) StatusOf(tx Tx) (Status, error) { return Status{}, errPending }

// Events gives up to limit stored lines after a number, oldest first, without line breaks.
func (c *Core) Events(tx Tx, after int64, limit int) ([][]byte, error) { return nil, errPending }

// Task gives the task as it was asked.
func (c *Core) Task(tx Tx) (contract.Task, error) { return contract.Task{}, errPending }

// PutArtifact records an artifact whose bytes the host has stored durably.
func (c *Core) PutArtifact(tx Tx, env Env, attempt int, a contract.Artifact) (contract.Artifact, error) {
	return a, errPending
}

// Artifacts lists the artifacts by name.
func (c *Core) Artifacts(tx Tx) ([]contract.Artifact, error) { return nil, errPending }

// Artifact gives one artifact's record.
func (c *Core) Artifact(tx Tx, name string) (contract.Artifact, error) {
	return contract.Artifact{}, errPending
}

// Alarm does what is due: expires approvals, ends a run whose lease or wall time is over.
func (c *Core) Alarm(tx Tx, env Env) ([]Effect, error) { return nil, errPending }

// RunExited tells that the box of an attempt has ended without a result having been reported.
func (c *Core) RunExited(tx Tx, env Env, attempt int, f contract.Failure) ([]Effect, error) {
	return nil, errPending
}

// Routes is the route table.
func Routes() []RouteInfo { return nil }

// Route says what a request is for. It checks ids and tokens, and touches no record.
func (c *Core) Route(env Env, r Request) (Match, error) { return Match{}, errPending }

// Handle decides one request over the records of the run that Route named, with the same env.
func (c *Core) Handle(tx Tx, env Env, r Request) (Response, []Effect) {
	return Response{Status: 503}, nil
}

// Refuse is the problem document of an error, for a host's own refusals and those of Route.
func Refuse(err error, requestID string) Response { return Response{Status: 503} }

// Outcome is how a forwarded model call ended.
type Outcome struct {
	CallID string
	Usage  contract.ModelUsage
	Answer []byte // the whole body, nil when it should not be kept
}

// ModelReply settles a forwarded call.
func (c *Core) ModelReply(tx Tx, env Env, o Outcome) error { return errPending }

// ArtifactStored records a stored artifact and answers its sender.
func (c *Core) ArtifactStored(tx Tx, env Env, s StoreArtifact, a contract.Artifact) (Response, []Effect) {
	return Response{Status: 503}, nil
}

// UploadStored answers the sender of an upload.
func (c *Core) UploadStored(s StoreUpload, bytes int64, sha256 string) Response {
	return Response{Status: 503}
}

// UploadFound answers a FindUpload.
func (c *Core) UploadFound(found bool, requestID string) Response { return Response{Status: 503} }

// Listing renders a page of runs; more says that older ones follow.
func (c *Core) Listing(runs []contract.Run, more bool) Response { return Response{Status: 503} }

// Awaited answers an AwaitApproval with what stands now.
func (c *Core) Awaited(tx Tx, w AwaitApproval, requestID string) Response {
	return Response{Status: 503}
}

// Frame is the SSE frame of a stored line.
func Frame(line []byte) []byte { return nil }

// Tokens mints the three run tokens of an attempt, by audience name.
func (c *Core) Tokens(env Env, run contract.Run, life time.Duration) (map[string]string, error) {
	return nil, errPending
}
