//go:build race

package proc_test

// raceEnabled: the race detector maps more memory than any limit a test would set.
const raceEnabled = true
