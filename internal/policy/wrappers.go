package policy

import (
	"path"
	"slices"
	"strings"
)

// wrapper classifies programs that run another one. What they run is a part of its own.
func (a *analysis) wrapper(name string, args []word) (verdict, bool) {
	switch {
	case name == "env":
		return a.env(args), true
	case name == "command", name == "builtin":
		return a.builtin(name, args), true
	case name == "nice", name == "time", name == "stdbuf", name == "nohup", name == "setsid", name == "ionice":
		return a.runsRest(name, args, map[string]bool{"-n": true, "-o": true, "-e": true, "-i": true, "-c": true, "-f": true}), true
	case name == "timeout":
		return a.timeout(args), true
	case name == "xargs", name == "parallel":
		return a.xargs(args), true
	case name == "sudo", name == "doas", name == "su", name == "runuser", name == "pkexec":
		a.runsRest(name, args, map[string]bool{"-u": true, "-g": true, "-h": true, "-p": true, "-C": true})
		return dangerous("`" + name + "` takes other rights"), true
	case isShell(name):
		return a.shell(name, args), true
	case name == "eval":
		return a.eval(args), true
	case name == "source", name == ".":
		a.unread("it runs the script of a file")
		return unknown("`" + name + "` runs the script of a file"), true
	case name == "exec":
		return a.exec(args), true
	}
	return verdict{}, false
}

func (a *analysis) unread(why string) {
	a.compound = true
	if a.unreadable == "" {
		a.unreadable = why
	}
}

// inner classifies the command a wrapper runs.
func (a *analysis) inner(words []word) {
	a.compound = true
	if a.depth > maxDepth {
		a.unread("it is too deep to read")
		return
	}
	a.depth++
	a.simple(words, joinRaw(words))
	a.depth--
}

func joinRaw(words []word) string {
	raw := make([]string, len(words))
	for i, w := range words {
		raw[i] = w.raw
	}
	return strings.Join(raw, " ")
}

// runsRest skips the wrapper's own options, those in valued with one more word.
func (a *analysis) runsRest(name string, args []word, valued map[string]bool) verdict {
	for i := 0; i < len(args); i++ {
		w := args[i]
		if !w.static {
			a.unread("it runs a command whose name is not known")
			return unknown("`" + name + "` runs a command that is not known")
		}
		if w.text == "--" {
			i++
		} else if strings.HasPrefix(w.text, "-") {
			if valued[w.text] {
				i++
			}
			continue
		}
		if i < len(args) {
			a.inner(args[i:])
		}
		break
	}
	if name == "nohup" || name == "setsid" {
		return verdict{classWrites, "`" + name + "` leaves a program running"}
	}
	return reads()
}

func (a *analysis) env(args []word) verdict {
	v := reads()
	for i, w := range args {
		name, _, assigns := strings.Cut(w.text, "=")
		switch {
		case !w.static && !(w.single && assigns):
			a.unread("it runs a command whose name is not known")
			return unknown("`env` runs a command that is not known")
		case w.text == "-i" || w.text == "-" || w.text == "-0":
		case strings.HasPrefix(w.text, "-"):
			a.unread("`env` builds a command from text")
			return unknown("`env " + w.text + "` is not read")
		case assigns:
			a.compound = true
			if touchy(name) {
				v = unknown(whyEnv)
			}
		default:
			a.inner(args[i:])
			return v
		}
	}
	return v
}

func (a *analysis) builtin(name string, args []word) verdict {
	if len(args) == 0 {
		return reads()
	}
	if f := args[0]; f.static && (f.text == "-v" || f.text == "-V") && name == "command" {
		return reads()
	}
	return a.runsRest(name, args, nil)
}

func (a *analysis) timeout(args []word) verdict {
	for i := 0; i < len(args); i++ {
		w := args[i]
		if !w.static {
			break
		}
		if strings.HasPrefix(w.text, "-") {
			if w.text == "-k" || w.text == "-s" || w.text == "--kill-after" || w.text == "--signal" {
				i++
			}
			continue
		}
		if i+1 < len(args) {
			a.inner(args[i+1:])
		}
		return reads()
	}
	a.unread("it runs a command whose name is not known")
	return unknown("`timeout` runs a command that is not known")
}

// xargs adds words that are not known to the command it runs.
func (a *analysis) xargs(args []word) verdict {
	replace := ""
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case !w.static:
			a.unread("it runs a command whose name is not known")
			return unknown("`xargs` runs a command that is not known")
		case w.text == "-I" && i+1 < len(args):
			i++
			replace = args[i].text
		case slices.Contains([]string{"-n", "-P", "-L", "-d", "-s", "-E"}, w.text):
			i++
		case slices.Contains([]string{"-0", "-r", "-t", "--null", "--no-run-if-empty"}, w.text):
		case strings.HasPrefix(w.text, "-"):
			a.unread("`xargs` has an option that is not known")
			return unknown("`xargs " + w.text + "` is not read")
		default:
			a.inner(withUnknown(args[i:], replace))
			return reads()
		}
	}
	return reads() // echo
}

func withUnknown(words []word, replace string) []word {
	out := slices.Clone(words)
	for i := range out {
		if replace != "" && strings.Contains(out[i].text, replace) {
			at := strings.Index(out[i].text, replace)
			out[i].static, out[i].text = false, out[i].text[:at]
		}
	}
	if replace == "" {
		out = append(out, word{raw: "…"})
	}
	return out
}

// shell reads the script of sh -c; any other shell runs something that cannot be seen.
func (a *analysis) shell(name string, args []word) verdict {
	for i, w := range args {
		if !w.static || !strings.HasPrefix(w.text, "-") {
			break
		}
		if !strings.HasPrefix(w.text, "--") && strings.HasSuffix(w.text, "c") && strings.Trim(w.text, "-ceuxlo") == "" {
			if i+1 < len(args) && args[i+1].static && len(args) == i+2 {
				a.compound = true
				a.nested(args[i+1].text)
				if strings.Contains(w.text, "l") {
					return unknown("a login shell reads files that are not known")
				}
				return reads()
			}
			break
		}
	}
	a.unread("it runs a script that is not known")
	if len(args) > 0 && args[0].static && !strings.HasPrefix(args[0].text, "-") {
		return runsCode(path.Base(name))
	}
	return unknown("`" + name + "` runs a script that is not known")
}

func (a *analysis) eval(args []word) verdict {
	texts := make([]string, len(args))
	for i, w := range args {
		if !w.static {
			a.unread("it evaluates text that is not known")
			return unknown("`eval` runs text that is not known")
		}
		texts[i] = w.text
	}
	a.compound = true
	a.nested(strings.Join(texts, " "))
	return unknown("`eval` runs text as a script")
}

func (a *analysis) exec(args []word) verdict {
	if len(args) > 0 {
		return a.execRest(args)
	}
	return unknown("`exec` changes where the rest of the script reads and writes")
}

func (a *analysis) execRest(args []word) verdict {
	a.runsRest("exec", args, map[string]bool{"-a": true})
	return unknown("`exec` replaces the shell")
}
