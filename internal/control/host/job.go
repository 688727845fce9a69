package host

import (
	"context"

	"github.com/rivumi/rivumi/internal/contract"
)

// Executor carries one claimed run to its end. Execute blocks until then; it is called in a
// goroutine of the service, which waits for it. A cancelled ctx asks it to stop: the cause is
// ErrCancelRequested for a caller's cancel, ErrWallTime at the run's limit, ErrShutdown when the
// service stops. It must return within the grace of [contract.GraceSeconds] after that; what it
// returns is checked against the core's rules and written as the terminal event. After ErrShutdown
// it may return the state running instead: then the attempt lives on outside this process, and a
// later service takes it over.
type Executor interface {
	Execute(ctx context.Context, j Job) contract.Ending
}

// Job is a claimed run with its task and the ports that its runner writes through.
type Job struct {
	Run     contract.Run
	Task    contract.Task
	Session contract.Session
	Dir     string // folder of this run in the state directory, 0700, exists
	Adopted bool   // an earlier service started this attempt and its box lives on
}
