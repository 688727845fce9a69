package contract

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// CleanText makes untrusted bytes safe to store and show: the result is valid UTF-8, and
// invalid bytes and control characters other than line feed and tab stand as \xNN, bidirectional
// and zero-width characters as \u{NNNN}. Clean text comes back unchanged, without a copy.
func CleanText(s string) string {
	i := firstUnclean(s)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:i])
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case isControl(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case isInvisible(r):
			fmt.Fprintf(&b, `\u{%04X}`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// IsClean reports whether [CleanText] would leave s as it is.
func IsClean(s string) bool { return firstUnclean(s) < 0 }

func firstUnclean(s string) int {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if isControl(rune(c)) {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || isControl(r) || isInvisible(r) {
			return i
		}
		i += size
	}
	return -1
}

// isControl covers C0 without line feed and tab, DEL, and C1.
func isControl(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0
}

// isInvisible covers characters that hide or reorder text: zero-width, bidirectional controls,
// line and paragraph separators, tags and the byte-order mark.
func isInvisible(r rune) bool {
	switch {
	case r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
		r == 0x061c, r == 0xfeff, r == 0x180e, r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}
