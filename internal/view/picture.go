package view

import (
	"encoding/json"

	"github.com/rivumi/rivumi/internal/contract"
)

// MaxLive bounds the text kept of a running tool call and of a streaming message, in bytes; the
// newest text is kept. The log has the rest.
const MaxLive = 64 << 10

// Picture is a run as far as its events tell. The zero value is a run nothing is known of.
type Picture struct {
	Header    Header
	State     contract.State
	Attempt   int
	Step      int
	MaxStep   int
	Limits    contract.Limits
	Items     []*Item             // the transcript, in order
	Approvals []contract.Approval // those that wait for a decision, oldest first
	Checks    []Check             // the last round
	Files     []contract.FileChange
	Usage     contract.Usage
	Waiting   Waiting
	WaitSince contract.Time // when that wait began
	Cancel    string        // why the end was asked for, "" when it was not
	CancelBy  string
	StartedAt contract.Time // of this attempt
	LastTime  contract.Time // of the newest event
	LastSeq   int64
	Gap       bool               // older events are gone
	Ended     *contract.RunEnded // set by the terminal event
	text      *Item              // the message that streams now
	calls     map[string]*Item   // tool calls by id
	asked     map[string]string  // approval id to call id
}

// Header is what the first line of a run tells.
type Header struct {
	ID          contract.RunID
	Name        string
	Instruction string
	Model       string
	Policy      contract.Policy
	Root        string
	BaseSHA     string
	Dirty       contract.DirtySummary
	Notes       []string
	Sandbox     string
	Network     string
	Ready       bool // the workspace is there, so the fields about it are known
}

// Waiting says what the run waits for.
type Waiting string

// The things a run waits for.
const (
	WaitNothing   Waiting = ""
	WaitOwner     Waiting = "a free worker"
	WaitWorkspace Waiting = "the worktree"
	WaitModel     Waiting = "the model"
	WaitRetry     Waiting = "a retry"
	WaitCommand   Waiting = "a command"
	WaitApproval  Waiting = "your approval"
	WaitCheck     Waiting = "a check"
	WaitCancel    Waiting = "the end"
)

// ItemKind says what a line of the transcript is.
type ItemKind string

// The kinds of items.
const (
	ItemUser      ItemKind = "user"      // the task or a message to the agent
	ItemText      ItemKind = "text"      // what the model said
	ItemReasoning ItemKind = "reasoning" // readable reasoning, where the provider sends it
	ItemTool      ItemKind = "tool"
	ItemCheck     ItemKind = "check"
	ItemNotice    ItemKind = "notice"
)

// Item is one entry of the transcript. Seq is the event that opened it, Rev the newest one that
// changed it: who draws an item need not draw it again while Rev stays.
type Item struct {
	Kind  ItemKind
	Seq   int64
	Rev   int64
	Msg   string // id of a message to the agent
	Queue bool   // the message waits for the agent's next step
	Step  int
	Text  string
	Level string // of a notice: info, warning, error
	Code  string // of a notice
	Live  bool   // text still comes, or the call still runs
	Cut   bool   // the start of Text was dropped
	Void  bool   // streamed text the model's broken answer took back
	Tool  *Tool
	Check *Check
}

// ToolState says where a tool call stands.
type ToolState string

// The states of a tool call.
const (
	ToolProposed    ToolState = "proposed"
	ToolAsking      ToolState = "waiting for approval"
	ToolRunning     ToolState = "running"
	ToolDone        ToolState = "done"
	ToolFailed      ToolState = "failed"
	ToolDenied      ToolState = "denied"
	ToolTimedOut    ToolState = "timed out"
	ToolInterrupted ToolState = "interrupted"
)

// Tool is one tool call.
type Tool struct {
	CallID    string
	Name      string
	Title     string // the command or the path, one line
	Arguments json.RawMessage
	State     ToolState
	Bad       string // why it must not run
	Output    string // while it runs: the newest output; then what it printed
	Stderr    string
	ExitCode  int
	Millis    int64
	StartedAt contract.Time
	Path      string
	Diff      string
	Plus      int
	Minus     int
	Left      int    // processes it left behind
	Artifact  string // the whole output, where it was cut
	Cut       int64  // bytes left out of the output
	Verdict   contract.Verdict
	DecidedBy string
	Note      string
}

// Ended reports whether nothing more comes of the call.
func (t *Tool) Ended() bool {
	return t.State != ToolProposed && t.State != ToolAsking && t.State != ToolRunning
}

// Check is one verification command.
type Check struct {
	contract.CheckResult
	Running bool
	Tail    string
}
