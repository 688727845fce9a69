// Package control is the core of the control plane: every decision about runs, without any I/O.
//
// A host opens the records of one run in a transaction ([Tx]), passes the moment and randomness
// ([Env]), and calls one decision; an error means that the host rolls back. In-process callers use
// the typed decisions (Create, Claim, Append, Ask, Decide, Cancel, Finish, …). HTTP hosts use
// [Core.Route] to learn which run's records to open and [Core.Handle] to decide the request; what
// has to happen in the world comes back as data ([Effect]), and the outcome goes in as another call.
//
// The package has no goroutine, clock, randomness, network or file of its own and imports the
// standard library, contract and token only, so that it is the same code natively and as a
// WebAssembly module.
package control
