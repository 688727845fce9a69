package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// job is one call of a turn on its way to its one result.
type job struct {
	call   contract.ToolCall
	tool   tool
	args   args
	index  int    // in its message, from 1
	script string // bash
	path   string // file tools

	refusal   *contract.ToolResult // the result of a call that must not run
	judgement contract.Judgement
	cleared   bool // may run: the policy allows it, or a decision does
	asked     *asking
}

func (l *loop) callAll(ctx context.Context, calls []contract.ToolCall) (*Result, error) {
	return l.runCalls(ctx, calls, nil)
}

// runCalls gives each call its result, in order. The message with the calls is queued or durable
// already; it is durable before any call is asked for or runs.
func (l *loop) runCalls(ctx context.Context, calls []contract.ToolCall, interrupted map[string]bool) (*Result, error) {
	jobs := make([]*job, len(calls))
	for i, c := range calls {
		jobs[i] = l.newJob(c)
		if interrupted[c.ID] {
			jobs[i].refusal = &contract.ToolResult{Text: interruptedText, IsError: true, Interrupted: true, ExitCode: 1}
		}
	}
	desk := newDesk(ctx, l, jobs)
	defer desk.close()
	if err := desk.openEarly(ctx); err != nil {
		return l.giveUp(ctx, jobs, nil, err)
	}
	changed := false
	for i, j := range jobs {
		res, end, err := l.runJob(ctx, desk, j)
		if err != nil || end != nil {
			desk.close()
			return l.giveUp(ctx, jobs[i:], end, err)
		}
		last := i == len(jobs)-1
		end = l.answer(j, res, last)
		changed = changed || j.mayChange() && !res.Denied
		if end != nil {
			desk.close()
			return l.giveUp(ctx, jobs[i+1:], end, nil)
		}
	}
	if ctx.Err() != nil {
		return l.cancelled(ctx), nil
	}
	if !changed || l.c.Changed == nil {
		return nil, nil
	}
	events, err := l.c.Changed(ctx, l.h.step)
	if err != nil {
		return l.orCancelled(ctx, fmt.Errorf("look at the changes: %w", err))
	}
	l.put(events...)
	return nil, nil
}

// newJob checks a call against its tool and asks the policy.
func (l *loop) newJob(c contract.ToolCall) *job {
	j := &job{call: c, index: 1 + slices.IndexFunc(l.h.open, func(o contract.ToolCall) bool { return o.ID == c.ID })}
	if c.Bad != "" {
		j.refuse("not run: " + contract.CleanText(c.Bad) + ". Make the call again, complete and as valid JSON.")
		return j
	}
	i := slices.IndexFunc(l.tools, func(t tool) bool { return t.name == c.Name })
	if i < 0 {
		j.refuse(fmt.Sprintf("not run: there is no tool %q; the tools are %s", cutLine(c.Name, 100), toolNames(l.tools)))
		return j
	}
	j.tool = l.tools[i]
	var err error
	if j.args, err = j.tool.parseArgs(c.Arguments); err != nil {
		j.refuse("not run: " + err.Error())
		return j
	}
	j.script = j.args.text["command"]
	if j.tool.name != toolBash {
		if j.path, err = l.treePath(j.args.text["path"], j.tool.name != toolRead); err != nil {
			j.refuse("not run: " + err.Error())
			return j
		}
	}
	l.judge(j)
	return j
}

func toolNames(tools []tool) string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.name
	}
	return strings.Join(names, ", ")
}

// readJudge is the optional power of a [Judge] to judge reads. Without it reads are free.
type readJudge interface {
	Read(path string, outside bool) contract.Judgement
}

func (l *loop) judge(j *job) {
	switch j.tool.name {
	case toolBash:
		j.judgement = l.c.Judge.Command(j.script, "")
	case toolRead:
		j.judgement = contract.Judgement{Action: contract.ActionAllow, ReadOnly: true}
		if r, ok := l.c.Judge.(readJudge); ok {
			j.judgement = r.Read(j.path, false)
		}
	default:
		j.judgement = l.c.Judge.Write(j.path, false)
	}
	switch j.judgement.Action {
	case contract.ActionAllow:
		j.cleared = true
	case contract.ActionAsk:
	default:
		text := "not allowed by the policy of this run: " + orElse(contract.CleanText(j.judgement.Reason), "it is not on the list of what may run")
		j.refusal = &contract.ToolResult{Text: text + ". Do it another way, or say what is missing.", IsError: true, Denied: true, ExitCode: 1}
	}
}

func (j *job) refuse(text string) {
	j.refusal = &contract.ToolResult{Text: text, IsError: true, ExitCode: 1}
}

// mayChange reports whether the call may have changed the tree once it ran.
func (j *job) mayChange() bool {
	return j.refusal == nil && j.tool.name != toolRead && !j.judgement.ReadOnly
}

// runJob carries one call out, or says why not. A result comes without an end and without an error.
func (l *loop) runJob(ctx context.Context, d *desk, j *job) (contract.ToolResult, *Result, error) {
	for {
		if ctx.Err() != nil {
			return contract.ToolResult{}, l.cancelled(ctx), nil
		}
		if j.refusal == nil && !j.cleared {
			if end, err := d.wait(ctx, j); end != nil || err != nil {
				return contract.ToolResult{}, end, err
			}
		}
		if j.refusal != nil {
			return *j.refusal, nil, nil
		}
		switch j.tool.name {
		case toolBash:
			return l.bash(ctx, j)
		case toolRead:
			return l.read(ctx, j)
		}
		plan := l.plan(j)
		if plan.err == nil && j.asked.stale(plan) {
			// What was shown is not what would run now: it is shown anew.
			j.asked, j.cleared = nil, false
			continue
		}
		return l.change(ctx, j, plan)
	}
}

// start makes the message and the start of a call durable.
func (l *loop) start(ctx context.Context, j *job, preHash string) error {
	l.put(contract.NewEvent(l.h.step, contract.ToolStarted{
		CallID: j.call.ID, Name: j.call.Name, Arguments: j.call.Arguments, PreHash: preHash,
	}))
	return l.flush(ctx)
}

// answer puts the result of a call, with what the model should know besides, and ends the run when
// the agent repeats itself.
func (l *loop) answer(j *job, r contract.ToolResult, last bool) *Result {
	r.CallID = j.call.ID
	if r.Denied && j.asked == nil {
		l.denied++
	}
	if j.mayChange() && !r.IsError && r.ExitCode == 0 {
		l.acted = true
	}
	if j.refusal == nil {
		l.checkFails = false
	}
	progress := (j.tool.name == toolEdit || j.tool.name == toolWrite) && !r.IsError
	n := l.guard.note(repeatKey(j, r), progress)
	if n >= guardTell {
		r.Text += fmt.Sprintf("\n[this is call number %d with these arguments and this result: it will not change; try something else]", n)
	}
	if left := l.base + l.c.Task.Limits.MaxSteps - l.h.step; last && l.c.Task.Limits.MaxSteps > 0 && left <= 5 {
		r.Text += fmt.Sprintf("\n[%d steps left]", left)
	}
	l.put(contract.NewEvent(l.h.step, r))
	if n < guardStop {
		return nil
	}
	end := failed(EndLimit, contract.FailSteps, "the agent made the same %s call with the same result %d times", j.call.Name, n)
	end.Failure.Reason = "loop"
	return end
}

// repeatKey names a call with its result; how long it took is no part of it.
func repeatKey(j *job, r contract.ToolResult) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%d\x00%t\x00%s\x00%s", j.call.Name, j.call.Arguments, r.ExitCode, r.IsError, r.Stdout, r.Stderr)
	if j.tool.name != toolBash {
		h.Write([]byte(r.Text))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// giveUp answers the calls that will not run any more, so that the history stays valid.
func (l *loop) giveUp(ctx context.Context, rest []*job, end *Result, err error) (*Result, error) {
	if err != nil && ctx.Err() != nil {
		end, err = l.cancelled(ctx), nil
	}
	if err != nil {
		return nil, err
	}
	for _, j := range rest {
		if _, ok := l.h.results[j.call.ID]; ok {
			continue
		}
		r := contract.ToolResult{CallID: j.call.ID, ExitCode: 1, IsError: true, Text: "not run: the run ended before this call began"}
		if _, begun := l.h.started[j.call.ID]; begun {
			r.Interrupted, r.Text = true, interruptedText
		}
		if j.refusal != nil {
			r = *j.refusal
			r.CallID = j.call.ID
		}
		l.put(contract.NewEvent(l.h.step, r))
	}
	return end, l.flush(ctx)
}
