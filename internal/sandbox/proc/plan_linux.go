package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rivumi/rivumi/internal/sandbox"
)

// openRequest is the first message of a session: all that a supervisor needs to make the place.
type openRequest struct {
	Tree     string
	Env      []string
	Lower    string // of an overlay, with Upper and Work; "" for a plain tree
	Upper    string
	Work     string
	Binds    []bind
	Layered  []layered         // caches, over which what commands write is kept apart
	Folders  []string          // empty folders in memory that commands may write
	Links    [][2]string       // target, path
	Files    map[string]string // small files made up for the inside
	Listen   bool              // make a listener in the session's network and hand it out
	FullProc bool
	Limits   sandbox.Limits
	Off      []string // controls left out; only tests set it
}

// bind shows a folder or file of the host at the same path inside, or at At.
type bind struct {
	Path     string
	At       string // "" is Path
	Writable bool
	Optional bool // a missing one is left out
}

func (b bind) at() string {
	if b.At != "" {
		return b.At
	}
	return b.Path
}

// off reports whether a test left a control out. Without namespaces there is nothing that stands on them.
func (q *openRequest) off(control string) bool {
	bare := slices.Contains(q.Off, "namespaces") && slices.Contains([]string{"view", "net", "pid"}, control)
	return bare || slices.Contains(q.Off, control)
}

// systemPaths are shown read-only where they exist. A link among them stays a link.
var systemPaths = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system/sw"}

// etcPaths is what of /etc programs need and anybody may read: no keys, no passwords, no mounts.
var etcPaths = []string{
	"alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts", "gai.conf", "java-11-openjdk",
	"java-17-openjdk", "java-21-openjdk", "java-25-openjdk", "java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "lsb-release", "magic",
	"mailcap", "maven", "mime.types", "nsswitch.conf", "os-release", "perl", "pki/tls/certs", "pki/tls/cert.pem", "pki/ca-trust/extracted",
	"pki/java", "profile.d/lang.sh", "protocols", "python3", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14",
	"rpc", "services", "ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "terminfo", "timezone",
}

// forbiddenBinds must not be shown whole: they are the host's, or make a hole in the rest.
var forbiddenBinds = []string{"/", "/proc", "/sys", "/dev", "/run", "/etc", "/boot", "/var"}

// planFull says what the strongest local place shows.
func planFull(s sandbox.Spec, fullProc bool) (openRequest, error) {
	q := openRequest{Tree: s.Tree, Env: s.Env, FullProc: fullProc, Limits: s.Limits, Listen: len(s.Hosts) > 0}
	if slices.Contains(forbiddenBinds, s.Tree) {
		return q, startError("open a session", fmt.Errorf("%s cannot be a tree", s.Tree))
	}
	q.system()
	q.toolchains(s.Env)
	q.private(s)
	for _, b := range s.Binds {
		p := filepath.Clean(b.Path)
		if !filepath.IsAbs(p) || slices.Contains(forbiddenBinds, p) {
			return q, startError("open a session", fmt.Errorf("folder %q cannot be shown in a sandbox", b.Path))
		}
		q.Binds = append(q.Binds, bind{Path: p, Writable: b.Writable})
	}
	switch {
	case s.Overlay == nil:
		q.Binds = append(q.Binds, bind{Path: s.Tree, Writable: !s.ReadOnly})
	case s.ReadOnly:
		q.Binds = append(q.Binds, bind{Path: s.Overlay.Lower, At: s.Tree})
	default:
		q.Lower, q.Upper, q.Work = s.Overlay.Lower, s.Overlay.Upper, s.Overlay.Work
	}
	q.sort()
	return q, nil
}

// sort puts parents before what lies below them; of binds at one place the last one given stands.
func (q *openRequest) sort() {
	last := make(map[string]bind, len(q.Binds))
	for _, b := range q.Binds {
		last[b.at()] = b
	}
	q.Binds = q.Binds[:0]
	for _, b := range last {
		q.Binds = append(q.Binds, b)
	}
	slices.SortFunc(q.Binds, func(a, b bind) int { return strings.Compare(a.at(), b.at()) })
	slices.Sort(q.Folders)
	q.Links = slices.DeleteFunc(q.Links, func(l [2]string) bool {
		return slices.ContainsFunc(q.Binds, func(b bind) bool { return within(b.at(), l[1]) }) // a folder stands there
	})
}

func (q *openRequest) system() {
	for _, p := range systemPaths {
		if target, err := os.Readlink(p); err == nil {
			q.Links = append(q.Links, [2]string{target, p})
			continue
		}
		q.Binds = append(q.Binds, bind{Path: p, Optional: true})
	}
	for _, n := range etcPaths {
		q.Binds = append(q.Binds, bind{Path: filepath.Join("/etc", n), Optional: true})
	}
	for _, n := range []string{"null", "zero", "full", "random", "urandom"} {
		q.Binds = append(q.Binds, bind{Path: "/dev/" + n, Writable: true})
	}
	q.Links = append(q.Links,
		[2]string{"/proc/self/fd", "/dev/fd"}, [2]string{"/proc/self/fd/0", "/dev/stdin"},
		[2]string{"/proc/self/fd/1", "/dev/stdout"}, [2]string{"/proc/self/fd/2", "/dev/stderr"},
		[2]string{"/tmp", "/var/tmp"})
}

// private gives HOME, /tmp and the small files that name this user. They come from the scratch
// folder, so that what commands write there is on a disk and not in memory; without one they are in
// memory.
func (q *openRequest) private(s sandbox.Spec) {
	home := lookup(s.Env, "HOME")
	q.Folders = append(q.Folders, "/dev/shm")
	if s.Scratch != "" {
		tmp := filepath.Join(s.Scratch, "tmp")
		q.Binds = append(q.Binds,
			bind{Path: filepath.Join(s.Scratch, "home"), Writable: true},
			bind{Path: tmp, Writable: true}, bind{Path: tmp, At: "/tmp", Writable: true})
	} else {
		q.Folders = append(q.Folders, "/tmp")
	}
	if home == "" || !filepath.IsAbs(home) {
		home = "/home/agent"
	}
	if s.Scratch == "" || !within(home, s.Scratch) {
		q.Folders = append(q.Folders, filepath.Clean(home))
	}
	uid, gid := strconv.Itoa(os.Getuid()), strconv.Itoa(os.Getgid())
	passwd, group := "agent:x:"+uid+":"+gid+":agent:"+home+":/bin/sh\n", "agent:x:"+gid+":\n"
	if uid != "0" {
		passwd = "root:x:0:0:root:/:/bin/false\n" + passwd
	}
	if gid != "0" {
		group = "root:x:0:\n" + group
	}
	q.Files = map[string]string{
		"/etc/passwd": passwd,
		"/etc/group":  group,
		"/etc/hosts":  "127.0.0.1 localhost sandbox\n::1 localhost\n",
	}
}

// toolchains shows, read-only, where the programs of the environment's PATH live and what they name
// by their own variables.
func (q *openRequest) toolchains(env []string) {
	home, _ := os.UserHomeDir()
	for _, d := range filepath.SplitList(lookup(env, "PATH")) {
		if filepath.IsAbs(d) {
			q.toolFolder(filepath.Clean(d), home)
		}
	}
	for _, name := range sandbox.ToolVariables() {
		p := lookup(env, name)
		if !filepath.IsAbs(p) {
			continue
		}
		p = filepath.Clean(p)
		if p == home || within(home, p) || slices.Contains(forbiddenBinds, p) || len(strings.Split(p, "/")) < 3 {
			continue // a variable that names more than one toolchain
		}
		q.Binds = append(q.Binds, bind{Path: p, Optional: true})
	}
}

// homeTools are the toolchain managers that keep nothing but programs in their folder below HOME.
var homeTools = []string{
	".pyenv", ".rbenv", ".nodenv", ".nvm/versions", ".volta", ".asdf", ".sdkman/candidates", ".fnm", ".bun/bin", ".deno/bin",
	".rustup/toolchains", ".local/share/mise/installs", ".local/share/fnm", ".local/share/uv/python", "sdk", "go/bin", ".cargo/bin",
}

// toolFolder shows one entry of PATH. Below HOME only the folder itself and known toolchain
// managers are shown, since a parent may hold keys; elsewhere the parent of a bin folder is, since
// programs look for their libraries there.
func (q *openRequest) toolFolder(d, home string) {
	if home != "" && home != "/" && within(d, home) {
		for _, t := range homeTools {
			if t := filepath.Join(home, t); within(d, t) {
				q.Binds = append(q.Binds, bind{Path: t, Optional: true})
				return
			}
		}
		if d != home {
			q.Binds = append(q.Binds, bind{Path: d, Optional: true})
		}
		return
	}
	for _, p := range systemPaths {
		if within(d, p) {
			return
		}
	}
	parent := filepath.Dir(d)
	base := filepath.Base(d)
	if (base == "bin" || base == "sbin") && len(strings.Split(parent, "/")) > 2 && !slices.Contains(forbiddenBinds, parent) && !within(home, parent) {
		q.Binds = append(q.Binds, bind{Path: parent, Optional: true})
		return
	}
	if !slices.Contains(forbiddenBinds, d) && !within(home, d) {
		q.Binds = append(q.Binds, bind{Path: d, Optional: true})
	}
}

// within reports whether p is dir or below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

func lookup(env []string, name string) string {
	v := ""
	for _, e := range env {
		if rest, ok := strings.CutPrefix(e, name+"="); ok {
			v = rest
		}
	}
	return v
}
