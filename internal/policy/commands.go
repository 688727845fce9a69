package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// verdict is what is known of one simple command.
type verdict struct {
	class class
	why   string
}

func reads() verdict               { return verdict{classReads, "only reads"} }
func unknown(why string) verdict   { return verdict{classUnknown, why} }
func dangerous(why string) verdict { return verdict{classDangerous, why} }
func network(name string) verdict  { return verdict{classNetwork, "`" + name + "` uses the network"} }

func runsCode(name string) verdict {
	return verdict{classWrites, "`" + name + "` runs code of the repository"}
}

func outsideOf(name string) verdict {
	return verdict{classOutside, "`" + name + "` works outside the repository"}
}

// simple classifies one simple command and, for a wrapper, what it runs.
func (a *analysis) simple(words []word, text string) {
	c := &command{text: text, words: words}
	a.cmds = append(a.cmds, c)
	a.hosts = append(a.hosts, hostsOf(words)...)
	if !words[0].static {
		a.opaque(text, "runs a command whose name is not known")
		return
	}
	name := programName(words[0].text)
	v := a.verdict(name, words)
	for _, w := range words[1:] {
		if w.static && !strings.HasPrefix(w.text, "-") {
			a.usePath(w.text, v.class != classReads)
		} else if _, value, ok := strings.Cut(w.text, "="); ok && w.static {
			a.usePath(value, v.class != classReads)
		}
	}
	a.add(part{text: text, class: v.class, why: v.why, cmd: c, hosts: hostsOf(words)})
}

// programName is the name a command goes by; a path counts as its name only in the folders of the system.
func programName(text string) string {
	if dir := path.Dir(text); dir == "/bin" || dir == "/usr/bin" {
		return path.Base(text)
	}
	return text
}

func (a *analysis) verdict(name string, words []word) verdict {
	args := words[1:]
	if v, ok := a.wrapper(name, args); ok {
		return v
	}
	switch name {
	case "git":
		return a.git(args)
	case "sed":
		return a.sed(args)
	case "awk", "gawk", "mawk", "nawk":
		return awk(args)
	case "find":
		return find(args)
	case "cd", "pushd", "popd":
		return a.chdir(args)
	case "read":
		return readBuiltin(args)
	case "set":
		return setBuiltin(args)
	case "unset":
		return unsetBuiltin(args)
	case "go":
		return goTool(args)
	}
	if r, ok := readers()[name]; ok {
		return r.judge(name, args)
	}
	return a.changer(name, args)
}

// reader is a program that only reads unless an option says otherwise.
type reader struct {
	short   string   // letters of options that make it more than a reader
	long    []string // the same for long options; any beginning of one counts
	maxArgs int      // more operands than this make it write; 0: any number
	closed  bool     // no option can make it write, so its words need not be known
}

// readers is the read-only list.
func readers() map[string]reader {
	m := map[string]reader{
		"sort": {short: "oT", long: []string{"--output", "--compress-program", "--temporary-directory"}},
		"uniq": {maxArgs: 1}, "xxd": {short: "r", long: []string{"-revert"}, maxArgs: 1},
		"tree": {short: "oR", long: []string{"--output"}}, "date": {short: "s", long: []string{"--set"}, maxArgs: 1},
		"file": {short: "Cm", long: []string{"--compile", "--magic-file", "--preserve-date"}},
		"rg":   {short: "z", long: []string{"--pre", "--pre-glob", "--hostname-bin", "--search-zip"}},
		"fd":   {short: "xX", long: []string{"--exec", "--exec-batch"}}, "jq": {},
		"printf": {short: "v"}, "test": {short: "vR"}, "[": {short: "vR"},
		"type": {}, "which": {}, "diff": {long: []string{"--paginate"}, short: "l"}, "ls": {}, "hostname": {maxArgs: -1},
	}
	for name := range strings.FieldsSeq(`cat head tail wc pwd echo true false : basename dirname realpath readlink stat du df
		id whoami uname nproc arch tr cut paste nl od hexdump strings cmp comm join fold fmt expand unexpand tac rev sum cksum
		md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum base64 base32 seq sleep printenv grep egrep fgrep column
		locale getconf uptime free ps lscpu exit return break continue shift groups tty`) {
		m[name] = reader{closed: true}
	}
	return m
}

func (r reader) judge(name string, args []word) verdict {
	operands, noMore := 0, false
	for _, w := range args {
		if private(w) {
			return unknown("reads outside the repository")
		}
		if r.closed {
			continue
		}
		if !noMore && !w.flagSafe() {
			if !w.static {
				return unknown("`" + name + "` has an argument that is not known")
			}
			if w.text == "--" {
				noMore = true
				continue
			}
			if w.text != "-" && r.more(w.text) {
				return unknown("`" + name + " " + w.text + "` does more than reading")
			}
			if w.text != "-" {
				continue
			}
		}
		if !w.static && !w.single {
			operands++ // any number of words
		}
		operands++
	}
	if r.maxArgs != 0 && operands > max(0, r.maxArgs) {
		return unknown("`" + name + "` with these operands does more than reading")
	}
	return reads()
}

// more reports whether an option does more than reading.
func (r reader) more(flag string) bool {
	name, _, _ := strings.Cut(flag, "=")
	for _, l := range r.long {
		if strings.HasPrefix(l, name) && len(name) > 2 || name == l {
			return true
		}
	}
	return !strings.HasPrefix(flag, "--") && strings.ContainsAny(flag, r.short) && r.short != ""
}

var privateStart = []string{"/etc", "/root", "/home", "/Users", "/proc", "/run", "/var", "/private", "/mnt", "/media", "/sys", "/dev"}

// private reports whether a word seems to name a file outside the repository that is nobody's business.
func private(w word) bool {
	raw := strings.TrimLeft(w.raw, `"'`)
	if strings.HasPrefix(raw, "~") || strings.HasPrefix(raw, "$HOME") || strings.HasPrefix(raw, "${HOME") {
		return true
	}
	if isDevice(w.text) {
		return false
	}
	clean := path.Clean(w.text)
	if !strings.HasPrefix(w.text, "/") {
		return w.text != "" && (clean == ".." || strings.HasPrefix(clean, "../"))
	}
	return slices.ContainsFunc(privateStart, func(p string) bool {
		return clean == p || strings.HasPrefix(clean, p+"/")
	})
}

var plainName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
})

// touchy reports whether a variable changes how programs are found or what they do.
func touchy(name string) bool {
	for _, p := range []string{"LD_", "DYLD_", "GIT_", "BASH_", "PYTHON", "PERL", "RUBY", "NODE_", "LESS", "GO", "CGO", "CARGO", "RUST", "XDG_", "npm_", "NPM_", "MAKE", "PS", "JAVA", "GCONV", "LOCPATH", "DOCKER", "SSH", "PIP_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return slices.Contains([]string{
		"PATH", "ENV", "IFS", "SHELL", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PAGER", "MANPAGER", "EDITOR", "VISUAL",
		"RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "AWKPATH", "AWKLIBPATH", "HOME", "TMPDIR", "CDPATH", "GLOBIGNORE", "FCEDIT", "FPATH",
		"EXECIGNORE", "POSIXLY_CORRECT", "TERMINFO", "MAGIC", "CC", "CXX", "CFLAGS", "LDFLAGS", "HISTFILE", "BROWSER", "TAR_OPTIONS",
		"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "no_proxy", "NO_PROXY",
	}, name)
}

func readBuiltin(args []word) verdict {
	for i, w := range args {
		if !w.static {
			return unknown("sets a variable whose name is not known")
		}
		if strings.HasPrefix(w.text, "-") || i > 0 && strings.ContainsAny(args[i-1].text, "dnNtpu") && strings.HasPrefix(args[i-1].text, "-") {
			continue
		}
		if !plainName().MatchString(w.text) || touchy(w.text) {
			return unknown(whyEnv)
		}
	}
	return reads()
}

func unsetBuiltin(args []word) verdict {
	for _, w := range args {
		if !w.static || !plainName().MatchString(strings.TrimPrefix(w.text, "-")) || touchy(w.text) {
			return unknown(whyEnv)
		}
	}
	return reads()
}

var setOptions = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[-+][euxfvnbC]*o?$|^(pipefail|errexit|nounset|xtrace|noglob)$`)
})

func setBuiltin(args []word) verdict {
	for _, w := range args {
		if !w.static || !setOptions().MatchString(w.text) {
			return unknown("`set` changes the arguments or options of the shell")
		}
	}
	return reads()
}

// chdir makes relative paths unsure unless it stays in the tree for certain.
func (a *analysis) chdir(args []word) verdict {
	if len(args) != 1 || !args[0].static || args[0].text == "-" || args[0].text == "" || a.leavesTree(args[0]) ||
		strings.HasPrefix(args[0].text, "/") || slices.Contains(strings.Split(args[0].text, "/"), "..") {
		a.moved = true
		if len(args) == 1 && args[0].static && strings.HasPrefix(args[0].text, "/") && !private(args[0]) {
			return reads()
		}
		return unknown("leaves the folder of the repository")
	}
	a.dir = path.Join(a.dir, args[0].text)
	return reads()
}

func find(args []word) verdict {
	for _, w := range args {
		switch {
		case private(w):
			return unknown("reads outside the repository")
		case !w.flagSafe() && !w.static:
			return unknown("`find` has an argument that is not known")
		case slices.Contains([]string{"-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"}, w.text):
			return unknown("`find " + w.text + "` runs or writes something")
		}
	}
	return reads()
}

func goTool(args []word) verdict {
	if len(args) == 0 || !args[0].static {
		return runsCode("go")
	}
	switch args[0].text {
	case "version", "doc", "help":
		if slices.ContainsFunc(args, func(w word) bool { return !w.static }) {
			return unknown("`go` has an argument that is not known")
		}
		return reads()
	case "env":
		if slices.ContainsFunc(args[1:], func(w word) bool { return !w.static || strings.HasPrefix(w.text, "-") && w.text != "-json" }) {
			return unknown("`go env` changes settings")
		}
		return reads()
	case "get", "install", "mod":
		return network("go " + args[0].text)
	}
	return runsCode("go " + args[0].text)
}

// networked are programs whose purpose is the network.
func networked(name string, args []word) bool {
	first := ""
	for _, w := range args {
		if !strings.HasPrefix(w.text, "-") {
			first = w.text
			break
		}
	}
	switch name {
	case "curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "ping", "dig", "nslookup", "host",
		"apt", "apt-get", "apk", "yum", "dnf", "brew", "docker", "podman", "kubectl", "gh", "glab", "aws", "gcloud", "az", "ssh-keyscan", "http", "openssl", "lynx", "npx":
		return true
	case "npm", "pnpm", "yarn", "bun":
		return first == "" && name != "npm" || slices.Contains([]string{"install", "i", "ci", "add", "update", "publish", "exec", "dlx", "create", "init", "login"}, first)
	case "pip", "pip3", "uv", "pipx", "poetry", "gem", "bundle", "composer":
		return true
	case "cargo":
		return slices.Contains([]string{"install", "add", "update", "publish", "fetch", "search"}, first)
	}
	return false
}

// changer classifies programs that are not on the read-only list.
func (a *analysis) changer(name string, args []word) verdict {
	switch {
	case networked(name, args):
		return network(name)
	case slices.Contains([]string{"mkfs", "shutdown", "reboot", "halt", "poweroff", "init", "mount", "umount", "chroot", "insmod", "kill", "killall", "pkill", "crontab", "systemctl", "iptables", "useradd", "passwd", "visudo"}, name) ||
		strings.HasPrefix(name, "mkfs."):
		return dangerous("`" + name + "` changes the machine")
	case isInterpreter(name), slices.Contains([]string{"make", "cargo", "npm", "pnpm", "yarn", "bun", "tox", "pytest", "mvn", "gradle", "cmake", "ninja", "bazel", "rake", "just"}, name), strings.Contains(name, "/"):
		return runsCode(name)
	case slices.Contains([]string{"rm", "mv", "cp", "mkdir", "touch", "ln", "chmod", "chown", "tee", "install", "truncate", "dd", "rmdir", "patch", "tar", "unzip", "zip", "gzip", "gunzip", "split", "gofmt", "prettier"}, name):
		return a.writer(name, args)
	case slices.Contains([]string{"eval", "source", ".", "exec", "trap", "alias", "unalias", "enable", "hash", "shopt", "bind", "complete", "mapfile", "readarray", "getopts", "fc", "ulimit", "umask", "coproc"}, name):
		return unknown("`" + name + "` changes how the rest of the script is read or run")
	}
	return unknown("`" + name + "` is not on the read-only list")
}

// writer classifies programs that change the files they name.
func (a *analysis) writer(name string, args []word) verdict {
	recursive := false
	for _, w := range args {
		if strings.HasPrefix(w.text, "-") {
			recursive = recursive || !strings.HasPrefix(w.text, "--") && strings.ContainsAny(w.text, "rR") || w.text == "--recursive"
		}
	}
	v := verdict{classWrites, "`" + name + "` changes files"}
	for _, w := range args {
		text := w.text
		if _, value, ok := strings.Cut(text, "="); ok && (strings.HasPrefix(text, "-") || name == "dd") {
			text = value
		} else if strings.HasPrefix(text, "-") {
			continue
		}
		w.text = text
		switch {
		case !w.static && !w.single:
			v = verdict{max(v.class, classUnknown), "`" + name + "` changes files whose names are not known"}
		case a.leavesTree(w) && !isDevice(w.text):
			v = outsideOf(name)
		}
		if recursive && (name == "rm" || name == "chmod" || name == "chown") && sweeping(w) {
			return dangerous("`" + name + "` would take everything below `" + w.raw + "`")
		}
	}
	return v
}

func sweeping(w word) bool {
	clean := path.Clean(w.text)
	return w.text != "" && (clean == "/" || clean == "." || clean == ".." || strings.HasPrefix(w.raw, "~")) || w.raw == "*" || w.raw == "/*" || w.raw == "./*"
}

func isShell(name string) bool {
	return slices.Contains([]string{"sh", "bash", "zsh", "dash", "ksh", "ash", "fish"}, path.Base(name))
}

var interpreter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(python|perl|ruby|node|nodejs|deno|php|lua|tclsh|osascript|pwsh|R|Rscript|java|julia|erl|elixir|ghci|expect)[0-9.]*$`)
})

func isInterpreter(name string) bool { return interpreter().MatchString(path.Base(name)) }

// subcommandWords is how many words of a command make a scope that people understand, 0 for a
// program whose sub-commands are not known: then the scope is the command as it is.
func subcommandWords(words []string) int {
	if len(words) < 2 {
		return 0
	}
	known := map[string]string{
		"go":    "build test vet fmt run generate",
		"git":   "add commit restore checkout switch stash rm mv reset merge rebase tag branch",
		"cargo": "build test check clippy fmt",
		"npm":   "test", "make": "",
	}
	if slices.Contains(strings.Fields(known[words[0]]), words[1]) {
		return 2
	}
	return 0
}
