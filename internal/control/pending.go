package control

import (
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

var errPending = contract.Errorf(contract.KindUnavailable, "decision is not built yet")

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
