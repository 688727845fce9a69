// Package proc runs commands on this machine. A session is one supervisor process: this program
// started again through its own image with an empty environment, so that it holds no key whatever
// this process holds. The supervisor starts one command after another and answers over a socket
// pair; a command's output goes straight into pipes of this process, whose write ends travel as
// descriptors.
//
// In the plain tier (L0) the supervisor is the subreaper of everything its commands start: a
// process that leaves its process group or session is still found, and the wait for "no child
// left" is what proves that it is dead. In the contained tiers the supervisor's child is pid 1 of
// its own namespaces and the kernel gives the same proof.
//
// When the owner of a session dies in any way, the socket's end of file ends the supervisor and
// all below it. Goroutines belong to Run and to Open; Close waits for them.
//
// A program that uses this package must call [Main] first thing in main (tests: in TestMain).
package proc
