package docker

// WithProfile gives options with another system call profile, to show what ours is for.
func WithProfile(o Options, profile []byte) Options {
	o.profile = profile
	return o
}
