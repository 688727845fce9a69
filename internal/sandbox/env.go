package sandbox

import (
	"os"
	"path/filepath"
	"strings"
)

// BaseEnv builds the whole environment of a run's commands: a PATH, a HOME and TMPDIR below
// scratch, what keeps programs from asking or paging, and the variables of this process that
// allow names (exact names; a value from allow replaces a built one, except for HOME and TMPDIR).
// Nothing else of this process is passed on, so that no key reaches a command by being set.
//
// Pagers are cat. An editor is false: a program that wants a person to edit something ends at once
// with an error instead of waiting. Credential prompts are off.
func BaseEnv(scratch string, allow []string) []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	env := []string{
		"PATH=" + path,
		"HOME=" + filepath.Join(scratch, "home"),
		"TMPDIR=" + filepath.Join(scratch, "tmp"),
		"LANG=C.UTF-8",
		"TERM=dumb",
		"NO_COLOR=1",
		"PAGER=cat",
		"MANPAGER=cat",
		"GIT_PAGER=cat",
		"EDITOR=false",
		"VISUAL=false",
		"GIT_EDITOR=false",
		"GIT_SEQUENCE_EDITOR=false",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=",
		"SSH_ASKPASS=",
		"SSH_ASKPASS_REQUIRE=never",
		"GIT_SSH_COMMAND=ssh -oBatchMode=yes",
		"DEBIAN_FRONTEND=noninteractive",
		"PIP_NO_INPUT=1",
	}
	env = append(env, toolEnv()...)
	for _, name := range allow {
		if name == "HOME" || name == "TMPDIR" || name == "" || strings.ContainsAny(name, "=\x00") {
			continue
		}
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return MergeEnv(env, nil)
}

// MergeEnv gives base with more added; of two entries for one name the later one stands. Entries
// without a name or with a NUL are dropped.
func MergeEnv(base, more []string) []string {
	out := make([]string, 0, len(base)+len(more))
	at := make(map[string]int, len(base)+len(more))
	for _, list := range [][]string{base, more} {
		for _, e := range list {
			name, _, ok := strings.Cut(e, "=")
			if !ok || name == "" || strings.IndexByte(e, 0) >= 0 {
				continue
			}
			if i, seen := at[name]; seen {
				out[i] = e
				continue
			}
			at[name] = len(out)
			out = append(out, e)
		}
	}
	return out
}

// ToolVariables names the variables that say where a toolchain or its cache of downloads lies. They
// hold folders, never secrets; contained places show those folders read-only.
func ToolVariables() []string {
	return []string{
		"GOROOT", "GOMODCACHE", "JAVA_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT", "VOLTA_HOME", "FNM_DIR", "ASDF_DIR",
		"ASDF_DATA_DIR", "MISE_DATA_DIR", "RBENV_ROOT", "SDKMAN_CANDIDATES_DIR",
	}
}

// toolEnv passes on where toolchains lie. Two of them are looked for below HOME by default, which
// commands do not have, so they are named.
func toolEnv() []string {
	var env []string
	for _, name := range ToolVariables() {
		if v := os.Getenv(name); filepath.IsAbs(v) {
			env = append(env, name+"="+v)
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return env
	}
	for _, d := range [][2]string{{"GOMODCACHE", "go/pkg/mod"}, {"RUSTUP_HOME", ".rustup"}} {
		p := filepath.Join(home, d[1])
		if st, err := os.Stat(p); os.Getenv(d[0]) == "" && err == nil && st.IsDir() {
			env = append(env, d[0]+"="+p)
		}
	}
	return env
}
