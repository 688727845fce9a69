// Package bundle writes, reads and checks what a run leaves: its patch, result, event log,
// transcript, outputs of checks, and a signed manifest that binds them together.
//
// A bundle is a flat set of named artifacts: in the store of a run, in a folder ([fs.FS]), or packed
// into one file (gzip'd tar, byte for byte the same for the same bundle). The package decides nothing
// about a run; it only says whether what is there is whole ([Check]). Whether the patch still applies
// and the checks still pass is the runner's to find out.
//
// Everything read is foreign: the unpacker accepts plain files with artifact names and nothing else,
// within bounds. It starts no goroutine.
package bundle
