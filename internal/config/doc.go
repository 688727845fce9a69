// Package config resolves rivumi's settings: defaults, the user's file, the project's file, the
// environment and the command line, each key from the strongest layer that sets it.
//
// One table of keys drives everything: strict reading (an unknown key is an error with file, line
// and the nearest known key), names of environment variables, `config explain`, `config schema`.
// A project's file is inert until the user trusts its exact content, and even then it can neither
// set a key that redirects traffic or runs programs nor weaken approvals, the sandbox or a limit.
//
// The package reads the files it is pointed to and writes two: the user's file and the trust
// store. It starts no goroutine and knows nothing of flags.
package config
