//go:build !linux

package worker

import "github.com/rivumi/rivumi/internal/contract"

// Harden is not available here: boxes are Linux.
func Harden() error { return contract.Errorf(contract.KindUnavailable, "workers run on Linux only") }

// Drop is not available here: boxes are Linux.
func Drop(string) error {
	return contract.Errorf(contract.KindUnavailable, "workers run on Linux only")
}
