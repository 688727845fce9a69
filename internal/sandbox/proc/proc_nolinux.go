//go:build !linux

package proc

// Main does nothing here: only Linux starts the program again for a sandbox.
func Main([]string) (handled bool, code int) { return false, 0 }
