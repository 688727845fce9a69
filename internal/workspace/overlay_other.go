//go:build !linux

package workspace

import "golang.org/x/sys/unix"

// canOverlay is false: there is no overlay file system here.
func canOverlay(string) bool { return false }

func isWhiteout(int, string) bool { return false }

func isWhiteoutStat(*unix.Stat_t) bool { return false }

func isOpaque(int) bool { return false }
