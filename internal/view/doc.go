// Package view folds the events of a run into what a person sees: a header, a transcript of
// texts, tool calls, checks and notices, the approvals that wait, usage against limits, the
// changed files, and one word for what the run waits for.
//
// The fold is pure: it reads no clock, does no I/O, starts no goroutine and imports contract
// only. The plain printer and the terminal UI draw the same [Picture]; both get it from the log,
// so a late or second watcher sees what the first one saw.
package view
