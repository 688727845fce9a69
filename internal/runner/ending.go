package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/sandbox"
)

// stopped is an error that already says how the run ends.
type stopped struct{ contract.Failure }

func (s *stopped) Error() string { return s.Message }

// stop makes one.
func stop(code contract.FailureCode, format string, args ...any) *stopped {
	return &stopped{contract.Failure{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// panicked is a panic of the loop or a tool, with where it happened.
type panicked struct {
	value any
	stack string
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// Causes are the causes with which the owner of a run cancels its context. A nil one is never met.
type Causes struct {
	Cancel   error // a caller asked for the end
	WallTime error // the run's wall time is over
	Shutdown error // the owner itself stops; the run can be resumed
}

// failure says how an error ends the run. cause is the context's, nil while it lives; it beats
// whatever it made fail.
func (c Causes) failure(err, cause error) (contract.State, *contract.Failure) {
	if cause != nil {
		switch {
		case c.WallTime != nil && errors.Is(cause, c.WallTime), errors.Is(cause, context.DeadlineExceeded):
			return contract.Failed, &contract.Failure{
				Code: contract.FailWallTime, Message: "the wall time of the run is over",
				Hint: "raise --timeout, or resume the run",
			}
		case c.Shutdown != nil && errors.Is(cause, c.Shutdown):
			return contract.Failed, &contract.Failure{
				Code: contract.FailInterrupted, Message: "the process that carried out the run was stopped", Hint: "resume the run",
			}
		case c.Cancel != nil && errors.Is(cause, c.Cancel), errors.Is(cause, context.Canceled):
			return contract.Cancelled, &contract.Failure{Code: contract.FailCancelled, Message: "cancelled"}
		}
	}
	return contract.Failed, failureOf(err)
}

// failureOf maps an error to the reason a run fails with.
func failureOf(err error) *contract.Failure {
	if s, ok := errors.AsType[*stopped](err); ok {
		f := s.Failure
		return &f
	}
	f := &contract.Failure{Code: contract.FailInternal, Message: oneLine(err.Error())}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		f.Code, f.Hint = contract.FailDisk, "free some space, then resume the run"
		return f
	}
	if e, ok := errors.AsType[*model.Error](err); ok {
		modelFailure(f, e)
		return f
	}
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		f.Code, f.Hint = contract.FailSandboxStart, e.Hint
		if e.Code == sandbox.ErrLost {
			f.Code = contract.FailSandboxLost
		}
		return f
	}
	switch contract.KindOf(err) {
	case contract.KindBudgetExhausted:
		f.Code = contract.FailModelRequests
	case contract.KindTokensExhausted:
		f.Code = contract.FailTokens
	case contract.KindCostExhausted:
		f.Code = contract.FailCost
	default:
	}
	return f
}

func modelFailure(f *contract.Failure, e *model.Error) {
	f.Code, f.Reason = contract.FailModel, string(e.Kind)
	switch {
	case e.Credentials():
		f.Code, f.Hint = contract.FailCredentials, "set the provider's key, or run `rivumi login`; `rivumi demo` needs none"
	case e.Kind == model.ErrBudget && e.Code == "tokens":
		f.Code = contract.FailTokens
	case e.Kind == model.ErrBudget && e.Code == "cost":
		f.Code = contract.FailCost
	case e.Kind == model.ErrBudget:
		f.Code = contract.FailModelRequests
	}
}

// modelSetupFailed gives an error of the set-up its reason: a model that cannot be had.
func modelSetupFailed(err error) error {
	if _, ok := model.AsError(err); ok {
		return err
	}
	return &stopped{contract.Failure{Code: contract.FailModel, Reason: string(model.ErrConfig), Message: oneLine(err.Error())}}
}

// oneLine makes a message out of untrusted text.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(contract.CleanText(s)), " ")
	if len(s) > 500 {
		s = strings.ToValidUTF8(s[:500], "") + "…"
	}
	return s
}
