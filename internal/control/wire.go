package control

import (
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/token"
)

// Request is one HTTP request as the core sees it. Header names are lower case, with the first
// value each. Principal is who the host's check of the API token found, "" for nobody; it means
// nothing on the internal routes, where the core checks the run token itself. Body is read by the
// host up to the bound that [Match] gives, and not at all where Match.Streams is true.
type Request struct {
	Method    string            `json:"method"`
	Path      string            `json:"path"`
	Query     string            `json:"query,omitempty"` // raw, without the question mark
	Header    map[string]string `json:"header,omitempty"`
	Body      []byte            `json:"body,omitempty"`
	Principal string            `json:"principal,omitempty"`
	ID        string            `json:"id,omitempty"` // X-Request-Id; the instance of problem documents
	// ChannelRun is the run that the channel itself says is calling (its own listener or egress
	// handler), "" where the channel cannot tell. Where set, a run token must agree with it.
	ChannelRun contract.RunID `json:"channelRun,omitempty"`
}

// Response is what the host answers, before or together with the effects. With a Status of 400 or
// more the host rolls back. With a [Stream] or [ServeArtifact] effect the headers stand and the
// effect writes the body. A Status of 0 means that an effect makes the whole answer.
type Response struct {
	Status int               `json:"status"`
	Header map[string]string `json:"header,omitempty"` // names in canonical case
	Body   []byte            `json:"body,omitempty"`
}

// Name names a route; it is stable, for metrics and the OpenAPI document.
type Name string

// The routes.
const (
	RouteCreate       Name = "createRun"
	RouteList         Name = "listRuns"
	RouteGet          Name = "getRun"
	RouteDelete       Name = "deleteRun"
	RouteEvents       Name = "readEvents"
	RouteApprovals    Name = "listApprovals"
	RouteDecide       Name = "decideApproval"
	RouteCancel       Name = "cancelRun"
	RouteSend         Name = "sendMessage"
	RouteArtifacts    Name = "listArtifacts"
	RouteArtifact     Name = "readArtifact"
	RouteUpload       Name = "createUpload"
	RouteUploadKnown  Name = "hasUpload"
	RouteChat         Name = "proxyChat"
	RouteMessages     Name = "proxyMessages"
	RouteAppend       Name = "appendEvents"
	RouteReadLog      Name = "readOwnLog"
	RoutePutArtifact  Name = "putArtifact"
	RouteResult       Name = "reportResult"
	RouteHeartbeat    Name = "heartbeat"
	RouteAsk          Name = "askApproval"
	RouteAwaitDecided Name = "awaitApproval"
)

// Match says what a request is for, before any record is opened.
type Match struct {
	Route     Name
	Run       contract.RunID // whose records Handle needs; "" for routes without a run: Handle then takes a nil Tx
	Param     string         // the last path parameter: approval id, artifact name, digest
	BodyBytes int64          // bound of the body while reading; 0: no body is read
	Streams   bool           // the body goes to a Store effect, not into Request.Body
	Writes    bool           // Handle may write; a host may use a read transaction where it is false
}

// RouteInfo is one line of the route table.
type RouteInfo struct {
	Name     Name
	Method   string
	Pattern  string         // segments in braces are parameters
	Audience token.Audience // of the run token; "" for routes that take an API token
	Summary  string
}

// Batch is the body of POST /internal/v1/runs/{id}/events.
type Batch struct {
	FirstClientSeq int64            `json:"firstClientSeq"` // counts from 1 within an attempt
	Events         []contract.Event `json:"events"`         // type, step and data count; the rest is the owner's
}

// Appended answers a Batch.
type Appended struct {
	NextClientSeq   int64 `json:"nextClientSeq"`
	LastSeq         int64 `json:"lastSeq"`
	CancelRequested bool  `json:"cancelRequested"`
}

// ApprovalList is the body of GET /v1/runs/{id}/approvals.
type ApprovalList struct {
	Pending []contract.Approval `json:"pending"`
	Decided []contract.Approval `json:"decided"`
}

// Pulse answers a heartbeat.
type Pulse struct {
	CancelRequested bool               `json:"cancelRequested"`
	Reason          string             `json:"reason,omitempty"` // of the cancel
	Messages        []contract.Message `json:"messages"`
	LeaseUntil      contract.Time      `json:"leaseUntil"`
}

// Report is the body of POST /internal/v1/runs/{id}/result.
type Report struct {
	RunID    contract.RunID    `json:"runId"`
	State    contract.State    `json:"state"`
	ExitCode int               `json:"exitCode"`
	Result   *contract.Result  `json:"result"`
	Error    *contract.Failure `json:"error"`
}

// Wire is a provider protocol of the model routes.
type Wire string

// The wires.
const (
	WireChat     Wire = "chat"     // POST /internal/v1/chat/completions
	WireMessages Wire = "messages" // POST /internal/v1/messages
)
