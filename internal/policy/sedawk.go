package policy

import (
	"slices"
	"strings"
)

// sed reads unless it edits in place or its script writes, reads another file or runs something.
func (a *analysis) sed(args []word) verdict {
	var scripts []word
	var operands []word
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case !w.static && !w.flagSafe():
			return unknown("`sed` has an argument that is not known")
		case slices.Contains([]string{"-n", "-E", "-r", "-s", "-z", "-u", "-nE", "-nr", "-En", "--quiet", "--silent", "--regexp-extended", "--posix", "--debug"}, w.text):
		case (w.text == "-e" || w.text == "-ne" || w.text == "-Ee") && i+1 < len(args):
			i++
			scripts = append(scripts, args[i])
		case strings.HasPrefix(w.text, "-i") || strings.HasPrefix(w.text, "--in-place") || strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "i"):
			return a.sedInPlace(args)
		case strings.HasPrefix(w.text, "-") && w.text != "-":
			return unknown("`sed " + w.text + "` is not read")
		default:
			operands = append(operands, w)
		}
	}
	if len(scripts) == 0 {
		if len(operands) == 0 {
			return reads()
		}
		scripts, operands = operands[:1], operands[1:]
	}
	for _, s := range scripts {
		if !s.static || !sedReads(s.text) {
			return unknown("the script of `sed` does more than printing")
		}
	}
	if slices.ContainsFunc(operands, private) {
		return unknown("reads outside the repository")
	}
	return reads()
}

func (a *analysis) sedInPlace(args []word) verdict {
	for _, w := range args {
		if w.static && !strings.HasPrefix(w.text, "-") && strings.HasPrefix(w.text, "/") && !strings.HasPrefix(w.text, "/tmp/") &&
			strings.Count(w.text, "/") > 1 && !strings.ContainsAny(w.text, "{};,") {
			return outsideOf("sed -i")
		}
		if strings.HasPrefix(w.raw, "~") || strings.HasPrefix(w.text, "../") {
			return outsideOf("sed -i")
		}
	}
	return verdict{classWrites, "`sed -i` changes files"}
}

// sedReads accepts scripts of addresses and the commands p d q Q = n N l D P g G h H x s y, where s
// has no w and no e flag.
func sedReads(s string) bool {
	for {
		s = strings.TrimLeft(s, " \t\n;{}")
		if s == "" {
			return true
		}
		var ok bool
		if s, ok = sedAddress(s); !ok {
			return false
		}
		if s, ok = sedCommand(s); !ok {
			return false
		}
	}
}

func sedAddress(s string) (string, bool) {
	for s != "" {
		switch c := s[0]; {
		case c >= '0' && c <= '9', strings.IndexByte("$,+~! \tI", c) >= 0:
			s = s[1:]
		case c == '/':
			end := delimited(s[1:], '/')
			if end < 0 {
				return "", false
			}
			s = s[1+end+1:]
		default:
			return s, true
		}
	}
	return "", false
}

func sedCommand(s string) (string, bool) {
	switch c := s[0]; {
	case strings.IndexByte("pd=nNlDPgGhHx{}", c) >= 0:
		return s[1:], true
	case c == 'q' || c == 'Q':
		return strings.TrimLeft(s[1:], " 0123456789"), true
	case (c == 's' || c == 'y') && len(s) > 1 && s[1] != '\n' && s[1] != '\\' && s[1] < 0x80:
		rest := s[2:]
		for range 2 {
			end := delimited(rest, s[1])
			if end < 0 {
				return "", false
			}
			rest = rest[end+1:]
		}
		rest = strings.TrimLeft(rest, "gpiI0123456789mM")
		return rest, rest == "" || strings.IndexByte(" \t\n;}", rest[0]) >= 0
	}
	return "", false
}

// delimited is where the first delimiter without a backslash is, -1 for none. A bracket of a regular
// expression does not hide one here: what looks longer to sed then ends the script differently,
// so brackets that hold the delimiter are not accepted at all.
func delimited(s string, d byte) int {
	depth := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '[':
			depth = true
		case s[i] == ']':
			depth = false
		case s[i] == d:
			if depth {
				return -1
			}
			return i
		}
	}
	return -1
}

// awk reads when its program has no way to write or run anything. Comparisons with > look like a
// redirect and ask.
func awk(args []word) verdict {
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case !w.static && !w.flagSafe():
			return unknown("`awk` has an argument that is not known")
		case (w.text == "-F" || w.text == "-v") && i+1 < len(args):
			i++
			if !args[i].static && !args[i].single {
				return unknown("`awk` has an argument that is not known")
			}
		case strings.HasPrefix(w.text, "-F"):
		case strings.HasPrefix(w.text, "-"):
			return unknown("`awk " + w.text + "` is not read")
		default:
			prog := strings.ReplaceAll(w.text, "||", "")
			if !w.static || strings.ContainsAny(prog, "|>@") || strings.Contains(prog, "system") || strings.Contains(prog, "getline") {
				return unknown("the program of `awk` may write or run something")
			}
			if slices.ContainsFunc(args[i+1:], private) {
				return unknown("reads outside the repository")
			}
			return reads()
		}
	}
	return reads()
}
