package agent

import (
	"context"
	"errors"
)

// Run drives the model until the task ends, and says how. It keeps to the limits of the task, leaves
// exactly one result for each call in the log, and starts no goroutine that outlives it. The error
// is for what is not the task's own end: a log that cannot be written, a hook that failed. When ctx
// ends, Run comes back within a second (and the grace of a running command) with EndCancelled, or
// with EndLimit and wall_time_exceeded when its cause is context.DeadlineExceeded.
func Run(ctx context.Context, c Config) (Result, error) {
	return Result{}, errors.New("agent: the loop has not landed")
}
