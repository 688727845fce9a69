package contract

import "encoding/json"

// The event types.
const (
	TypeRunQueued          EventType = "run.queued"
	TypeRunStarted         EventType = "run.started"
	TypeRunResumed         EventType = "run.resumed"
	TypeRunCancelRequested EventType = "run.cancel_requested"
	TypeRunCompleted       EventType = "run.completed"
	TypeRunFailed          EventType = "run.failed"
	TypeRunCancelled       EventType = "run.cancelled"
	TypeRunLateResult      EventType = "run.late_result"
	TypeWorkspaceReady     EventType = "workspace.ready"
	TypeStepStarted        EventType = "step.started"
	TypeModelDelta         EventType = "model.delta"
	TypeModelMessage       EventType = "model.message"
	TypeModelRetry         EventType = "model.retry"
	TypeModelDiscarded     EventType = "model.discarded"
	TypeToolStarted        EventType = "tool.started"
	TypeToolOutput         EventType = "tool.output"
	TypeToolResult         EventType = "tool.result"
	TypeApprovalRequested  EventType = "approval.requested"
	TypeApprovalDecided    EventType = "approval.decided"
	TypeApprovalClosed     EventType = "approval.closed"
	TypeDiffUpdated        EventType = "diff.updated"
	TypeCheckStarted       EventType = "check.started"
	TypeCheckResult        EventType = "check.result"
	TypeUsageUpdated       EventType = "usage.updated"
	TypeMessageUser        EventType = "message.user"
	TypeCompacted          EventType = "history.compacted"
	TypeNotice             EventType = "notice"
	TypeLogGap             EventType = "log.gap" // made by readers' servers, never stored
)

// RunQueued is the first event of a log; it names schema and program version.
type RunQueued struct {
	Schema  string `json:"schema"` // "rivumi-events/1"
	Version string `json:"version"`
	Task    Task   `json:"task"`
}

// RunStarted tells that an attempt has claimed the run.
type RunStarted struct {
	Attempt int    `json:"attempt"`
	Owner   string `json:"owner,omitempty"` // what carries the run out: a process or a host, never a secret
}

// RunResumed tells that an ended attempt goes on: after a crash, or with a follow-up.
type RunResumed struct {
	Attempt int    `json:"attempt"`
	From    RunID  `json:"from,omitempty"` // for a fork: the run it was made from
	Reason  string `json:"reason"`
}

// RunCancelRequested tells that somebody asked for the end of the run.
type RunCancelRequested struct {
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// RunEnded is the data of the three terminal events.
type RunEnded struct {
	State    State    `json:"state"`
	ExitCode int      `json:"exitCode"`
	Result   *Result  `json:"result"`
	Error    *Failure `json:"error"`
	Usage    Usage    `json:"usage"`
}

// RunLateResult keeps what a runner reported after the run had another end in sight.
type RunLateResult struct {
	State State  `json:"state"`
	Text  string `json:"text"`
}

// DirtySummary counts the user's uncommitted work.
type DirtySummary struct {
	Tracked   int `json:"tracked"`   // changed tracked files
	Untracked int `json:"untracked"` // untracked, not ignored files
	Included  int `json:"included"`  // how many of both are part of the run
}

// WorkspaceReady tells what the run starts from and what was left behind.
type WorkspaceReady struct {
	BaseSHA   string       `json:"baseSha"`
	BaseTree  string       `json:"baseTree"`
	Root      string       `json:"root"` // root of the user's checkout
	Dirty     DirtySummary `json:"dirty"`
	Notes     []string     `json:"notes"` // empty submodules, ignored files left behind, LFS pointers, sparse
	Sandbox   string       `json:"sandbox"`
	Network   string       `json:"network"`
	Way       string       `json:"way"` // worktree, overlay, unpacked
	ElapsedMS int64        `json:"elapsedMs"`
}

// StepStarted opens a step.
type StepStarted struct {
	Step     int      `json:"step"`
	Max      int      `json:"max"`
	Messages []string `json:"messages,omitempty"` // ids of the message.user events the model is told with this step
}

// ModelDelta is streamed text, coalesced. It may be dropped once the message stands.
type ModelDelta struct {
	Text      string `json:"text,omitempty"`
	Reasoning string `json:"reasoning,omitempty"`
}

// ToolCall is a call as the model asked for it. Bad says why it must not run, "" when it may.
type ToolCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a JSON object; for a bad call a JSON string of what came
	Bad       string          `json:"bad,omitempty"`
	Extra     json.RawMessage `json:"extra,omitempty"` // provider fields that must be sent back as they were
}

// ModelMessage is a whole turn of the model, written before any of its calls runs.
type ModelMessage struct {
	Text         string            `json:"text"`
	ToolCalls    []ToolCall        `json:"toolCalls"`
	Reasoning    []json.RawMessage `json:"reasoning,omitempty"` // opaque blocks, byte for byte
	FinishReason string            `json:"finishReason"`
	Usage        ModelUsage        `json:"usage"`
	Model        string            `json:"model"`
	Interrupted  bool              `json:"interrupted,omitempty"` // the stream broke; no call of it runs
}

// ModelUsage is the usage of one answer. Known is false when the provider sent none.
type ModelUsage struct {
	Input      int64 `json:"input"` // without cached tokens
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Reasoning  int64 `json:"reasoning"`
	Known      bool  `json:"known"`
}

// ModelRetry tells that a request failed and when the next attempt is.
type ModelRetry struct {
	Attempt   int     `json:"attempt"`
	InSeconds float64 `json:"inSeconds"`
	Reason    string  `json:"reason"`
}

// ModelDiscarded tells that the text streamed since the step began is void.
type ModelDiscarded struct {
	Reason string `json:"reason"`
}

// ToolStarted is durable before the call runs.
type ToolStarted struct {
	CallID    string          `json:"callId"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	PreHash   string          `json:"preHash,omitempty"` // file tools: SHA-256 of the file before
}

// ToolOutput is output while the call runs, coalesced.
type ToolOutput struct {
	CallID string `json:"callId"`
	Stream string `json:"stream"` // stdout or stderr
	Text   string `json:"text"`
}

// Truncated says how much of each stream was left out.
type Truncated struct {
	StdoutBytes int64 `json:"stdoutBytes"`
	StderrBytes int64 `json:"stderrBytes"`
}

// ToolResult answers a call. Exactly one is written for each.
type ToolResult struct {
	CallID        string    `json:"callId"`
	ExitCode      int       `json:"exitCode"`
	Stdout        string    `json:"stdout"`
	Stderr        string    `json:"stderr"`
	Text          string    `json:"text"` // exactly what the model was told
	Truncated     Truncated `json:"truncated"`
	DurationMS    int64     `json:"durationMs"`
	IsError       bool      `json:"isError"`
	TimedOut      bool      `json:"timedOut"`
	Interrupted   bool      `json:"interrupted"` // a crash or cancel stopped it; its effects are unknown
	Denied        bool      `json:"denied,omitempty"`
	LeftProcesses int       `json:"leftProcesses,omitempty"`
	Artifact      string    `json:"artifact,omitempty"` // the whole output, where it was cut
	Path          string    `json:"path,omitempty"`     // file tools: the file, and its change as a diff
	Diff          string    `json:"diff,omitempty"`
}

// ApprovalRequested asks.
type ApprovalRequested struct {
	Approval Approval `json:"approval"`
}

// ApprovalDecided answers.
type ApprovalDecided struct {
	ID       string   `json:"id"`
	Decision Decision `json:"decision"`
}

// ApprovalClosed tells that an answer is not needed any more: the run ended, or a grant for the session
// covers the call.
type ApprovalClosed struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// DiffUpdated tells which files differ from the start, after a step that changed some.
type DiffUpdated struct {
	Files    []FileChange `json:"files"`
	Artifact string       `json:"artifact,omitempty"`
}

// CheckStarted opens a check.
type CheckStarted struct {
	Argv  Check  `json:"argv"`
	Phase string `json:"phase"`
}

// CheckFinished ends a check.
type CheckFinished struct {
	CheckResult
	Tail string `json:"tail"` // last lines of its output
}

// UsageUpdated carries the totals of the run.
type UsageUpdated struct {
	Usage Usage `json:"usage"`
}

// MessageUser is a follow-up or steering message.
type MessageUser struct {
	Message
}

// Compacted tells that old history was shortened; resume rebuilds the history from it.
type Compacted struct {
	Kind    string `json:"kind"`               // elide or summary
	UpTo    int64  `json:"upTo"`               // events up to this number are covered; 0 where the writer knows steps only
	Step    int    `json:"upToStep,omitempty"` // the last step that is covered
	Summary string `json:"summary,omitempty"`
	Before  int64  `json:"beforeTokens"`
	After   int64  `json:"afterTokens"`
}

// Notice is something a person should see.
type Notice struct {
	Level string `json:"level"` // info, warning, error
	Code  string `json:"code"`  // stable machine word
	Text  string `json:"text"`
}

// LogGap tells a reader that its cursor is older than the oldest kept event.
type LogGap struct {
	FirstAvailableSeq int64 `json:"firstAvailableSeq"`
}

// EventType implements [Payload], as do the methods below.
func (RunQueued) EventType() EventType          { return TypeRunQueued }
func (RunStarted) EventType() EventType         { return TypeRunStarted }
func (RunResumed) EventType() EventType         { return TypeRunResumed }
func (RunCancelRequested) EventType() EventType { return TypeRunCancelRequested }
func (RunLateResult) EventType() EventType      { return TypeRunLateResult }
func (WorkspaceReady) EventType() EventType     { return TypeWorkspaceReady }
func (StepStarted) EventType() EventType        { return TypeStepStarted }
func (ModelDelta) EventType() EventType         { return TypeModelDelta }
func (ModelMessage) EventType() EventType       { return TypeModelMessage }
func (ModelRetry) EventType() EventType         { return TypeModelRetry }
func (ModelDiscarded) EventType() EventType     { return TypeModelDiscarded }
func (ToolStarted) EventType() EventType        { return TypeToolStarted }
func (ToolOutput) EventType() EventType         { return TypeToolOutput }
func (ToolResult) EventType() EventType         { return TypeToolResult }
func (ApprovalRequested) EventType() EventType  { return TypeApprovalRequested }
func (ApprovalDecided) EventType() EventType    { return TypeApprovalDecided }
func (ApprovalClosed) EventType() EventType     { return TypeApprovalClosed }
func (DiffUpdated) EventType() EventType        { return TypeDiffUpdated }
func (CheckStarted) EventType() EventType       { return TypeCheckStarted }
func (CheckFinished) EventType() EventType      { return TypeCheckResult }
func (UsageUpdated) EventType() EventType       { return TypeUsageUpdated }
func (MessageUser) EventType() EventType        { return TypeMessageUser }
func (Compacted) EventType() EventType          { return TypeCompacted }
func (Notice) EventType() EventType             { return TypeNotice }
func (LogGap) EventType() EventType             { return TypeLogGap }

// EventType gives the terminal type of the state the run ended in.
func (r RunEnded) EventType() EventType {
	switch r.State {
	case Completed:
		return TypeRunCompleted
	case Cancelled:
		return TypeRunCancelled
	case Queued, Running, Failed:
	}
	return TypeRunFailed
}

// EndedOf decodes the data of a terminal event.
func EndedOf(e Event) (RunEnded, bool) {
	var r RunEnded
	if !e.Ends() || json.Unmarshal(e.Data, &r) != nil {
		return RunEnded{}, false
	}
	return r, true
}
