// Package model speaks with language models: what is asked, what streams back, and what went
// wrong, whatever the provider. The adapters are in openai (Chat Completions) and anthropic
// (Messages); scripted plays fixture turns and recorded runs without any network. Retry, budget,
// record and redact are wrappers that have and are the same interface.
//
// The package starts no goroutine that outlives a call of Stream and holds no key longer than the
// adapter that was given it. Errors never carry request headers.
package model

import (
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Model is one configured model. Stream sends the request and yields chunks in the caller's
// goroutine until a chunk of kind End, which carries the whole turn, or until an error, which is
// always an *Error and the last thing yielded. Breaking out of the loop or cancelling ctx ends the
// request at once; a cancelled ctx yields an error that wraps context.Cause(ctx).
type Model interface {
	Stream(ctx context.Context, r Request) iter.Seq2[Chunk, error]
}

// Request is one model call. Messages are append-only over a run, so that prompt caches hold.
type Request struct {
	Model     string // the name the provider knows, without the provider's prefix
	System    string
	Messages  []Message
	Tools     []Tool
	MaxTokens int    // 0: the adapter's default
	Effort    string // low, medium, high; "" leaves the field out
	CacheKey  string // the run id, for providers with a prompt cache key
}

// Role says whose a message is.
type Role string

// The roles. Tool results are messages of RoleTool.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one turn of the history. An assistant message has Text, Calls and Reasoning; a tool
// message has Results, all those of the assistant message before it, in call order.
type Message struct {
	Role      Role
	Text      string
	Calls     []Call
	Results   []Result
	Reasoning []json.RawMessage // opaque provider blocks, sent back byte for byte
}

// Result answers one call.
type Result struct {
	CallID  string
	Text    string
	IsError bool
}

// Tool is one tool as the model is told of it.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of an object
}

// Call is a tool call of a finished turn. It may run only when Bad is empty: then the turn ended
// with a real end, no token limit cut it, and Arguments is one complete JSON object.
type Call struct {
	ID        string // never empty, unique within the turn
	Name      string
	Arguments json.RawMessage // a JSON object; for a bad call a JSON string of what came
	Bad       string          // why it must not run
	Extra     json.RawMessage // unknown fields of the call, sent back as they came
}

// Finish says why a turn ended, in the words of the Chat Completions wire.
type Finish string

// The finish reasons.
const (
	FinishStop    Finish = "stop"
	FinishCalls   Finish = "tool_calls"
	FinishLength  Finish = "length"
	FinishFilter  Finish = "content_filter"
	FinishRefusal Finish = "refusal"
	FinishPause   Finish = "pause"
)

// Usage is the tokens of one answer. Known is false when the provider sent no usage; the numbers
// are then 0 and mean nothing.
type Usage struct {
	Input      int64 // without what came from the cache
	Output     int64 // reasoning included
	CacheRead  int64
	CacheWrite int64
	Reasoning  int64
	Known      bool
}

// Turn is a whole answer.
type Turn struct {
	Text      string
	Reasoning []json.RawMessage
	Calls     []Call
	Finish    Finish
	Usage     Usage
	Model     string   // as the provider reported it
	Notes     []string // what the adapter mended, such as "duplicate call id"
}

// ChunkKind says what a chunk carries.
type ChunkKind int

// The kinds of chunks.
const (
	ChunkText      ChunkKind = iota + 1 // Text
	ChunkReasoning                      // Text: readable reasoning
	ChunkCall                           // Text: name of a tool call that began
	ChunkArguments                      // Text: a piece of a call's arguments, for display only
	ChunkRetry                          // Retry: an attempt failed before anything was emitted
	ChunkEnd                            // Turn; always the last
)

// Chunk is one piece of a streamed answer.
type Chunk struct {
	Kind  ChunkKind
	Text  string
	Retry *Retry
	Turn  *Turn
}

// Retry tells of a failed attempt and the wait before the next.
type Retry struct {
	Attempt int
	After   time.Duration
	Cause   *Error
}

// ErrorKind classifies a failed model call.
type ErrorKind string

// The kinds of model errors.
const (
	ErrTransport ErrorKind = "transport" // no answer: refused, reset, DNS, TLS
	ErrStatus    ErrorKind = "status"    // an HTTP status that is not 200, or an error object inside a 200
	ErrStream    ErrorKind = "stream"    // the provider reported an error inside the stream
	ErrTruncated ErrorKind = "truncated" // the stream ended without an end mark
	ErrEmpty     ErrorKind = "empty"     // a success without any content
	ErrProtocol  ErrorKind = "protocol"  // not the wire: HTML, broken JSON, an ambiguous stream
	ErrIdle      ErrorKind = "idle"      // one of the two idle clocks ran out
	ErrTooBig    ErrorKind = "too_big"   // an event or answer above its bound
	ErrContext   ErrorKind = "context"   // the prompt does not fit the model's context
	ErrCanceled  ErrorKind = "cancelled"
	ErrConfig    ErrorKind = "config" // a missing key or a base URL that cannot be used
	ErrBudget    ErrorKind = "budget"
)

// Error is a failed model call.
type Error struct {
	Kind       ErrorKind
	Status     int           // HTTP status, 0 where there was none
	Code       string        // the provider's own error code
	Message    string        // cleaned, at most 500 characters
	RetryAfter time.Duration // what the provider asked for, 0 for nothing
	Emitted    bool          // text or calls had been yielded before it
	Err        error
}
