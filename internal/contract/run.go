package contract

import "time"

// Run is one attempt at a task, as every front end sees it. It is a cache of its event log.
type Run struct {
	ID               RunID             `json:"id"`
	Name             string            `json:"name,omitempty"`
	Status           State             `json:"status"`
	Attempt          int               `json:"attempt"` // rises with each resume; 0 while queued for the first time
	CancelRequested  bool              `json:"cancelRequested"`
	Model            string            `json:"model"`
	Instruction      string            `json:"instruction"`
	Repository       string            `json:"repository,omitempty"` // root of the user's checkout, local runs only
	BaseSHA          string            `json:"baseSha,omitempty"`
	Sandbox          string            `json:"sandbox,omitempty"` // tier in force
	CreatedAt        Time              `json:"createdAt"`
	StartedAt        *Time             `json:"startedAt"`
	EndedAt          *Time             `json:"endedAt"`
	Limits           Limits            `json:"limits"`
	Usage            Usage             `json:"usage"`
	PendingApprovals int               `json:"pendingApprovals"`
	LastSeq          int64             `json:"lastSeq"`
	Result           *Result           `json:"result"`
	Error            *Failure          `json:"error"`
	Labels           map[string]string `json:"labels,omitempty"`
	URLs             *URLs             `json:"urls,omitempty"` // set by a server
}

// ExitCode is the exit code of a run that ended.
func (r Run) ExitCode() int { return ExitCode(r.Status, r.Error) }

// URLs are the addresses of a run's resources, absolute paths on its server.
type URLs struct {
	Self      string `json:"self"`
	Events    string `json:"events"`
	Approvals string `json:"approvals"`
	Cancel    string `json:"cancel"`
	Messages  string `json:"messages"`
	Artifacts string `json:"artifacts"`
}

// Usage counts what a run has used. CostUSD is nil while any price is unknown.
type Usage struct {
	Steps         int      `json:"steps"`
	ModelRequests int      `json:"modelRequests"`
	InputTokens   int64    `json:"inputTokens"`  // without cached ones
	OutputTokens  int64    `json:"outputTokens"` // reasoning included
	CachedTokens  int64    `json:"cachedTokens"`
	CostUSD       *float64 `json:"costUsd"`
	Unknown       bool     `json:"unknown,omitempty"` // at least one answer carried no usage
}

// Outcome of a completed run.
type Outcome string

// The outcomes.
const (
	OutcomeVerified   Outcome = "verified"   // at least one check, all passed
	OutcomeUnverified Outcome = "unverified" // no check was asked
	OutcomeNoChanges  Outcome = "no_changes"
)

// Result is what a run leaves besides its log. It is there for failed and cancelled runs too;
// Outcome is set for completed ones only.
type Result struct {
	Outcome             Outcome       `json:"outcome,omitempty"`
	Summary             string        `json:"summary"` // the model's last words: a claim, not evidence
	ChangedFiles        []FileChange  `json:"changedFiles"`
	Checks              []CheckResult `json:"checks"`
	ChecksInputsChanged []string      `json:"checksInputsChanged,omitempty"` // files that checks read and the agent changed
	LargeAdditions      []string      `json:"largeAdditions,omitempty"`      // added files that look like build products
	Patch               *PatchRef     `json:"patch,omitempty"`
	BaseSHA             string        `json:"baseSha"`
	BaseTree            string        `json:"baseTree,omitempty"` // tree the patch starts from: the base plus the overlay
	FinalTree           string        `json:"finalTree,omitempty"`
}

// PatchRef names the patch among the artifacts.
type PatchRef struct {
	Artifact string `json:"artifact"`
	SHA256   string `json:"sha256"`
	Bytes    int64  `json:"bytes"`
}

// FileChange is one changed file. Additions and Deletions count lines, -1 for a binary file.
type FileChange struct {
	Path      string `json:"path"`
	OldPath   string `json:"oldPath,omitempty"` // set for a rename, for display only
	Status    string `json:"status"`            // added, modified, deleted, renamed
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	Mode      string `json:"mode,omitempty"` // after the change: 100644, 100755, 120000
}

// CheckResult is one check as the runner saw it.
type CheckResult struct {
	Argv           Check  `json:"argv"`
	ExitCode       int    `json:"exitCode"`
	DurationMS     int64  `json:"durationMs"`
	Passed         bool   `json:"passed"`
	TimedOut       bool   `json:"timedOut,omitempty"`
	Phase          string `json:"phase"` // final, or feedback for a round whose failure went back to the model
	OutputArtifact string `json:"outputArtifact,omitempty"`
}

// Ending is how an attempt ended, as the executor reports it to the owner of the run.
type Ending struct {
	State  State
	Result *Result
	Error  *Failure
}

// Artifact is one named file of a bundle.
type Artifact struct {
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	CreatedAt Time   `json:"createdAt"`
}

// Names of the artifacts that every ended run has.
const (
	ArtifactPatch      = "patch.diff"
	ArtifactRejected   = "patch.rejected.diff"
	ArtifactResult     = "result.json"
	ArtifactEvents     = "events.ndjson"
	ArtifactTranscript = "transcript.json"
	ArtifactManifest   = "manifest.json"
)

// Filter chooses runs of a listing; the zero value takes all. Runs come newest first.
type Filter struct {
	States     []State
	Repository string // exact root
	Label      string // key:value
	Search     string // substring of id, name or instruction
	Limit      int    // 0: no limit
}

// Message is a follow-up or steering message for the agent.
type Message struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	At   Time   `json:"at"`
}

// Time is a moment on the wire: RFC 3339, UTC, milliseconds.
type Time struct{ time.Time }

// TimeLayout is how [Time] is written.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// At gives t as a wire time, cut to milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON writes the time in [TimeLayout].
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(TimeLayout) + `"`), nil
}

// UnmarshalJSON reads an RFC 3339 time.
func (t *Time) UnmarshalJSON(b []byte) error {
	if len(b) < 2 || b[0] != '"' {
		return Errorf(KindInvalid, "time must be an RFC 3339 string")
	}
	v, err := time.Parse(time.RFC3339Nano, string(b[1:len(b)-1]))
	if err != nil {
		return Errorf(KindInvalid, "time %q is not RFC 3339", string(b[1:len(b)-1]))
	}
	*t = At(v)
	return nil
}
