package runner

import (
	"fmt"
	"slices"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/workspace"
)

// maxNamedPaths bounds how many paths a message names.
const maxNamedPaths = 10

// outsidePaths gives the changed paths that the task does not allow, with the rule each breaks. It reads
// the two trees of the patch, in which a rename is two paths.
func outsidePaths(snap workspace.Snapshot, allowed []string) []string {
	var out []string
	for _, r := range snap.Manifest {
		for _, s := range []*workspace.FileState{r.Before, r.After} {
			if s == nil {
				continue
			}
			if why := breaks(r.Path, s.Mode, allowed); why != "" {
				out = append(out, fmt.Sprintf("%s (%s)", contract.CleanText(r.Path), why))
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

// refusedParts reads the text of the patch itself, as whoever applies it will: it finds links that lead
// out of the tree and whatever else a list of changed files does not show. The code is that of the
// first refusal.
func refusedParts(patch []byte, allowed []string) (out []string, code contract.FailureCode) {
	if len(patch) == 0 {
		return nil, ""
	}
	_, refusals := workspace.CheckPatch(patch, allowed)
	for _, r := range refusals {
		out = append(out, contract.CleanText(r.Field+" ("+r.Detail+")"))
	}
	if len(refusals) > 0 {
		code = contract.FailureCode(refusals[0].Code)
	}
	return out, code
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
