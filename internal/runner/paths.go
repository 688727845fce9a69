package runner

import (
	"fmt"
	"slices"

	"github.com/rivumi/rivumi/internal/contract"
)

// maxNamedPaths bounds how many paths a message names.
const maxNamedPaths = 10

// outsidePaths gives the paths of the changes that the task does not allow, with the rule each breaks. A
// rename counts on both sides.
func outsidePaths(changes []contract.FileChange, allowed []string) []string {
	var out []string
	for _, c := range changes {
		for _, p := range []string{c.Path, c.OldPath} {
			if p == "" {
				continue
			}
			if why := breaks(p, c.Mode, allowed); why != "" {
				out = append(out, fmt.Sprintf("%s (%s)", contract.CleanText(p), why))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func breaks(p, mode string, allowed []string) string {
	switch {
	case contract.HasGitSegment(p):
		return "inside .git"
	case mode != "" && !slices.Contains([]string{"100644", "100755", "120000"}, mode):
		return "mode " + mode
	case !contract.Allowed(allowed, p):
		return "outside the allowed paths"
	}
	return ""
}

// joinPaths names a few of many.
func joinPaths(list []string) string {
	text := ""
	for i, p := range list {
		if i == maxNamedPaths {
			return text + fmt.Sprintf(" and %d more", len(list)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += p
	}
	return text
}
