package contract

import (
	"errors"
	"fmt"
	"strings"
)

// Kind classifies an error. The set is closed; its text is the stable machine word
// on the wire (`code` of an RFC 9457 problem document). Callers branch on kinds,
// never on texts.
type Kind string

// The kinds. [Kind.Status] gives each its HTTP status.
const (
	KindInvalid             Kind = "invalid_request"
	KindUnknownField        Kind = "unknown_field"
	KindBadCursor           Kind = "bad_cursor"
	KindCursorAhead         Kind = "cursor_ahead"
	KindUnauthorized        Kind = "unauthorized"
	KindInactiveToken       Kind = "inactive_run_token"
	KindForbidden           Kind = "forbidden"
	KindRunNotFound         Kind = "run_not_found"
	KindNotFound            Kind = "not_found"
	KindMethodNotAllowed    Kind = "method_not_allowed"
	KindConflict            Kind = "conflict"
	KindRunFinished         Kind = "run_finished"
	KindRunNotFinished      Kind = "run_not_finished"
	KindIdempotencyConflict Kind = "idempotency_conflict"
	KindApprovalDecided     Kind = "approval_decided"
	KindClientSeqGap        Kind = "client_seq_gap"
	KindFenced              Kind = "fenced"
	KindTooLarge            Kind = "body_too_large"
	KindUploadTooLarge      Kind = "upload_too_large"
	KindUnsupportedMedia    Kind = "unsupported_media_type"
	KindRange               Kind = "range_not_satisfiable"
	KindTooManyRequests     Kind = "too_many_requests"
	KindBudgetExhausted     Kind = "model_request_budget_exhausted"
	KindTokensExhausted     Kind = "token_budget_exhausted"
	KindCostExhausted       Kind = "cost_budget_exhausted"
	KindUnavailable         Kind = "unavailable"
	KindUpstream            Kind = "upstream_error"
	KindInternal            Kind = "internal"
)

var statuses = map[Kind]int{
	KindInvalid: 400, KindUnknownField: 400, KindBadCursor: 400, KindCursorAhead: 400,
	KindUnauthorized: 401, KindInactiveToken: 401, KindForbidden: 403,
	KindRunNotFound: 404, KindNotFound: 404, KindMethodNotAllowed: 405,
	KindConflict: 409, KindRunFinished: 409, KindRunNotFinished: 409, KindIdempotencyConflict: 409,
	KindApprovalDecided: 409, KindClientSeqGap: 409, KindFenced: 409,
	KindTooLarge: 413, KindUploadTooLarge: 413, KindUnsupportedMedia: 415, KindRange: 416,
	KindTooManyRequests: 429, KindBudgetExhausted: 429, KindTokensExhausted: 429, KindCostExhausted: 429,
	KindUnavailable: 503, KindUpstream: 502, KindInternal: 500,
}

// Status is the kind's HTTP status; 500 for a kind outside the closed set.
func (k Kind) Status() int {
	if s, ok := statuses[k]; ok {
		return s
	}
	return 500
}

// Refusal is one broken rule of one field of a request.
type Refusal struct {
	Field  string `json:"field"`  // path into the request, such as files[3].path
	Code   string `json:"code"`   // stable machine word of the rule
	Detail string `json:"detail"` // the rule in words; never a secret, never a host path
}

// MaxRefusals is how many refusals one answer carries at most.
const MaxRefusals = 20

// Error is an error with a kind. Refusals is filled for KindInvalid only.
type Error struct {
	Kind     Kind
	Message  string
	Refusals []Refusal
	Next     int64 // for KindClientSeqGap: the client sequence expected next
	cause    error
}

// Errorf makes an [Error]. A %w verb is honoured, so the cause stays visible to errors.Is.
func Errorf(kind Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: kind, Message: err.Error(), cause: errors.Unwrap(err)}
}

// Refuse makes one KindInvalid error out of all refusals of a request, or nil when there are none.
func Refuse(refusals []Refusal) error {
	if len(refusals) == 0 {
		return nil
	}
	if len(refusals) > MaxRefusals {
		refusals = refusals[:MaxRefusals]
	}
	kind := KindInvalid
	texts := make([]string, len(refusals))
	allUnknown := true
	for i, r := range refusals {
		texts[i] = r.Field + ": " + r.Detail
		allUnknown = allUnknown && r.Code == string(KindUnknownField)
	}
	if allUnknown {
		kind = KindUnknownField
	}
	return &Error{Kind: kind, Message: strings.Join(texts, "; "), Refusals: refusals}
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause, nil where there is none.
func (e *Error) Unwrap() error { return e.cause }

// Is matches another *Error of the same kind, so that errors.Is(err, &Error{Kind: k}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Message == ""
}

// KindOf gives an error's kind: KindInternal for one without a kind, "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindInternal
}

// Problem is the wire form of an error, RFC 9457 `application/problem+json`.
type Problem struct {
	Type     string    `json:"type"`
	Title    string    `json:"title"`
	Status   int       `json:"status"`
	Code     Kind      `json:"code"`
	Detail   string    `json:"detail,omitempty"`
	Instance string    `json:"instance,omitempty"`
	Errors   []Refusal `json:"errors,omitempty"`
	Next     int64     `json:"next,omitempty"`
}

// ProblemType is the media type of [Problem].
const ProblemType = "application/problem+json"

// ProblemOf turns an error into its wire form. The text of an error without a kind
// is not shown; the caller logs it and gives the request id as the instance.
func ProblemOf(err error, instance string) Problem {
	kind := KindOf(err)
	p := Problem{
		Type: "about:blank", Title: strings.ReplaceAll(string(kind), "_", " "),
		Status: kind.Status(), Code: kind, Instance: instance,
	}
	if e, ok := errors.AsType[*Error](err); ok && kind != KindInternal {
		p.Detail, p.Errors, p.Next = e.Message, e.Refusals, e.Next
	} else {
		p.Detail = "internal error"
	}
	return p
}

// Err turns a problem document back into the error it came from.
func (p Problem) Err() *Error {
	kind := p.Code
	if _, ok := statuses[kind]; !ok {
		kind = KindInternal
	}
	return &Error{Kind: kind, Message: p.Detail, Refusals: p.Errors, Next: p.Next}
}
