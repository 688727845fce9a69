package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rivumi/rivumi/internal/contract"
)

// titleOf gives a call's one line: its command, else its path, else its arguments.
func titleOf(name string, args json.RawMessage) string {
	var a struct {
		Command string `json:"command"`
		Script  string `json:"script"`
		Path    string `json:"path"`
	}
	if json.Unmarshal(args, &a) == nil {
		for _, s := range []string{a.Command, a.Script, a.Path} {
			if s != "" {
				return OneLine(s)
			}
		}
	}
	if name == "" || len(args) == 0 {
		return ""
	}
	return OneLine(string(args))
}

// OneLine joins the lines of a text into one and makes it safe to show.
func OneLine(s string) string {
	return contract.CleanText(strings.Join(strings.Fields(s), " "))
}

// Clip cuts a text to at most n characters, with an ellipsis where it was cut.
func Clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:max(0, n-1)]) + "…"
}

// Commit is the short form of a commit id.
func Commit(sha string) string { return sha[:min(8, len(sha))] }

// Tail gives the last n lines of a text and how many were left out before them.
func Tail(s string, n int) (lines []string, left int) {
	s = strings.TrimRight(s, "\n")
	if s == "" {
		return nil, 0
	}
	all := strings.Split(s, "\n")
	if len(all) <= n {
		return all, 0
	}
	return all[len(all)-n:], len(all) - n
}

// Length writes a duration the way a person reads it: 340 ms, 1.2 s, 4:05.
func Length(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// Tokens writes a count of tokens: 950, 18.2k, 1.4M.
func Tokens(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1_000_000)
}

// Cost writes an amount of US dollars.
func Cost(usd float64) string {
	if usd != 0 && usd < 0.01 {
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

// Changes sums the changed files: "2 files changed, +9 -1".
func Changes(files []contract.FileChange) string {
	if len(files) == 0 {
		return "no files changed"
	}
	plus, minus := 0, 0
	for _, f := range files {
		plus, minus = plus+max(0, f.Additions), minus+max(0, f.Deletions)
	}
	word := "files"
	if len(files) == 1 {
		word = "file"
	}
	return fmt.Sprintf("%d %s changed, +%d -%d", len(files), word, plus, minus)
}

// Letter is the one-letter status of a changed file, as git writes it.
func Letter(f contract.FileChange) string {
	switch f.Status {
	case "added":
		return "A"
	case "deleted":
		return "D"
	case "renamed":
		return "R"
	}
	return "M"
}

func retryText(d contract.ModelRetry) string {
	return fmt.Sprintf("model call failed (%s), attempt %d in %s", d.Reason, d.Attempt+1,
		Length(time.Duration(d.InSeconds*float64(time.Second))))
}

func compactedText(d contract.Compacted) string {
	return fmt.Sprintf("older history was shortened (%s): %s to %s tokens", d.Kind, Tokens(d.Before), Tokens(d.After))
}

// countLines counts the added and removed lines of a unified diff.
func countLines(diff string) (plus, minus int) {
	for line := range strings.Lines(diff) {
		switch {
		case strings.HasPrefix(line, "+++") || strings.HasPrefix(line, "---"):
		case strings.HasPrefix(line, "+"):
			plus++
		case strings.HasPrefix(line, "-"):
			minus++
		}
	}
	return plus, minus
}

// keepNewest bounds a live text, cutting at a character.
func keepNewest(s string, cut bool) (string, bool) {
	if len(s) <= MaxLive {
		return s, cut
	}
	s = s[len(s)-MaxLive/2:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s, true
}
