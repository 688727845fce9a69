package contract

//go:generate go run ./gen

import "sort"

// isNFC reports whether a valid UTF-8 string is in Unicode normalisation form C (UAX 15). Two
// names that look alike must not be two files on one system and one file on another.
func isNFC(s string) bool {
	var starter rune // the last character of class 0, 0 for none
	lastClass := rune(0)
	adjacent := false // the starter stands right before the current character
	for _, r := range s {
		if r < 0x300 {
			starter, lastClass, adjacent = r, 0, true
			continue
		}
		if within(neverNFC[:], r) {
			return false
		}
		class := classOf(r)
		if class != 0 && lastClass > class {
			return false // marks out of canonical order
		}
		blocked := !adjacent && (lastClass == 0 || lastClass >= class)
		if starter != 0 && !blocked && composes(starter, r) {
			return false
		}
		if class == 0 {
			starter, adjacent = r, true
		} else {
			adjacent = false
		}
		lastClass = class
	}
	return true
}

// composes reports whether NFC would write the two characters as one; Hangul by its arithmetic.
func composes(a, b rune) bool {
	if a >= 0x1100 && a <= 0x1112 && b >= 0x1161 && b <= 0x1175 {
		return true
	}
	if a >= 0xac00 && a <= 0xd7a3 && (a-0xac00)%28 == 0 && b > 0x11a7 && b <= 0x11c2 {
		return true
	}
	for _, p := range composed {
		if p[0] == a && p[1] == b {
			return true
		}
	}
	return false
}

func within(ranges [][2]rune, r rune) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i][1] >= r })
	return i < len(ranges) && ranges[i][0] <= r
}

func classOf(r rune) rune {
	i := sort.Search(len(classes), func(i int) bool { return classes[i][1] >= r })
	if i < len(classes) && classes[i][0] <= r {
		return classes[i][2]
	}
	return 0
}
