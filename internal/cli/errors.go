package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/sandbox"
)

// failure is an error with the exit code it means and a way out. A failure without a text only
// carries the code: what happened has been said already.
type failure struct {
	code int
	err  error
	hint string
}

// Error implements error.
func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

// Unwrap gives the cause.
func (f *failure) Unwrap() error { return f.err }

// usagef refuses what was typed.
func usagef(hint, format string, args ...any) error {
	return &failure{contract.ExitUsage, fmt.Errorf(format, args...), hint}
}

// ended carries the exit code of a run that ended; the printer has told of it.
func ended(code int) error {
	if code == contract.ExitOK {
		return nil
	}
	return &failure{code: code}
}

// exitCode decides the exit code of every command, and is the only place that does.
func exitCode(err error) int {
	if err == nil {
		return contract.ExitOK
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	if s, ok := errors.AsType[*sandbox.Error](err); ok && s.Code == sandbox.ErrTier {
		return contract.ExitSandbox
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return contract.ExitUsage
	}
	if m, ok := errors.AsType[*model.Error](err); ok && m.Kind == model.ErrConfig {
		if m.Credentials() {
			return contract.ExitCredentials
		}
		return contract.ExitUsage
	}
	if errors.Is(err, context.Canceled) {
		return contract.ExitInterrupt
	}
	switch contract.KindOf(err) {
	case contract.KindInvalid, contract.KindUnknownField, contract.KindRunNotFound, contract.KindNotFound,
		contract.KindRunNotFinished, contract.KindRunFinished, contract.KindApprovalDecided, contract.KindTooLarge,
		contract.KindIdempotencyConflict, contract.KindBadCursor, contract.KindCursorAhead:
		return contract.ExitUsage
	case contract.KindUnauthorized, contract.KindForbidden:
		return contract.ExitCredentials
	default:
		return contract.ExitFailed
	}
}

// report writes an error and its way out, two lines.
func report(w io.Writer, err error) {
	if f, ok := errors.AsType[*failure](err); ok && f.err == nil {
		return
	}
	text, hint := describe(err)
	fmt.Fprintf(w, "rivumi: error: %s\n", oneLine(text))
	if hint != "" {
		fmt.Fprintf(w, "rivumi: hint: %s\n", oneLine(hint))
	}
}

// describe gives an error's text and the best hint known for it.
func describe(err error) (text, hint string) {
	text = err.Error()
	if f, ok := errors.AsType[*failure](err); ok && f.hint != "" {
		return text, f.hint
	}
	if c, ok := errors.AsType[*config.Error](err); ok {
		if c.Hint == "" {
			return text, "rivumi config schema lists every key"
		}
		return text, c.Hint
	}
	if s, ok := errors.AsType[*sandbox.Error](err); ok && s.Hint != "" {
		return text, s.Hint
	}
	if m, ok := errors.AsType[*model.Error](err); ok && m.Kind == model.ErrConfig {
		return m.Message, "rivumi models says what can be used here; rivumi demo needs no key"
	}
	switch contract.KindOf(err) {
	case contract.KindRunNotFound:
		return text, "rivumi ps --all lists the runs"
	case contract.KindInvalid, contract.KindUnknownField:
		return text, "rivumi help contract explains the fields; --dry-run shows the task"
	case contract.KindRunFinished:
		return text, "rivumi resume RUN goes on from a finished run"
	case contract.KindRunNotFinished:
		return text, "rivumi cancel RUN ends it, rivumi attach RUN watches it"
	case contract.KindApprovalDecided:
		return text, "the first decision stands; rivumi show RUN tells what was decided"
	case contract.KindUnauthorized:
		return text, "rivumi models says which keys are looked for"
	default:
		return text, "rivumi help lists the commands; --debug tells more"
	}
}

// refusals gives the single refusals of an error, so that all are shown and not only the first.
func refusals(err error) []contract.Refusal {
	e, ok := errors.AsType[*contract.Error](err)
	if !ok {
		return nil
	}
	return e.Refusals
}

func oneLine(s string) string {
	return contract.CleanText(strings.Join(strings.Fields(s), " "))
}
