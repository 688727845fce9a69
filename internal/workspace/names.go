package workspace

import (
	"strings"
	"unicode"

	"github.com/rivumi/rivumi/internal/contract"
)

// isDotGit reports whether a file system could take this name for .git; format characters of any
// kind are looked through, as some file systems do.
func isDotGit(name string) bool {
	if name == "" || name[0] < 0x80 && name[0] != '.' && name[0]|0x20 != 'g' {
		return false // what is looked through is never ASCII, so the first byte tells; a scan asks for every file
	}
	if contract.IsGitName(name) {
		return true
	}
	if strings.IndexFunc(name, isFormat) < 0 {
		return false
	}
	return contract.IsGitName(strings.Map(func(r rune) rune {
		if isFormat(r) {
			return -1
		}
		return r
	}, name))
}

func isFormat(r rune) bool { return r > 127 && unicode.Is(unicode.Cf, r) }

// hasDotGit reports whether any component of a path is a .git.
func hasDotGit(path string) bool {
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if isDotGit(part) {
			return true
		}
	}
	return false
}

// goodPath says why a path of a tree is refused, "" when it is fine: relative, slash-separated,
// without empty, "." or ".." components, without a .git at any depth.
func goodPath(path string) string {
	switch {
	case path == "":
		return "is empty"
	case strings.ContainsRune(path, 0):
		return "holds a NUL"
	case len(path) > 4096:
		return "is longer than 4096 bytes"
	case hasDotGit(path):
		return "has a .git in it"
	}
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "":
			return "has an empty component or is absolute"
		case ".", "..":
			return "has a dot component"
		}
	}
	return ""
}

// linkStays reports whether a symbolic link at path with this target stays inside the tree by its text.
func linkStays(path, target string) bool {
	if target == "" || target[0] == '/' || strings.ContainsRune(target, 0) || hasDotGit(target) {
		return false
	}
	depth := strings.Count(path, "/")
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return false
			}
		default:
			depth++
		}
	}
	return true
}
