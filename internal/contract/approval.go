package contract

// ApprovalKind says what kind of step over a line is asked for.
type ApprovalKind string

// The kinds of approvals.
const (
	ApproveCommand      ApprovalKind = "command"
	ApproveWrite        ApprovalKind = "write" // a file tool's change, where the policy asks for it
	ApproveWriteOutside ApprovalKind = "write_outside"
	ApproveNetwork      ApprovalKind = "network"
	ApproveCheck        ApprovalKind = "check"
)

// Approval asks a person before a tool call runs. What it shows is exactly what will run.
type Approval struct {
	ID           string       `json:"id"`
	CallID       string       `json:"callId"`
	Kind         ApprovalKind `json:"kind"`
	Title        string       `json:"title"`
	Command      Asked        `json:"command"`
	Reason       string       `json:"reason"`
	Risk         Risk         `json:"risk"`
	SessionScope SessionScope `json:"sessionScope"`
	RequestedAt  Time         `json:"requestedAt"`
	ExpiresAt    Time         `json:"expiresAt"`
	Decision     Verdict      `json:"decision,omitempty"`
	Note         string       `json:"note,omitempty"`
	DecidedBy    string       `json:"decidedBy,omitempty"`
	DecidedAt    *Time        `json:"decidedAt,omitempty"`
}

// Asked is what will run: an argv or a script in a folder, or a file change as a diff.
type Asked struct {
	Argv   []string `json:"argv,omitempty"`
	Script string   `json:"script,omitempty"`
	Cwd    string   `json:"cwd,omitempty"`
	Path   string   `json:"path,omitempty"`
	Diff   string   `json:"diff,omitempty"`
}

// Risk says how bad it could be and why.
type Risk struct {
	Level string   `json:"level"` // low, medium, high
	Why   []string `json:"why"`
}

// SessionScope is exactly what allow_session would cover: Pattern is a rule of the same grammar
// as the allow and deny rules, Explain says it in words. An empty Pattern offers no session.
type SessionScope struct {
	Pattern string `json:"pattern"`
	Explain string `json:"explain"`
}

// Verdict is the word of a decision.
type Verdict string

// The verdicts.
const (
	AllowOnce    Verdict = "allow_once"
	AllowSession Verdict = "allow_session"
	Deny         Verdict = "deny"
	CancelRun    Verdict = "cancel"
)

// Valid reports whether v is one of the closed set.
func (v Verdict) Valid() bool {
	return v == AllowOnce || v == AllowSession || v == Deny || v == CancelRun
}

// Allows reports whether the call may run.
func (v Verdict) Allows() bool { return v == AllowOnce || v == AllowSession }

// Decision answers an approval. The first one stored wins.
type Decision struct {
	Verdict Verdict `json:"decision"`
	Note    string  `json:"note,omitempty"`
	By      string  `json:"by,omitempty"` // a principal, or one of the By constants
	At      Time    `json:"at"`
}

// Who decides where no person did.
const (
	ByTimeout = "timeout" // nobody answered in time
	ByNobody  = "nobody"  // nobody could answer
	ByPolicy  = "policy"
)

// NoAnswer reports whether the decision stands for the absence of an answer.
func (d Decision) NoAnswer() bool { return d.By == ByTimeout || d.By == ByNobody }

// Action is what a policy says of a tool call.
type Action string

// The actions.
const (
	ActionAllow Action = "allow"
	ActionAsk   Action = "ask"
	ActionDeny  Action = "deny"
)

// Judgement is a policy's word on one tool call, with all that an approval needs to show.
type Judgement struct {
	Action   Action
	Kind     ApprovalKind
	Title    string
	Reason   string // why it asks or denies, in words
	Rule     string // the rule or policy that decided
	Risk     Risk
	Scope    SessionScope
	ReadOnly bool // every part of it only reads
}
