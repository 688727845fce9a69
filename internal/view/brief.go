package view

import (
	"fmt"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Brief is an event in one line, safe to show.
func Brief(e contract.Event) string { return OneLine(brief(e)) }

func brief(e contract.Event) string {
	if d, ok := contract.EndedOf(e); ok {
		s := fmt.Sprintf("exit %d", d.ExitCode)
		if d.Error != nil {
			s += ", " + string(d.Error.Code) + ": " + d.Error.Message
		} else if d.Result != nil {
			s += ", " + string(d.Result.Outcome) + ", " + Changes(d.Result.ChangedFiles)
		}
		return s
	}
	for _, try := range []func(contract.Event) (string, bool){briefRun, briefModel, briefTool, briefRest} {
		if s, ok := try(e); ok {
			return s
		}
	}
	return string(e.Data)
}

func briefRun(e contract.Event) (string, bool) {
	switch e.Type {
	case contract.TypeRunQueued:
		d, ok := contract.As[contract.RunQueued](e)
		return d.Task.Instruction, ok
	case contract.TypeRunStarted:
		d, ok := contract.As[contract.RunStarted](e)
		return fmt.Sprintf("attempt %d", d.Attempt), ok
	case contract.TypeRunResumed:
		d, ok := contract.As[contract.RunResumed](e)
		return fmt.Sprintf("attempt %d: %s", d.Attempt, d.Reason), ok
	case contract.TypeRunCancelRequested:
		d, ok := contract.As[contract.RunCancelRequested](e)
		return strings.TrimSpace(d.By + " " + d.Reason), ok
	case contract.TypeWorkspaceReady:
		d, ok := contract.As[contract.WorkspaceReady](e)
		return fmt.Sprintf("%s @ %s, sandbox %s, network %s, %s", d.Root, Commit(d.BaseSHA), d.Sandbox, d.Network, d.Way), ok
	}
	return "", false
}

func briefModel(e contract.Event) (string, bool) {
	switch e.Type {
	case contract.TypeStepStarted:
		d, ok := contract.As[contract.StepStarted](e)
		return fmt.Sprintf("step %d of %d", d.Step, d.Max), ok
	case contract.TypeModelDelta:
		d, ok := contract.As[contract.ModelDelta](e)
		return d.Text + d.Reasoning, ok
	case contract.TypeModelMessage:
		d, ok := contract.As[contract.ModelMessage](e)
		s := d.Text
		for _, c := range d.ToolCalls {
			s += fmt.Sprintf(" [%s %s]", c.Name, titleOf(c.Name, c.Arguments))
		}
		return s, ok
	case contract.TypeModelRetry:
		d, ok := contract.As[contract.ModelRetry](e)
		return retryText(d), ok
	case contract.TypeModelDiscarded:
		d, ok := contract.As[contract.ModelDiscarded](e)
		return d.Reason, ok
	case contract.TypeCompacted:
		d, ok := contract.As[contract.Compacted](e)
		return compactedText(d), ok
	}
	return "", false
}

func briefTool(e contract.Event) (string, bool) {
	switch e.Type {
	case contract.TypeToolStarted:
		d, ok := contract.As[contract.ToolStarted](e)
		return d.Name + " " + titleOf(d.Name, d.Arguments), ok
	case contract.TypeToolOutput:
		d, ok := contract.As[contract.ToolOutput](e)
		return d.Stream + ": " + d.Text, ok
	case contract.TypeToolResult:
		d, ok := contract.As[contract.ToolResult](e)
		return fmt.Sprintf("%s, exit %d, %d ms: %s", resultState(d), d.ExitCode, d.DurationMS, Clip(d.Text, 120)), ok
	case contract.TypeApprovalRequested:
		d, ok := contract.As[contract.ApprovalRequested](e)
		return d.Approval.ID + " " + d.Approval.Title, ok
	case contract.TypeApprovalDecided:
		d, ok := contract.As[contract.ApprovalDecided](e)
		return fmt.Sprintf("%s %s by %s %s", d.ID, d.Decision.Verdict, d.Decision.By, d.Decision.Note), ok
	case contract.TypeApprovalClosed:
		d, ok := contract.As[contract.ApprovalClosed](e)
		return d.ID + " " + d.Reason, ok
	}
	return "", false
}

func briefRest(e contract.Event) (string, bool) {
	switch e.Type {
	case contract.TypeDiffUpdated:
		d, ok := contract.As[contract.DiffUpdated](e)
		return Changes(d.Files), ok
	case contract.TypeCheckStarted:
		d, ok := contract.As[contract.CheckStarted](e)
		return strings.Join(d.Argv, " ") + ", " + d.Phase, ok
	case contract.TypeCheckResult:
		d, ok := contract.As[contract.CheckFinished](e)
		return fmt.Sprintf("%s, exit %d, %d ms", strings.Join(d.Argv, " "), d.ExitCode, d.DurationMS), ok
	case contract.TypeUsageUpdated:
		d, ok := contract.As[contract.UsageUpdated](e)
		return fmt.Sprintf("%d requests, %s tokens in, %s out", d.Usage.ModelRequests, Tokens(d.Usage.InputTokens), Tokens(d.Usage.OutputTokens)), ok
	case contract.TypeMessageUser:
		d, ok := contract.As[contract.MessageUser](e)
		return d.Text, ok
	case contract.TypeNotice:
		d, ok := contract.As[contract.Notice](e)
		return d.Level + " " + d.Code + ": " + d.Text, ok
	}
	return "", false
}
