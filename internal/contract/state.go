package contract

import "slices"

// State is where a run stands. The set is closed; terminal states absorb.
type State string

// The states of a run.
const (
	Queued    State = "queued"    // accepted and durable, nothing started
	Running   State = "running"   // claimed by one attempt
	Completed State = "completed" // the agent ended and every check passed
	Failed    State = "failed"    // ended without success; Failure.Code says why
	Cancelled State = "cancelled" // a caller asked for the end
)

// States lists every state in the order of a run's life.
func States() []State { return []State{Queued, Running, Completed, Failed, Cancelled} }

// Terminal reports whether the run has ended for good.
func (s State) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Valid reports whether s is one of the closed set.
func (s State) Valid() bool { return slices.Contains(States(), s) }

// CanBecome reports whether a run in state s may move to state to. There is no
// move out of a terminal state and none to the same state.
func (s State) CanBecome(to State) bool {
	switch s {
	case Queued:
		return to == Running || to == Failed || to == Cancelled
	case Running:
		return to == Completed || to == Failed || to == Cancelled
	case Completed, Failed, Cancelled:
		return false
	}
	return false
}
