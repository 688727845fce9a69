package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/sandbox"
)

// maxLive bounds the output of one call that is shown while it runs, per stream.
const maxLive = 256 << 10

// bash runs a script and waits for it.
func (l *loop) bash(ctx context.Context, j *job) (contract.ToolResult, *Result, error) {
	if err := l.start(ctx, j, ""); err != nil {
		return contract.ToolResult{}, nil, err
	}
	timeout := j.args.num["timeout_s"]
	if timeout == 0 {
		timeout = defaultTimeout
	}
	var stdout, stderr sandbox.Capture
	liveOut, liveErr := l.live(ctx, j, "stdout"), l.live(ctx, j, "stderr")
	exit, err := l.c.Commander.Run(ctx, sandbox.Command{
		Argv: []string{"bash", "-c", j.script}, Env: l.c.Env, Timeout: time.Duration(timeout) * time.Second,
	}, sandbox.Output{Stdout: io.MultiWriter(&stdout, liveOut), Stderr: io.MultiWriter(&stderr, liveErr)})
	// What is left was shown as it came; the result has the rest.
	if live := errors.Join(liveOut.stop(err != nil), liveErr.stop(err != nil)); live != nil {
		return contract.ToolResult{}, nil, live
	}
	if err != nil {
		return l.notStarted(ctx, err)
	}
	r := contract.ToolResult{
		ExitCode: exit.Code, DurationMS: exit.Duration.Milliseconds(), TimedOut: exit.TimedOut,
		Interrupted: exit.Canceled, LeftProcesses: exit.Left, IsError: exit.TimedOut || exit.Canceled || exit.Memory,
	}
	l.fill(ctx, j, &r, cleanStream(&stdout), cleanStream(&stderr))
	r.Truncated.StdoutBytes += stdout.Dropped()
	r.Truncated.StderrBytes += stderr.Dropped()
	r.Text = bashHead(exit, timeout, stdout.Dropped()+stderr.Dropped()) + r.Text
	return r, nil, nil
}

// live shows output while it is printed.
func (l *loop) live(ctx context.Context, j *job, stream string) *coalescer {
	return &coalescer{max: maxLive, send: func(text string) error {
		return l.append(ctx, contract.NewEvent(l.h.step, contract.ToolOutput{CallID: j.call.ID, Stream: stream, Text: text}))
	}}
}

// notStarted is a command that never ran: because of ctx, because its place is gone, or because
// there is no bash in it.
func (l *loop) notStarted(ctx context.Context, err error) (contract.ToolResult, *Result, error) {
	if ctx.Err() != nil {
		return contract.ToolResult{}, l.cancelled(ctx), nil
	}
	var failure *sandbox.Error
	if errors.As(err, &failure) && failure.Code == sandbox.ErrLost {
		end := failed(EndSandbox, contract.FailSandboxLost, "%s", contract.CleanText(err.Error()))
		end.Failure.Hint = failure.Hint
		return contract.ToolResult{}, end, nil
	}
	return contract.ToolResult{ExitCode: 127, IsError: true, Text: "not run: " + contract.CleanText(err.Error())}, nil, nil
}

// bashHead is the first line of a result: what a model should see before any output.
func bashHead(e sandbox.Exit, timeout, dropped int64) string {
	fields := []string{fmt.Sprintf("exit code %d", e.Code), fmt.Sprintf("%.1f s", e.Duration.Seconds())}
	if e.Signal != "" {
		fields = append(fields, "ended by "+e.Signal)
	}
	if e.TimedOut {
		fields = append(fields, fmt.Sprintf("timed out after %d s and was ended", timeout))
	}
	if e.Canceled {
		fields = append(fields, "interrupted: the run was cancelled; its effects are unknown")
	}
	if e.Memory {
		fields = append(fields, "out of memory")
	}
	if e.Left > 0 {
		fields = append(fields, fmt.Sprintf("%d processes it left behind were ended", e.Left))
	}
	if dropped > 0 {
		fields = append(fields, fmt.Sprintf("%d bytes of output were dropped", dropped))
	}
	return "[" + strings.Join(fields, ", ") + "]\n"
}

// fill sets output and text of a result from its clean streams, and keeps the whole as an artifact
// where something is cut.
func (l *loop) fill(ctx context.Context, j *job, r *contract.ToolResult, stdout, stderr string) {
	both := joinStreams(stdout, stderr)
	r.Stdout, r.Stderr = clip(stdout, eventBounds(eventBytes)), clip(stderr, eventBounds(eventBytes))
	r.Truncated.StdoutBytes = cutBytes(stdout, r.Stdout)
	r.Truncated.StderrBytes = cutBytes(stderr, r.Stderr)
	r.Text = clip(both, modelBounds(""))
	if r.Text == both {
		if both == "" {
			r.Text = "(no output)"
		}
		return
	}
	note := "; the whole output could not be kept"
	if l.c.PutArtifact != nil {
		name := fmt.Sprintf("output-%d-%d.txt", l.h.step, j.index)
		whole := joinStreams(clip(stdout, artifactBounds()), clip(stderr, artifactBounds()))
		actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendWaitAtEnd)
		defer cancel()
		if _, err := l.c.PutArtifact(actx, name, "text/plain; charset=utf-8", strings.NewReader(whole)); err == nil {
			r.Artifact, note = name, "; full output: artifact "+name
		}
	}
	r.Text = clip(both, modelBounds(note))
}

func cutBytes(whole, kept string) int64 {
	if whole == kept {
		return 0
	}
	return max(0, int64(len(whole)-len(kept)))
}
