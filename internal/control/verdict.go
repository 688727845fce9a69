package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Bounds of a reported result.
const (
	maxChanged = 20_000
	maxSummary = 32 << 10
	maxWords   = 4 << 10 // of a failure's message and hint
)

var failureCodes = []contract.FailureCode{
	contract.FailChecks, contract.FailSteps, contract.FailWallTime, contract.FailModelRequests, contract.FailTokens,
	contract.FailCost, contract.FailModel, contract.FailCredentials, contract.FailApproval, contract.FailSandboxStart,
	contract.FailSandboxLost, contract.FailMemory, contract.FailResult, contract.FailPaths, contract.FailSandboxCleanup,
	contract.FailWorkspace, contract.FailInterrupted, contract.FailDisk, contract.FailInternal, contract.FailCancelled,
}

// judge checks an ending against the task. Nothing a runner says is trusted: a success needs every
// check of the task, in order and passed, and changed files inside the allowed paths. What breaks
// a rule comes back as result_invalid or path_policy_violation; the files and the patch stay named.
func (c *Core) judge(t contract.Task, e contract.Ending) contract.Ending {
	e = tidy(e)
	if why := shape(e); why != "" {
		return violation(e, contract.FailResult, why)
	}
	if e.Result == nil {
		return e
	}
	if why := c.outside(t, *e.Result); why != "" {
		return violation(e, contract.FailPaths, why)
	}
	if e.State != contract.Completed {
		e.Result = unclaimed(e.Result)
		return e
	}
	if why := unproven(t, *e.Result); why != "" {
		return violation(e, contract.FailResult, why)
	}
	return e
}

// violation turns an ending into the failure that its broken rule is; a cancel stays a cancel.
func violation(e contract.Ending, code contract.FailureCode, why string) contract.Ending {
	out := contract.Ending{State: contract.Failed, Result: unclaimed(e.Result), Error: &contract.Failure{Code: code, Message: why}}
	if e.Error != nil {
		out.Error.Reason = string(e.Error.Code)
	}
	if e.State == contract.Cancelled && code == contract.FailPaths {
		out.State = contract.Cancelled
	}
	return out
}

// unclaimed is a result without a claim of success.
func unclaimed(r *contract.Result) *contract.Result {
	if r == nil || r.Outcome == "" {
		return r
	}
	bare := *r
	bare.Outcome = ""
	return &bare
}

// shape checks that state, failure and result go together.
func shape(e contract.Ending) string {
	switch e.State {
	case contract.Completed:
		if e.Error != nil {
			return "a completed run has no error"
		}
		if e.Result == nil {
			return "a completed run needs a result"
		}
	case contract.Failed:
		if e.Error == nil {
			return "a failed run needs an error"
		}
		if !slices.Contains(failureCodes, e.Error.Code) || e.Error.Code == contract.FailCancelled {
			return fmt.Sprintf("error code %q is unknown", short(string(e.Error.Code), 64))
		}
	case contract.Cancelled:
	case contract.Queued, contract.Running:
		return fmt.Sprintf("%s is not an end", e.State)
	default:
		return fmt.Sprintf("state %q is unknown", short(string(e.State), 64))
	}
	return ""
}

// outside checks paths, modes and sizes of the changed files. Where the tree stays on the user's machine
// the names in it are theirs: only what leaves the tree or is of git is refused.
func (c *Core) outside(t contract.Task, r contract.Result) string {
	check := contract.CheckPath
	if c.cfg.Profile.LocalRepository {
		check = contract.CheckTreePath
	}
	if len(r.ChangedFiles) > maxChanged {
		return fmt.Sprintf("%d changed files, more than %d", len(r.ChangedFiles), maxChanged)
	}
	for i, f := range r.ChangedFiles {
		for _, p := range []string{f.Path, f.OldPath} {
			if p == "" && f.OldPath == "" && f.Path != "" {
				continue // no rename
			}
			if why := check(p); why != "" {
				return fmt.Sprintf("changedFiles[%d]: path %s", i, why)
			}
			if !contract.Allowed(t.AllowedPaths, p) {
				return fmt.Sprintf("changedFiles[%d]: %s is outside the allowed paths", i, p)
			}
		}
		if !slices.Contains([]string{"", "100644", "100755", "120000"}, f.Mode) {
			return fmt.Sprintf("changedFiles[%d]: mode %q is not allowed", i, short(f.Mode, 16))
		}
		if !slices.Contains([]string{"added", "modified", "deleted", "renamed"}, f.Status) {
			return fmt.Sprintf("changedFiles[%d]: status %q is unknown", i, short(f.Status, 16))
		}
	}
	return ""
}

// isSHA256 reports whether s is a SHA-256 in lower-case hex.
func isSHA256(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// unproven says what a completed run's result fails to prove, "" when it stands.
func unproven(t contract.Task, r contract.Result) string {
	var final []contract.CheckResult
	for _, k := range r.Checks {
		if k.Phase != "feedback" {
			final = append(final, k)
		}
	}
	if len(final) != len(t.Checks) {
		return fmt.Sprintf("%d final checks reported, the task has %d", len(final), len(t.Checks))
	}
	for i, k := range final {
		if !slices.Equal(k.Argv, t.Checks[i]) {
			return fmt.Sprintf("checks[%d] is not the task's check", i)
		}
		if !k.Passed || k.ExitCode != 0 || k.TimedOut {
			return fmt.Sprintf("checks[%d] did not pass", i)
		}
	}
	want := contract.OutcomeUnverified
	if len(t.Checks) > 0 {
		want = contract.OutcomeVerified
	}
	idle := r.Outcome == contract.OutcomeNoChanges && len(r.ChangedFiles) == 0
	if r.Outcome != want && !idle {
		return fmt.Sprintf("outcome %q does not follow from checks and changed files", short(string(r.Outcome), 32))
	}
	if r.Patch != nil && (!ArtifactName(r.Patch.Artifact) || r.Patch.Bytes < 0 || !isSHA256(r.Patch.SHA256)) {
		return "the patch is not named by artifact, size and SHA-256"
	}
	if r.Patch == nil && len(r.ChangedFiles) > 0 {
		return "files changed and no patch is named"
	}
	return ""
}

// tidy cleans and bounds every text of an ending and gives lists that are never null.
func tidy(e contract.Ending) contract.Ending {
	if e.Error != nil {
		f := *e.Error
		f.Reason, f.Message, f.Hint = short(f.Reason, 256), short(f.Message, maxWords), short(f.Hint, maxWords)
		e.Error = &f
	}
	if e.Result == nil {
		return e
	}
	r := *e.Result
	r.Summary, r.BaseSHA = short(r.Summary, maxSummary), short(r.BaseSHA, 64)
	r.BaseTree, r.FinalTree = short(r.BaseTree, 64), short(r.FinalTree, 64)
	r.ChecksInputsChanged, r.LargeAdditions = shortAll(r.ChecksInputsChanged), shortAll(r.LargeAdditions)
	r.ChangedFiles = append([]contract.FileChange{}, r.ChangedFiles...)
	r.Checks = append([]contract.CheckResult{}, r.Checks...)
	for i := range r.Checks {
		r.Checks[i].Phase = short(r.Checks[i].Phase, 32)
		r.Checks[i].OutputArtifact = short(r.Checks[i].OutputArtifact, 256)
	}
	e.Result = &r
	return e
}

func shortAll(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, short(s, contract.MaxPathBytes))
	}
	return out
}
