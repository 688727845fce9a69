package model

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// Error implements error: kind, status and the provider's words.
func (e *Error) Error() string {
	parts := []string{"model: " + string(e.Kind)}
	if e.Status != 0 {
		parts = append(parts, "HTTP "+strconv.Itoa(e.Status))
	}
	if e.Code != "" {
		parts = append(parts, e.Code)
	}
	s := strings.Join(parts, " ")
	switch {
	case e.Message != "":
		s += ": " + e.Message
	case e.Err != nil:
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Credentials reports whether the key is missing or was refused.
func (e *Error) Credentials() bool {
	return e.Status == 401 || e.Status == 403 || e.Kind == ErrConfig && e.Code == "no_key"
}

// AsError finds the *Error in err's chain.
func AsError(err error) (*Error, bool) { return errors.AsType[*Error](err) }

// Canceled is the error of a call whose context ended; it wraps the context's cause.
func Canceled(ctx context.Context) *Error {
	return &Error{Kind: ErrCanceled, Err: context.Cause(ctx)}
}

// Retryable reports whether another attempt at the same request may help. It looks at the error
// alone: whether something was emitted, and how often it was tried, is the caller's matter.
func Retryable(e *Error) bool {
	switch e.Kind {
	case ErrTransport, ErrTruncated, ErrIdle:
		return true
	case ErrEmpty:
		return e.Code != "length"
	case ErrStatus, ErrStream:
		if e.Code == "insufficient_quota" {
			return false
		}
		return e.Status == 408 || e.Status == 409 || e.Status == 429 || e.Status >= 500
	case ErrProtocol, ErrTooBig, ErrContext, ErrCanceled, ErrConfig, ErrBudget:
	}
	return false
}
