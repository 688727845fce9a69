package runner

import (
	"fmt"
	"strings"

	"github.com/rivumi/rivumi/internal/agent"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

// judge says how the run ended, from what happened and what is there; the model's word is only its
// summary.
func (a *attempt) judge(snap workspace.Snapshot, err, cause error) contract.Ending {
	r := a.resultOf(snap)
	if err != nil || cause != nil {
		if err == nil {
			err = cause
		}
		state, f := a.c.Causes.failure(err, cause)
		return contract.Ending{State: state, Result: r, Error: a.cleanFailure(f)}
	}
	if a.result.End == agent.EndCancelled {
		return contract.Ending{State: contract.Cancelled, Result: r, Error: &contract.Failure{
			Code: contract.FailCancelled, Message: "cancelled at an approval by " + orNobody(a.result.CancelledBy),
		}}
	}
	if f := a.failed(snap); f != nil {
		return contract.Ending{State: contract.Failed, Result: r, Error: a.cleanFailure(f)}
	}
	r.Outcome = a.outcome(snap)
	return contract.Ending{State: contract.Completed, Result: r}
}

func orNobody(s string) string {
	if s == "" {
		return "a watcher"
	}
	return contract.CleanText(s)
}

// outcome of a run that nothing failed.
func (a *attempt) outcome(snap workspace.Snapshot) contract.Outcome {
	switch {
	case len(snap.Files) == 0:
		return contract.OutcomeNoChanges
	case len(a.j.Task.Checks) > 0:
		return contract.OutcomeVerified
	}
	return contract.OutcomeUnverified
}

// failed says what keeps an agent that came to its own end from success, nil for nothing. A failing
// check fails the run whatever the model says, also one that changed nothing.
func (a *attempt) failed(snap workspace.Snapshot) *contract.Failure {
	n := len(a.rounds)
	switch {
	case a.result.End != agent.EndFinished && a.result.End != agent.EndChecks:
		if a.result.Failure != nil {
			f := *a.result.Failure
			return &f
		}
		return &contract.Failure{Code: contract.FailInternal, Message: fmt.Sprintf("the agent ended as %q without a reason", a.result.End)}
	case len(a.j.Task.Checks) > 0 && n == 0:
		return &contract.Failure{Code: contract.FailInternal, Message: "the checks were not run"}
	case n > 0 && !a.rounds[n-1].passed():
		return a.checksFailed(a.rounds[n-1])
	case a.result.Unanswered > 0 && a.outcome(snap) != contract.OutcomeVerified:
		return &contract.Failure{
			Code: contract.FailApproval, Message: "an approval was needed and nobody answered it",
			Hint: "attach to the run to answer, or choose another policy with --approve",
		}
	case a.refused > 0 && len(snap.Files) == 0:
		return &contract.Failure{Code: contract.FailApproval, Message: "an approval was denied and nothing was changed"}
	}
	return nil
}

func (a *attempt) checksFailed(r *checkRound) *contract.Failure {
	var names []string
	for _, c := range r.runs {
		if !c.result.Passed {
			how := fmt.Sprintf("exit %d", c.result.ExitCode)
			if c.result.TimedOut {
				how = "timed out"
			}
			names = append(names, fmt.Sprintf("%s (%s)", strings.Join(c.result.Argv, " "), how))
		}
	}
	return &contract.Failure{
		Code: contract.FailChecks, Message: oneLine("checks failed: " + strings.Join(names, ", ")), Hint: oneLine(a.ignoredHint()),
	}
}

// ignoredHint is the workspace's note on files that git ignores, "" for none: the usual reason for a
// check that passes in the user's checkout and fails in a clean one.
func (a *attempt) ignoredHint() string {
	for _, n := range a.start.Notes {
		if strings.Contains(n, "ignore") {
			return n
		}
	}
	return ""
}

// cleanFailure takes secrets out of what a failure says.
func (a *attempt) cleanFailure(f *contract.Failure) *contract.Failure {
	f.Message, f.Hint = a.c.Secrets.String(oneLine(f.Message)), a.c.Secrets.String(oneLine(f.Hint))
	return f
}
