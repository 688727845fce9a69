// Package worker is the inside of a box: the run as its runner sees it over the internal routes of a
// control plane ([Session]), the model behind the proxy route, and the order a box is started with.
//
// Everything waits for the control plane: while it is away, appends, questions and artifacts are
// tried again with growing waits until it is back or the run's time is over.
package worker
