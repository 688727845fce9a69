//go:build windows

package cli

import (
	"os"
	"time"
)

// readable says no: a pipe cannot be asked here, and a prompt that was given must not wait.
func readable(*os.File, time.Duration) bool { return false }
