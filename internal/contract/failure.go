package contract

// FailureCode is the stable reason of a failed run (`error.code` of a Run).
type FailureCode string

// The reasons a run fails.
const (
	FailChecks         FailureCode = "checks_failed"
	FailSteps          FailureCode = "step_limit" // Failure.Reason "loop" when the agent repeated itself
	FailWallTime       FailureCode = "wall_time_exceeded"
	FailModelRequests  FailureCode = "model_request_budget_exhausted"
	FailTokens         FailureCode = "token_budget_exhausted"
	FailCost           FailureCode = "cost_budget_exhausted"
	FailModel          FailureCode = "model_error"
	FailCredentials    FailureCode = "model_credentials" // missing, or refused by the provider (HTTP 401, 403)
	FailApproval       FailureCode = "approval_denied"   // an approval was needed and denied, or nobody could answer
	FailSandboxStart   FailureCode = "sandbox_start_failed"
	FailSandboxLost    FailureCode = "sandbox_lost"
	FailMemory         FailureCode = "out_of_memory"
	FailResult         FailureCode = "result_invalid"
	FailPaths          FailureCode = "path_policy_violation"
	FailSandboxCleanup FailureCode = "sandbox_cleanup_failed"
	FailWorkspace      FailureCode = "workspace_error"
	FailInterrupted    FailureCode = "interrupted" // the owner of the run died; resumable
	FailDisk           FailureCode = "disk_full"
	FailInternal       FailureCode = "internal"
	FailCancelled      FailureCode = "cancelled" // of a cancelled run only: who asked, and why
)

// Failure says why a run failed or was cancelled. Message is for people, one line, sanitised.
type Failure struct {
	Code    FailureCode `json:"code"`
	Reason  string      `json:"reason,omitempty"` // finer machine word, such as "loop"
	Message string      `json:"message"`
	Hint    string      `json:"hint,omitempty"` // what the user can do about it
}

// Exit codes of the command line; `rivumi help exit-codes` prints them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitChecks      = 3
	ExitCredentials = 4
	ExitApproval    = 5
	ExitLimit       = 6
	ExitSandbox     = 7
	ExitServer      = 8
	ExitConflict    = 9
	ExitPaths       = 10
	ExitInterrupt   = 130
	ExitTerminate   = 143
)

// ReasonTerminated is the reason of a cancel that came from SIGTERM; its run exits with 143 instead of 130.
const ReasonTerminated = "terminated"

// ExitCode gives the exit code of a run that ended. It is decided from the terminal
// state and the failure alone; a run that has not ended gives [ExitFailed].
func ExitCode(s State, f *Failure) int {
	switch s {
	case Completed:
		return ExitOK
	case Cancelled:
		if f != nil && f.Reason == ReasonTerminated {
			return ExitTerminate
		}
		return ExitInterrupt
	case Queued, Running, Failed:
	}
	if f == nil {
		return ExitFailed
	}
	switch f.Code {
	case FailChecks:
		return ExitChecks
	case FailCredentials:
		return ExitCredentials
	case FailApproval:
		return ExitApproval
	case FailSteps, FailWallTime, FailModelRequests, FailTokens, FailCost:
		return ExitLimit
	case FailSandboxStart:
		return ExitSandbox
	case FailPaths:
		return ExitPaths
	case FailModel, FailSandboxLost, FailMemory, FailResult, FailSandboxCleanup,
		FailWorkspace, FailInterrupted, FailDisk, FailInternal, FailCancelled:
		return ExitFailed
	}
	return ExitFailed
}
