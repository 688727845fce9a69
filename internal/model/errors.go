package model

import (
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
