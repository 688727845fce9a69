//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// ownSession makes the process the leader of a session of its own, out of reach of the terminal.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
