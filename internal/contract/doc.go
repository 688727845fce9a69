// Package contract is the language that every other package speaks: tasks, runs,
// events, approvals, artifacts, the closed sets of states and error kinds, the
// strict decoder for what comes from outside, and the interfaces of a run.
//
// It does no I/O, starts no goroutine, reads no clock and imports the standard
// library only, so that the control core can be linked natively and as WebAssembly.
// A value of this package is what crosses a process border; its JSON is the wire.
//
// The life of a run, which [State.CanBecome] enforces:
//
//	queued ──► running ──► completed
//	   │          ├──────► failed
//	   │          └──────► cancelled
//	   ├─────────────────► failed
//	   └─────────────────► cancelled
package contract
