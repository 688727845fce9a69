package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// verdictOf is a run's end in one line: "completed, verified: 2 files changed, +9 -1".
func verdictOf(r contract.Run) string {
	var files []contract.FileChange
	outcome := ""
	if r.Result != nil {
		files = r.Result.ChangedFiles
		if r.Status == contract.Completed && r.Result.Outcome != "" {
			outcome = ", " + outcomeText(r.Result.Outcome)
		}
	}
	s := string(r.Status) + outcome
	if r.Error != nil && r.Status != contract.Completed {
		if string(r.Error.Code) != string(r.Status) {
			s += ", " + clean(string(r.Error.Code))
		}
		if r.Error.Reason != "" && r.Error.Reason != string(r.Error.Code) {
			s += " (" + clean(r.Error.Reason) + ")"
		}
	}
	return s + ": " + view.Changes(files)
}

func outcomeText(o contract.Outcome) string {
	switch o {
	case contract.OutcomeVerified:
		return "verified"
	case contract.OutcomeUnverified:
		return "not verified (no check was asked)"
	case contract.OutcomeNoChanges:
		return "no changes"
	}
	return string(o)
}

// writeSummary writes the result of a run: its verdict, what the model said at the end where it
// has not been shown, the files and the checks.
func writeSummary(w io.Writer, r contract.Run, withText bool) {
	if r.Result != nil && withText && r.Result.Summary != "" {
		fmt.Fprintf(w, "%s\n\n", clean(r.Result.Summary))
	}
	fmt.Fprintf(w, "rivumi: %s (run %s)\n", verdictOf(r), short(r))
	if r.Error != nil && r.Error.Message != "" {
		fmt.Fprintf(w, "  why      %s\n", oneLine(r.Error.Message))
	}
	if r.Result == nil {
		return
	}
	for _, f := range r.Result.ChangedFiles {
		fmt.Fprintf(w, "  %s        %s%s\n", view.Letter(f), oneLine(f.Path), sizes(f))
	}
	for _, c := range r.Result.Checks {
		word := "passed"
		if !c.Passed {
			word = fmt.Sprintf("failed, exit %d", c.ExitCode)
		}
		if c.TimedOut {
			word = "timed out"
		}
		fmt.Fprintf(w, "  check    %s: %s, %s\n", oneLine(quoteArgv(c.Argv)), word, view.Length(time.Duration(c.DurationMS)*time.Millisecond))
	}
	for _, f := range r.Result.ChecksInputsChanged {
		fmt.Fprintf(w, "  note     %s is read by the checks and was changed by the agent\n", oneLine(f))
	}
	for _, f := range r.Result.LargeAdditions {
		fmt.Fprintf(w, "  note     %s looks like a build product\n", oneLine(f))
	}
}

func sizes(f contract.FileChange) string {
	if f.Additions < 0 || f.Deletions < 0 {
		return "  binary"
	}
	return fmt.Sprintf("  +%d -%d", f.Additions, f.Deletions)
}

// nextCommands names what can be done with a run that ended.
func nextCommands(r contract.Run) []string {
	id := short(r)
	var next []string
	if r.Result != nil && len(r.Result.ChangedFiles) > 0 {
		next = append(next, "rivumi diff "+id, "rivumi apply "+id)
	} else {
		next = append(next, "rivumi logs "+id)
	}
	if r.Status != contract.Completed {
		next = append(next, "rivumi resume "+id)
	}
	return append(next, "rivumi discard "+id)
}

// usageText sums what a run has used.
func usageText(r contract.Run) string {
	u := r.Usage
	s := fmt.Sprintf("%d of %d steps, %d model requests, %s tokens in, %s out",
		u.Steps, r.Limits.MaxSteps, u.ModelRequests, view.Tokens(u.InputTokens+u.CachedTokens), view.Tokens(u.OutputTokens))
	if u.CostUSD != nil {
		s += ", " + view.Cost(*u.CostUSD)
	}
	if u.Unknown {
		s += " (the provider did not always say)"
	}
	return s
}
