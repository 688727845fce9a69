package policy

import (
	"slices"
	"strings"
)

// gitReaders are sub-commands that only read with any options but the ones gitWrites names.
const gitReaders = `status log diff show blame annotate ls-files ls-tree cat-file rev-parse rev-list describe shortlog
	name-rev merge-base grep count-objects check-ignore check-attr for-each-ref show-ref diff-tree diff-index diff-files
	version whatchanged range-diff cherry var merge-tree`

// gitWrites are options that make a reader write or run something; beginnings of long ones count.
var gitWrites = []string{"--output", "--ext-diff", "--textconv", "--open-files-in-pager", "--exec", "--filters", "--upload-pack", "--no-index", "--contents", "--write-tree"}

// git classifies a git command. Only known sub-commands with known options read; a -c or a
// --git-dir can make any of them run a program.
func (a *analysis) git(args []word) verdict {
	for i := 0; i < len(args); i++ {
		w := args[i]
		if !w.static {
			a.unread("it runs a git command that is not known")
			return unknown("`git` has an argument that is not known")
		}
		switch {
		case w.text == "--no-pager" || w.text == "--no-optional-locks" || w.text == "--literal-pathspecs" || w.text == "--bare":
		case w.text == "-C":
			if i++; i >= len(args) || !args[i].static || a.leavesTree(args[i]) || strings.HasPrefix(args[i].text, "/") {
				return unknown("`git -C` works in another folder")
			}
		case w.text == "--version":
			return reads()
		case strings.HasPrefix(w.text, "-"):
			return unknown("`git " + w.text + "` changes what git runs or where")
		default:
			return a.gitSub(w.text, args[i+1:])
		}
	}
	return reads() // prints its help
}

func (a *analysis) gitSub(sub string, args []word) verdict {
	switch sub {
	case "fetch", "pull", "push", "clone", "ls-remote", "remote-http", "send-email", "request-pull", "svn", "archive":
		if sub == "push" && slices.ContainsFunc(args, func(w word) bool {
			return w.text == "-f" || strings.HasPrefix(w.text, "--force") || strings.HasPrefix(w.text, "+")
		}) {
			return dangerous("`git push` by force")
		}
		return network("git " + sub)
	case "submodule":
		if len(args) == 0 || args[0].text == "status" && args[0].static {
			return gitOptions(sub, args)
		}
		return network("git submodule")
	}
	if slices.Contains(strings.Fields(gitReaders), sub) {
		return gitOptions(sub, args)
	}
	if gitLists(sub, args) {
		return gitOptions(sub, args)
	}
	return verdict{classWrites, "`git " + sub + "` changes the repository"}
}

// gitLists are the listing forms of sub-commands that otherwise write.
func gitLists(sub string, args []word) bool {
	first := ""
	if len(args) > 0 {
		first = args[0].text
	}
	only := func(flags ...string) bool {
		return !slices.ContainsFunc(args, func(w word) bool {
			name, _, _ := strings.Cut(w.text, "=")
			return !w.static || !slices.Contains(flags, name)
		})
	}
	switch sub {
	case "branch":
		return only("-a", "-r", "-v", "-vv", "--list", "--all", "--show-current", "--verbose", "--remotes", "--sort", "--format")
	case "tag":
		return only("-l", "--list", "-n", "--sort", "--format")
	case "remote":
		return only("-v", "--verbose") || first == "get-url" && len(args) == 2
	case "stash":
		return first == "list" || first == "show"
	case "worktree":
		return first == "list"
	case "reflog":
		return len(args) == 0 || first == "show"
	case "config":
		return slices.Contains([]string{"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"}, first)
	}
	return false
}

func gitOptions(sub string, args []word) verdict {
	pathsOnly := false
	for _, w := range args {
		if pathsOnly || w.flagSafe() {
			if private(w) {
				return unknown("reads outside the repository")
			}
			continue
		}
		switch {
		case !w.static:
			return unknown("`git " + sub + "` has an argument that is not known")
		case w.text == "--":
			pathsOnly = true
		case w.text == "-c" && sub != "log" && sub != "show" && sub != "diff" && sub != "ls-files" && sub != "grep":
			return unknown("`git " + sub + " -c` is not read")
		case gitWritesFlag(sub, w.text):
			return unknown("`git " + sub + " " + w.text + "` writes or runs something")
		}
	}
	return reads()
}

func gitWritesFlag(sub, flag string) bool {
	name, _, _ := strings.Cut(flag, "=")
	if strings.HasPrefix(name, "--") {
		return slices.ContainsFunc(gitWrites, func(l string) bool { return len(name) > 2 && strings.HasPrefix(l, name) })
	}
	return sub == "grep" && strings.Contains(name, "O")
}
