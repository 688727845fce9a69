package contract

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// PP-04 and the ingress rules: dots inside names are fine, segments of dots are not.
func TestPP04PathPolicy(t *testing.T) {
	for _, p := range []string{"foo..bar", ".hidden.json", "a/..b/c", "x...y", "a", "docs/naïve café.md", "a b", "gitx/.gitignore", ".github/x", "-x"} {
		if why := CheckPath(p); why != "" {
			t.Errorf("%q is refused: %s", p, why)
		}
	}
	for _, p := range []string{
		"", "../f", "a/../../f", "a/..", ".", "./a", "a//b", "/a", "a/", "c:\\x", "C:/x", "a\\b", "a\x00b", "a\nb", "a\tb", "a\u202eb",
		".git", ".git/config", "vendor/x/.git/config", ".GIT/x", "sub/.git", "a/.Git", "GIT~1/x", "git~2", ".git./x", ".git /x", ".git::$INDEX_ALLOCATION/x",
		".g\u200cit/x", "cafe\u0301", "\xff", strings.Repeat("a", 256), strings.Repeat("a/", 600) + "a",
	} {
		if CheckPath(p) == "" {
			t.Errorf("%q is accepted", p)
		}
	}
}

func TestAllowedPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"**", "a/b", true},
		{"docs/**", "docs/a/b", true},
		{"docs/**", "docs", false},
		{"docs/**", "docsx/a", false},
		{"docs/a.md", "docs/a.md", true},
		{"docs/a.md", "docs/A.md", false},
		{"**/*.go", "a.go", true},
		{"**/*.go", "x/y/a.go", true},
		{"*.go", "x/a.go", false},
		{"src/*/t", "src/a/t", true},
		{"src/*/t", "src/a/b/t", false},
		{"a[b]", "a[b]", true},
	} {
		if got := Allowed([]string{c.pattern}, c.path); got != c.want {
			t.Errorf("%q covers %q: %v", c.pattern, c.path, got)
		}
	}
	if Allowed([]string{"a"}, "b") || !Allowed(nil, "b") {
		t.Error("an empty list covers all, a list only what it names")
	}
}

func TestPatternGrammar(t *testing.T) {
	for _, c := range []struct {
		pattern     string
		tree, globs bool
		ok          bool
	}{
		{"a/b", false, false, true},
		{"a/**", false, false, true},
		{"**", false, false, false},
		{"**", true, false, true},
		{"*.go", false, false, false},
		{"*.go", false, true, true},
		{"../**", true, true, false},
		{".git/**", true, true, false},
		{"a/**/b", false, false, false},
		{"a/**/b", false, true, true},
		{"[", false, true, false},
	} {
		if got := CheckPattern(c.pattern, c.tree, c.globs) == ""; got != c.ok {
			t.Errorf("%+v: accepted is %v", c, got)
		}
	}
}

// The generated tables must agree with the library they were made from, over any text.
func TestNFCAgreesWithTheUnicodeLibrary(t *testing.T) {
	marks := []rune("\u0300\u0301\u0302\u0303\u0307\u0308\u030a\u031b\u0323\u0327\u0328\u0345\u05b0\u05b4\u09be\u0bbe\u1161\u1175\u11a8\u11c2\u3099\u309a")
	bases := []rune("aeouAEOUnqıſςαωΑΩ\u1100\u1112가각\u09c7\u0b92かは\u212b\u2126\ufb1d\u0344\u1e9b\u00e7\u01b0")
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.OneOf(rapid.SampledFrom(marks), rapid.SampledFrom(bases), rapid.Rune())
		s := string(rapid.SliceOfN(r, 0, 8).Draw(t, "s"))
		if got, want := isNFC(s), norm.NFC.IsNormalString(s); got != want {
			t.Fatalf("isNFC(%+q) = %v, library says %v", s, got, want)
		}
	})
}

func FuzzCheckPath(f *testing.F) {
	f.Add("a/b")
	f.Add("a/../b")
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != "" {
			return
		}
		for seg := range strings.SplitSeq(p, "/") {
			if seg == "" || seg == "." || seg == ".." || strings.EqualFold(seg, ".git") {
				t.Fatalf("%q was accepted", p)
			}
		}
		if !norm.NFC.IsNormalString(p) {
			t.Fatalf("%+q was accepted and is not NFC", p)
		}
	})
}

// PT-06: names of a tree that stays on the machine are the user's own; what is of git or leaves the
// tree is refused all the same.
func TestPT06NamesOfATreeOfOnesOwn(t *testing.T) {
	for _, p := range []string{"docs/tab\there", "cafe\u0301", "latin\xe9", "back\\slash", "a\nb", "c:x", strings.Repeat("a/", 1500) + "a"} {
		if why := CheckTreePath(p); why != "" {
			t.Errorf("%q is refused: %s", p, why)
		}
	}
	for _, p := range []string{"", "/a", "../f", "a/../b", "a//b", "./a", "a\x00b", "x/.git/config", ".GIT/x", "git~1/x", ".g\u200cit/x", strings.Repeat("a", 256)} {
		if CheckTreePath(p) == "" {
			t.Errorf("%q is accepted", p)
		}
	}
}
