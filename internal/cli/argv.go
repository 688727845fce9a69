package cli

import (
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// shellOnly are the characters that mean something to a shell outside of quotes; a check that
// holds one would not do what it says when run without a shell.
const shellOnly = "|&;<>()$`*?[]{}~#!\n"

// splitCheck splits a check into words without a shell: blanks separate, single and double quotes
// and backslashes keep together. What would need a shell is refused.
func splitCheck(s string) (contract.Check, error) {
	var words contract.Check
	var word strings.Builder
	open, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == '\'' && c != '\'', quote == '"' && c != '"' && c != '\\':
			if quote == '"' && (c == '$' || c == '`') {
				return nil, needsShell(s, c)
			}
			word.WriteByte(c)
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\':
			if i+1 == len(s) {
				return nil, usagef("", "check %q ends in a backslash", s)
			}
			i++
			word.WriteByte(s[i])
			open = true
		case c == '\'' || c == '"':
			quote, open = c, true
		case c == ' ' || c == '\t':
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		case strings.IndexByte(shellOnly, c) >= 0:
			return nil, needsShell(s, c)
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if quote != 0 {
		return nil, usagef("close the quote", "check %q has an open quote", s)
	}
	if open {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, usagef("--check 'go test ./...'", "a check must name a program")
	}
	if strings.Contains(words[0], "=") {
		return nil, usagef("--check 'env "+s+"'", "check %q sets a variable, which needs a shell", s)
	}
	return words, nil
}

func needsShell(s string, c byte) error {
	return usagef("checks run without a shell; quote the character, or put the script in a file, or say it: --check \"sh -c '…'\"",
		"check %q needs a shell because of %q", s, string(c))
}

// quoteWord writes a word so that a shell reads it back as one.
func quoteWord(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r == '-' || r == '_' || r == '.' || r == '/' || r == ':' || r == '=' || r == '@' || r == '%' || r == '+' || r == ',' ||
			r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r > 0x7f)
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// quoteArgv writes an argv as a shell line.
func quoteArgv(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = quoteWord(a)
	}
	return strings.Join(words, " ")
}
