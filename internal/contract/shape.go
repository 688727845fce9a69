package contract

import (
	"strings"
	"unicode/utf8"
)

// The shapes are written out, not regular expressions: every process of the program would pay for
// compiling them when it starts, the small ones inside a sandbox too.

const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	letters = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// shaped reports whether s is not empty, begins with a byte of first and has only bytes of rest
// after it. Both are lists of ASCII characters.
func shaped(s, first, rest string) bool {
	return s != "" && strings.IndexByte(first, s[0]) >= 0 && strings.Trim(s[1:], rest) == ""
}

// isRunName is [a-z0-9][a-z0-9-]{0,63}.
func isRunName(s string) bool { return len(s) <= 64 && shaped(s, lower+digits, lower+digits+"-") }

// isEnvName is [A-Za-z_][A-Za-z0-9_]*.
func isEnvName(s string) bool { return shaped(s, letters+"_", letters+digits+"_") }

// isModelName is a name of letters, digits and ._- that may be followed by / or : and at most 255
// characters without white space or controls.
func isModelName(s string) bool {
	if i := strings.IndexAny(s, "/:"); i >= 0 {
		rest := s[i+1:]
		if rest == "" || utf8.RuneCountInString(rest) > 255 || strings.IndexFunc(rest, func(r rune) bool { return r <= ' ' }) >= 0 {
			return false
		}
		s = s[:i]
	}
	return shaped(s, letters+digits, letters+digits+"._-")
}

// isHostPattern is a lower-case host name of at most 253 bytes, with *. before it for all below it.
func isHostPattern(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimPrefix(s, "*."), ".") {
		if len(label) > 63 || strings.HasSuffix(label, "-") || !shaped(label, lower+digits, lower+digits+"-") {
			return false
		}
	}
	return true
}
