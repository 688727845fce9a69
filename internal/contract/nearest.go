package contract

import (
	"slices"
	"strings"
)

// Nearest gives the name most like word, or "" when none is near enough to be what was meant.
// It serves the hints for mistyped keys, flags and ids.
func Nearest(word string, names []string) string {
	fold := strings.NewReplacer("_", "", "-", "", ".", "")
	w := fold.Replace(strings.ToLower(word))
	if len(w) > 64 {
		return ""
	}
	slices.Sort(names)
	best, bestDistance := "", len(w)/3+2
	for _, name := range names {
		d := distance(w, fold.Replace(strings.ToLower(name)))
		if d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two short ASCII words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
