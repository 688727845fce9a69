// Package docker holds commands and runners in containers of a Docker engine on this machine.
//
// A session ([Engine.Open]) is one container whose pid 1 is this program, mounted read-only, in the
// same supervising mode that package proc uses. It connects to the owner once over a socket that is
// unlinked at once, and from then on starts one command after another; a command's output travels
// in descriptors, not through the engine. A box ([Engine.Launch]) is one container that runs a
// whole runner.
//
// Containers have no network, no capabilities, a read-only root, memory-backed folders of bounded
// size to write in, limits on processes, memory and processor, and a system call profile of our own
// that denies what it does not name. They are labelled with the instance that made them, and only
// that instance's are ever listed, adopted or removed.
//
// Nothing here uses the engine's exec call or its command line.
package docker
