package contract

import (
	"bytes"
	"encoding/json"
)

// Task is what is asked: the body of POST /v1/runs, the content of a task file, and
// what `rivumi run` builds from its flags. A Task is valid only after [Validate] with
// the profile of the place that runs it.
type Task struct {
	Instruction   string `json:"instruction"`    // 1 to 32 000 Unicode characters, kept as given
	Name          string `json:"name,omitempty"` // a handle for people, [a-z0-9-]{1,64}
	Model         string `json:"model,omitempty"`
	FallbackModel string `json:"fallbackModel,omitempty"`
	Effort        string `json:"effort,omitempty"` // low, medium, high; passed to models that know it

	// Exactly one source. Repository is for the local profile, the others for a control plane.
	Repository *Repository `json:"repository,omitempty"`
	Files      []File      `json:"files,omitempty"`
	Upload     *Upload     `json:"upload,omitempty"`
	Git        *GitSource  `json:"git,omitempty"`

	AllowedPaths []string          `json:"allowedPaths,omitempty"` // exact paths or dir/** ; ** alone where the profile allows it
	Checks       []Check           `json:"checks,omitempty"`
	Limits       Limits            `json:"limits"`
	Approval     ApprovalPolicy    `json:"approval"`
	Sandbox      Sandbox           `json:"sandbox"`
	Network      Network           `json:"network"`
	Labels       map[string]string `json:"labels,omitempty"` // at most 16

	// IdempotencyKey makes Start safe to repeat; it travels as the header of that name.
	IdempotencyKey string `json:"-"`
}

// Repository is a source on this machine.
type Repository struct {
	Path    string   `json:"path"`              // absolute path of the user's checkout, its root or a folder below it
	Base    string   `json:"base,omitempty"`    // a revision; empty is HEAD
	Dirty   Dirty    `json:"dirty,omitempty"`   // what becomes of uncommitted work; empty is include
	Include []string `json:"include,omitempty"` // globs of git-ignored files to copy in; never part of the patch
}

// Dirty says what becomes of the user's uncommitted work when a run starts.
type Dirty string

// The choices for uncommitted work.
const (
	DirtyInclude Dirty = "include" // carried into the run as its starting point
	DirtyExclude Dirty = "exclude" // left behind, and said so
	DirtyRefuse  Dirty = "refuse"  // the run is refused
)

// File is an inline source file; exactly one of Content and ContentBase64 is set.
type File struct {
	Path          string  `json:"path"`
	Content       *string `json:"content,omitempty"`
	ContentBase64 *string `json:"contentBase64,omitempty"`
	Executable    bool    `json:"executable,omitempty"`
}

// Upload names a finished upload of the same principal.
type Upload struct {
	ID string `json:"id"`
}

// GitSource is a repository the control plane fetches itself, from a host its operator listed.
type GitSource struct {
	URL string `json:"url"`
	Ref string `json:"ref"`
	SHA string `json:"sha,omitempty"`
}

// Check is a verification command, run by the runner without a shell.
type Check []string

// Limits bound a run. Zero means "not limited here" for the optional ones.
type Limits struct {
	MaxSteps         int     `json:"maxSteps"`
	WallTimeSeconds  int     `json:"wallTimeSeconds"`
	MaxModelRequests int     `json:"maxModelRequests,omitempty"` // 0: maxSteps + 2
	MaxOutputTokens  int64   `json:"maxOutputTokens,omitempty"`  // total of the run
	MaxCostUSD       float64 `json:"maxCostUsd,omitempty"`
}

// ModelRequests is how many model requests the run may make in all: the stated number, or
// maxSteps + 2 (api.md, Tokens).
func (l Limits) ModelRequests() int {
	if l.MaxModelRequests > 0 {
		return l.MaxModelRequests
	}
	return l.MaxSteps + 2
}

// Policy says which tool calls need an approval.
type Policy string

// The approval policies, strictest first.
const (
	PolicyDenyAll  Policy = "deny-all"  // whatever is not read-only is denied without asking
	PolicyReadOnly Policy = "read-only" // read-only commands run, everything else is denied without asking
	PolicyAsk      Policy = "ask"       // read-only runs, the rest asks
	PolicyEdits    Policy = "edits"     // file tools inside the allowed paths are free, the rest asks
	PolicyAllowAll Policy = "allow-all" // nothing asks; deny rules still hold
)

// Unattended says what an approval does when nobody can answer.
type Unattended string

// The choices for approvals nobody can answer.
const (
	UnattendedWait Unattended = "wait" // until the time-out decides deny
	UnattendedDeny Unattended = "deny" // denied at once, the model is told
	UnattendedStop Unattended = "stop" // the run ends as approval_denied
)

// ApprovalPolicy is how a run asks. Deny rules beat allow rules, whoever wrote them.
type ApprovalPolicy struct {
	Policy         Policy     `json:"policy"`
	TimeoutSeconds int        `json:"timeoutSeconds,omitempty"` // 0: 300
	Unattended     Unattended `json:"unattended,omitempty"`     // empty: wait
	Allow          []string   `json:"allow,omitempty"`          // rules such as shell(git status:*), edit(src/**)
	Deny           []string   `json:"deny,omitempty"`
}

// DefaultApprovalSeconds is how long an approval waits when the task does not say.
const DefaultApprovalSeconds = 300

// Timeout is how long an approval waits, in seconds.
func (a ApprovalPolicy) Timeout() int {
	if a.TimeoutSeconds > 0 {
		return a.TimeoutSeconds
	}
	return DefaultApprovalSeconds
}

// SandboxMode is the containment a task asks for.
type SandboxMode string

// The sandbox modes.
const (
	SandboxAuto      SandboxMode = "auto"            // the strongest tier this machine has
	SandboxReadOnly  SandboxMode = "read-only"       // the tree cannot be written by commands
	SandboxWorkspace SandboxMode = "workspace-write" // the tree is writable, nothing else
	SandboxDocker    SandboxMode = "docker"
	SandboxNone      SandboxMode = "none" // plain child processes; shown everywhere
)

// Sandbox is what a task asks of its containment. A tier weaker than MinTier fails closed.
type Sandbox struct {
	Mode    SandboxMode `json:"mode,omitempty"`    // empty: auto
	MinTier string      `json:"minTier,omitempty"` // L0, L1, L2, L3, docker, gvisor
	Image   string      `json:"image,omitempty"`
	AddDirs []string    `json:"addDirs,omitempty"` // extra folders, "dir" read-only or "dir:rw"
	Env     []string    `json:"env,omitempty"`     // names of the caller's variables that commands may see
	Tools   []string    `json:"tools,omitempty"`   // tool names; empty: all
}

// Network is "none" or a list of host names, as JSON a string or an array.
type Network struct {
	Hosts []string // empty: none
}

// MarshalJSON writes "none" or the list.
func (n Network) MarshalJSON() ([]byte, error) {
	if len(n.Hosts) == 0 {
		return []byte(`"none"`), nil
	}
	return json.Marshal(n.Hosts)
}

// UnmarshalJSON accepts "none" or a list of host names.
func (n *Network) UnmarshalJSON(b []byte) error {
	if string(bytes.TrimSpace(b)) == `"none"` {
		n.Hosts = nil
		return nil
	}
	var hosts []string
	if err := json.Unmarshal(b, &hosts); err != nil {
		return Errorf(KindInvalid, `network must be "none" or a list of host names`)
	}
	n.Hosts = hosts
	return nil
}
