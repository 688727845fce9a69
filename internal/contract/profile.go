package contract

// Profile is the limits of a place that runs tasks. The server profile is at least as strict as
// the local one in every field, and the edge profile than the server's; a test compares them.
type Profile struct {
	Name string

	BodyBytes        int64 // request body
	InlineFiles      int
	InlineFileBytes  int64
	InlineTotalBytes int64
	InlineTextOnly   bool  // known text extensions only
	UploadBytes      int64 // 0: no uploads
	MaxSteps         int
	WallTimeSeconds  int
	MaxChecks        int
	MinChecks        int
	AnyCheck         bool // any argv; otherwise the operator's list
	WholeTree        bool // "**" alone is allowed
	LocalRepository  bool // a source on the same machine is allowed
	AnyModel         bool // any provider/model name; otherwise the operator's list

	ModelResponseBytes int64
	ResponseTokens     int // max_tokens of one answer; 0: the model's own
	Streaming          bool
	Events             int
	EventBytes         int64
	ArtifactBytes      int64
}

// Unbounded is a limit that only the disk quota of the config bounds.
const Unbounded = int64(1) << 53

// Local is the profile of `rivumi run` on the user's own machine.
func Local() Profile {
	return Profile{
		Name: "local", BodyBytes: 4 << 20, InlineFiles: 1024, InlineFileBytes: 1 << 20, InlineTotalBytes: 3 << 20,
		UploadBytes: Unbounded, MaxSteps: 10_000, WallTimeSeconds: 86_400, MaxChecks: 8, AnyCheck: true,
		WholeTree: true, LocalRepository: true, AnyModel: true, ModelResponseBytes: 64 << 20, Streaming: true,
		Events: int(Unbounded), EventBytes: Unbounded, ArtifactBytes: Unbounded,
	}
}

// Server is the default profile of `rivumi serve`.
func Server() Profile {
	return Profile{
		Name: "server", BodyBytes: 4 << 20, InlineFiles: 1024, InlineFileBytes: 1 << 20, InlineTotalBytes: 3 << 20,
		UploadBytes: 512 << 20, MaxSteps: 500, WallTimeSeconds: 14_400, MaxChecks: 8,
		ModelResponseBytes: 8 << 20, ResponseTokens: 32_768, Streaming: true,
		Events: 200_000, EventBytes: 256 << 20, ArtifactBytes: 1 << 30,
	}
}

// Edge is the profile of the hosted edge, with the numbers of the remote-execution seed.
func Edge() Profile {
	return Profile{
		Name: "edge", BodyBytes: 768 << 10, InlineFiles: 32, InlineFileBytes: 64 << 10, InlineTotalBytes: 512 << 10,
		InlineTextOnly: true, MaxSteps: 20, WallTimeSeconds: 220, MaxChecks: 4, MinChecks: 1,
		ModelResponseBytes: 1 << 20, ResponseTokens: 4096,
		Events: 2_000, EventBytes: 4 << 20, ArtifactBytes: 16 << 20,
	}
}

// GraceSeconds is how long a run may go on after its wall time or a cancel before it is killed.
const GraceSeconds = 10
