package cli

import (
	"os/exec"
	"syscall"
)

const (
	createNewProcessGroup = 0x200
	detachedProcess       = 0x8
)

// ownSession takes the process off the console.
func ownSession(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: createNewProcessGroup | detachedProcess}
}
