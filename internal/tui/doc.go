// Package tui draws runs in a terminal and sends what a person decides: the run screen with its
// composer, approval cards, the review of a result, and the list of runs.
//
// It speaks to a [contract.Runs] and knows neither where the runs are nor how a result is applied:
// what needs git or a process is a function of [Actions]. What is shown of a run is the fold of
// its events (package view); drawn items are kept by width, so that a key costs the same in a long
// run as in a short one.
//
// State changes in Update only. Whatever waits is a command. Panes are plain structs with
// render(width, height); none starts a goroutine. Nothing ticks while nothing changes, but for the
// clock of a run under way, once a second.
package tui
