package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/sandbox"
)

// The phases of a check. A failing check with steps left is told as feedback: its round goes back to the
// model. In the result the last round is final, whatever it was told as.
const (
	phaseFinal    = "final"
	phaseFeedback = "feedback"
)

// Bounds of what a check's output leaves.
const (
	logEdge   = 256 << 10 // bytes kept at each end in check-N.log
	tailLines = 40
	tailBytes = 8 << 10
)

// exitNotStarted is the exit code of a check whose program could not be started, as in a shell.
const exitNotStarted = 127

// checkRun is one check carried out.
type checkRun struct {
	result contract.CheckResult
	output []byte // head and tail, redacted, valid UTF-8
}

// runCheck runs one argv in an open session. The error is for a place that is gone or a run that is
// ending, not for a check that fails or cannot be started.
func runCheck(ctx context.Context, place sandbox.Commander, argv contract.Check, limit time.Duration) (checkRun, error) {
	out := &sharedCapture{Capture: sandbox.Capture{Edge: logEdge}}
	exit, err := place.Run(ctx, sandbox.Command{Argv: argv, Timeout: limit}, sandbox.Output{Stdout: out, Stderr: out})
	if cause := context.Cause(ctx); cause != nil {
		return checkRun{}, cause
	}
	r := contract.CheckResult{Argv: argv, ExitCode: exit.Code, DurationMS: exit.Duration.Milliseconds(), TimedOut: exit.TimedOut}
	if err != nil {
		var place *sandbox.Error
		if !errors.As(err, &place) || place.Code != sandbox.ErrStart {
			return checkRun{}, err
		}
		r.ExitCode = exitNotStarted
		fmt.Fprintf(out, "%s\n", err)
	}
	r.Passed = r.ExitCode == 0 && !r.TimedOut && err == nil
	return checkRun{result: r, output: out.Bytes()}, nil
}

// sharedCapture takes both streams of a check in the order they come.
type sharedCapture struct {
	mu sync.Mutex
	sandbox.Capture
}

// Write implements io.Writer.
func (c *sharedCapture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Capture.Write(p)
}

var _ io.Writer = (*sharedCapture)(nil)

// storeCheck keeps the whole output as an artifact and gives the event that ends the check.
func storeCheck(ctx context.Context, w *bundle.Writer, n int, c *checkRun) (contract.CheckFinished, error) {
	a, err := w.Put(ctx, bundle.CheckLog(n), bundle.MediaLog, bytes.NewReader(c.output))
	if err != nil {
		return contract.CheckFinished{}, err
	}
	c.result.OutputArtifact = a.Name
	return contract.CheckFinished{CheckResult: c.result, Tail: lastLines(string(c.output), tailLines, tailBytes)}, nil
}

// lastLines gives at most n last lines of s and at most limit bytes of them.
func lastLines(s string, n, limit int) string {
	s = strings.TrimRight(s, "\n")
	for i, seen := len(s)-1, 0; i >= 0; i-- {
		if s[i] != '\n' {
			continue
		}
		if seen++; seen == n {
			s = s[i+1:]
			break
		}
	}
	if len(s) > limit {
		s = "…" + strings.ToValidUTF8(s[len(s)-limit:], "")
	}
	return s
}
