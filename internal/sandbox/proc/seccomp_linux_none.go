//go:build linux && !amd64 && !arm64

package proc

// There is no filter for this architecture: the kill of foreign architectures then kills everything,
// so that a contained tier fails to open instead of being weaker than it says.
const (
	auditArch = 0
	hasX32    = false
)

var deniedHere []uint32
