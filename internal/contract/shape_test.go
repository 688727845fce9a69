package contract

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The shapes are what these expressions say, edge lengths included.
func TestShapesAreTheirExpressions(t *testing.T) {
	for name, c := range map[string]struct {
		shape string
		is    func(string) bool
		edges []string
	}{
		"name": {`^[a-z0-9][a-z0-9-]{0,63}$`, isRunName, []string{strings.Repeat("a", 64), strings.Repeat("a", 65)}},
		"env":  {`^[A-Za-z_][A-Za-z0-9_]*$`, isEnvName, []string{"A", "1A", "_"}},
		"model": {
			`^[A-Za-z0-9][A-Za-z0-9._-]*([/:][^\s\x00-\x1f]{1,255})?$`, isModelName,
			[]string{"a/" + strings.Repeat("é", 255), "a/" + strings.Repeat("é", 256), "a:", "a/b:c/d", "-a", "a/ b", "a/b\n", "/b"},
		},
		"host": {
			`^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`, isHostPattern,
			[]string{"*.", "*", "a.", ".a", "a..b", strings.Repeat("a", 63) + ".b", strings.Repeat("a", 64), "a-", "-a", "*.*.a", "a\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			shape := regexp.MustCompile(c.shape)
			same := func(s string) bool { return c.is(s) == shape.MatchString(s) }
			for _, s := range append(c.edges, "") {
				if !same(s) {
					t.Errorf("%q: %t", s, c.is(s))
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9*_. \n:/-]{0,12}`)).Draw(t, "s")
				if !same(s) {
					t.Fatalf("%q: %t", s, c.is(s))
				}
			})
		})
	}
}
