package contract

import (
	"path"
	"strings"
	"unicode/utf8"
)

// Bounds of a path on the wire, in bytes.
const (
	MaxPathBytes    = 1024
	MaxSegmentBytes = 255
)

// MaxTreePathBytes bounds a path of a tree that stays on the machine.
const MaxTreePathBytes = 4096

// CheckPath says whether p may name a file of a tree: "" when it may, else the rule it breaks in
// words. A path is POSIX-relative, in NFC, without empty, "." or ".." segments, without a segment
// that any file system takes for ".git", and without NUL, backslash, control or invisible
// characters (api.md, Ingress rules). Names such as foo..bar, .hidden and a/..b/c are fine.
func CheckPath(p string) string {
	switch {
	case p == "":
		return "must not be empty"
	case len(p) > MaxPathBytes:
		return "must be at most 1024 bytes"
	case !utf8.ValidString(p):
		return "must be valid UTF-8"
	case strings.HasPrefix(p, "/"):
		return "must be relative"
	case strings.ContainsRune(p, '\\'):
		return "must use / and no backslash"
	case len(p) > 1 && p[1] == ':' && isLetter(p[0]):
		return "must not name a drive"
	case !IsClean(p) || strings.ContainsAny(p, "\n\t"):
		return "must not contain control or invisible characters"
	case !isNFC(p):
		return "must be in Unicode normalisation form C"
	}
	for seg := range strings.SplitSeq(p, "/") {
		if why := checkSegment(seg); why != "" {
			return why
		}
	}
	return ""
}

// CheckTreePath says whether p may name a file of a tree that stays on the machine it came from: ""
// when it may, else the rule it breaks. It is [CheckPath] without the rules that keep a path good for
// every wire and file system: a tab, a backslash, another normalisation form or bytes that are no UTF-8
// are the user's own names.
func CheckTreePath(p string) string {
	switch {
	case p == "":
		return "must not be empty"
	case len(p) > MaxTreePathBytes:
		return "must be at most 4096 bytes"
	case strings.HasPrefix(p, "/"):
		return "must be relative"
	case strings.ContainsRune(p, 0):
		return "must not contain a NUL"
	}
	for seg := range strings.SplitSeq(p, "/") {
		if why := checkSegment(seg); why != "" {
			return why
		}
	}
	return ""
}

func checkSegment(seg string) string {
	switch {
	case seg == "":
		return "must not have an empty segment"
	case seg == "." || seg == "..":
		return "must not have a . or .. segment"
	case len(seg) > MaxSegmentBytes:
		return "must not have a segment over 255 bytes"
	case IsGitName(seg):
		return "must not have a .git segment"
	}
	return ""
}

// IsGitName reports whether some file system takes the name for ".git": in any letter case, with
// trailing dots or spaces, as its short name git~1 (any digit), with an NTFS stream suffix, or
// with characters that HFS+ ignores.
func IsGitName(seg string) bool {
	s := strings.Map(func(r rune) rune {
		if isInvisible(r) {
			return -1
		}
		return r
	}, seg)
	s, _, _ = strings.Cut(s, ":")
	s = strings.ToLower(strings.TrimRight(s, ". "))
	if s == ".git" {
		return true
	}
	digit, ok := strings.CutPrefix(s, "git~")
	return ok && len(digit) == 1 && digit[0] >= '0' && digit[0] <= '9'
}

// HasGitSegment reports whether a segment of p is taken for ".git" by some file system.
func HasGitSegment(p string) bool {
	for seg := range strings.SplitSeq(p, "/") {
		if IsGitName(seg) {
			return true
		}
	}
	return false
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// CheckPattern says whether s may stand in a list of allowed paths: "" or the broken rule. The wire
// grammar is an exact path or dir/**; "**" alone is for wholeTree; globs with * and ? inside
// segments are for globs.
func CheckPattern(s string, wholeTree, globs bool) string {
	if s == "**" {
		if wholeTree {
			return ""
		}
		return "must not be ** alone here"
	}
	plain := strings.TrimSuffix(s, "/**")
	if globs {
		if _, err := path.Match(s, ""); err != nil {
			return "must be a well-formed glob"
		}
		plain = strings.NewReplacer("**", "x", "*", "x", "?", "x", "[", "x", "]", "x").Replace(plain)
	} else if strings.ContainsAny(plain, "*?[") {
		return "must be an exact path or end in /**"
	}
	return CheckPath(plain)
}

// Allowed reports whether one of the patterns covers the path. No pattern at all covers everything:
// the profiles that demand a list refuse an empty one in [Validate].
func Allowed(patterns []string, p string) bool {
	if len(patterns) == 0 {
		return true
	}
	segs := strings.Split(p, "/")
	for _, pattern := range patterns {
		if matchSegments(strings.Split(pattern, "/"), segs) {
			return true
		}
	}
	return false
}

// matchSegments matches ** against any number of segments, at the end of a pattern against one or
// more, and everything else segment by segment as path.Match does. A segment without meta
// characters is compared as it is.
func matchSegments(pattern, segs []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			if len(pattern) == 1 {
				return len(segs) > 0
			}
			for i := range segs {
				if matchSegments(pattern[1:], segs[i:]) {
					return true
				}
			}
			return false
		}
		if len(segs) == 0 || !matchSegment(pattern[0], segs[0]) {
			return false
		}
		pattern, segs = pattern[1:], segs[1:]
	}
	return len(segs) == 0
}

func matchSegment(pattern, seg string) bool {
	if pattern == seg {
		return true
	}
	ok, err := path.Match(pattern, seg)
	return err == nil && ok
}
