package proc

import (
	"net"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// Where a container must show what a session in it needs. They are mount points of single files.
const (
	BoxProgram = "/rivumi-sandbox-box"  // this program, to be started as pid 1 under this very name
	BoxSocket  = "/rivumi-sandbox.sock" // the socket that the owner accepts one connection on
)

// Attachment is a supervisor in a place that somebody else made: a container whose pid 1 is
// [BoxProgram] and has connected to the owner.
type Attachment struct {
	Conn    *net.UnixConn   // owned by the session from now on, also when it cannot be opened
	Tree    string          // the tree, at the same path outside and inside
	Writes  []string        // folders inside that commands may write: the tree, unless it is read-only; HOME, /tmp
	Env     []string        // the whole environment of commands
	Hosts   []string        // names the network proxy lets through; empty: no network
	Limits  sandbox.Limits  // what the engine does not hold: each process's file size
	Receipt sandbox.Receipt // what the place is; layers inside are added

	Gone  <-chan struct{} // closed when the place has ended
	Kill  func()          // ends the place; Gone must close soon after, whatever happens
	Words func() string   // what it said last, for errors; not called before Gone
}
