package contract

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Rules are what the operator of a place allows beyond its profile. Empty lists allow nothing
// where the profile asks for a list.
type Rules struct {
	Models   []string
	Checks   []Check
	Hosts    []string // for Task.Network
	GitHosts []string // for Task.Git
	Images   []string
}

// Bounds of a task.
const (
	MaxInstructionRunes = 32_000
	MaxAllowedPaths     = 64
	MaxLabels           = 16
	MaxRules            = 128
	MaxArgs             = 256
	MaxArgBytes         = 8 << 10
)

// ToolNames are the tools an agent may be given.
func ToolNames() []string { return []string{"bash", "read", "edit", "write"} }

// DefaultLimits are what a task gets where nobody said otherwise.
func DefaultLimits() Limits { return Limits{MaxSteps: 40, WallTimeSeconds: 20 * 60} }

// Validate checks a decoded task against a profile and its operator's rules. All refusals come in
// one error of KindInvalid.
func Validate(t Task, p Profile, r Rules) error {
	v := &validator{p: p, r: r}
	v.text(t)
	v.source(t)
	v.paths(t)
	v.checks(t.Checks)
	v.limits(t.Limits)
	v.approval(t)
	v.sandbox(t.Sandbox)
	v.network(t.Network)
	v.labels(t.Labels)
	return Refuse(v.refusals)
}

type validator struct {
	p        Profile
	r        Rules
	refusals []Refusal
}

func (v *validator) refuse(field, code, format string, args ...any) {
	v.refusals = append(v.refusals, Refusal{Field: field, Code: code, Detail: fmt.Sprintf(format, args...)})
}

var tiers = []string{"", "L0", "L1", "L2", "L3", "docker", "gvisor"}

func (v *validator) text(t Task) {
	runes := utf8.RuneCountInString(t.Instruction)
	switch {
	case strings.TrimSpace(t.Instruction) == "":
		v.refuse("instruction", "required", "must not be empty or only white space")
	case runes > MaxInstructionRunes:
		v.refuse("instruction", "too_long", "must be at most %d characters, has %d", MaxInstructionRunes, runes)
	case strings.ContainsRune(t.Instruction, 0) || !utf8.ValidString(t.Instruction):
		v.refuse("instruction", "invalid_text", "must be UTF-8 without NUL")
	}
	if t.Name != "" && !isRunName(t.Name) {
		v.refuse("name", "invalid_name", "must be 1 to 64 of a-z, 0-9 and -, not beginning with -")
	}
	v.model("model", t.Model, true)
	v.model("fallbackModel", t.FallbackModel, false)
	if !slices.Contains([]string{"", "low", "medium", "high"}, t.Effort) {
		v.refuse("effort", "unknown_value", "must be low, medium or high")
	}
}

func (v *validator) model(field, name string, required bool) {
	switch {
	case name == "":
		if required {
			v.refuse(field, "required", "must name a model")
		}
	case v.p.AnyModel:
		if !isModelName(name) {
			v.refuse(field, "invalid_model", "must look like provider/model")
		}
	case !slices.Contains(v.r.Models, name):
		v.refuse(field, "model_not_allowed", "must be one of the models configured here")
	}
}

func (v *validator) source(t Task) {
	given := 0
	for _, there := range []bool{t.Repository != nil, len(t.Files) > 0, t.Upload != nil, t.Git != nil} {
		if there {
			given++
		}
	}
	if given != 1 {
		v.refuse("source", "exactly_one", "exactly one of repository, files, upload and git must be given, not %d", given)
	}
	if t.Repository != nil {
		v.repository(*t.Repository)
	}
	v.files(t.Files)
	if t.Upload != nil {
		if v.p.UploadBytes == 0 {
			v.refuse("upload", "not_here", "uploads are not accepted here")
		} else if !strings.HasPrefix(t.Upload.ID, "upl_") {
			v.refuse("upload.id", "invalid_id", "must be the id of a finished upload")
		}
	}
	if t.Git != nil {
		v.git(*t.Git)
	}
}

func (v *validator) repository(r Repository) {
	if !v.p.LocalRepository {
		v.refuse("repository", "not_here", "a folder of the caller's machine cannot be used here")
		return
	}
	if !path.IsAbs(r.Path) && !isWindowsAbs(r.Path) || strings.ContainsRune(r.Path, 0) {
		v.refuse("repository.path", "not_absolute", "must be an absolute path")
	}
	if strings.HasPrefix(r.Base, "-") || strings.ContainsAny(r.Base, "\x00\n") {
		v.refuse("repository.base", "invalid_revision", "must be a revision")
	}
	switch r.Dirty {
	case "", DirtyInclude, DirtyExclude, DirtyRefuse:
	default:
		v.refuse("repository.dirty", "unknown_value", "must be include, exclude or refuse")
	}
	for i, g := range r.Include {
		if why := CheckPattern(g, true, true); why != "" {
			v.refuse(fmt.Sprintf("repository.include[%d]", i), "invalid_pattern", "%s", why)
		}
	}
}

func isWindowsAbs(p string) bool {
	return len(p) > 2 && isLetter(p[0]) && p[1] == ':' && (p[2] == '\\' || p[2] == '/')
}

func (v *validator) files(files []File) {
	if len(files) > v.p.InlineFiles {
		v.refuse("files", "too_many", "at most %d files, not %d", v.p.InlineFiles, len(files))
		return
	}
	seen, total := map[string]bool{}, int64(0)
	for i, f := range files {
		at := fmt.Sprintf("files[%d]", i)
		if why := CheckPath(f.Path); why != "" {
			v.refuse(at+".path", "invalid_path", "%s", why)
		}
		folded := strings.ToLower(f.Path)
		if seen[folded] {
			v.refuse(at+".path", "duplicate_path", "is given twice, letter case aside")
		}
		seen[folded] = true
		if v.p.InlineTextOnly && !textExtension(f.Path) {
			v.refuse(at+".path", "not_text", "must have a text file extension")
		}
		total += v.content(at, f)
	}
	for f := range seen {
		for dir := path.Dir(f); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if seen[dir] {
				v.refuse("files", "file_is_folder", "%q is both a file and a folder", dir)
			}
		}
	}
	if total > v.p.InlineTotalBytes {
		v.refuse("files", "too_large", "at most %d bytes in all, not %d", v.p.InlineTotalBytes, total)
	}
}

// content checks one file's content and gives its size.
func (v *validator) content(at string, f File) int64 {
	if (f.Content == nil) == (f.ContentBase64 == nil) {
		v.refuse(at, "exactly_one", "exactly one of content and contentBase64 must be given")
		return 0
	}
	size := int64(0)
	if f.Content != nil {
		size = int64(len(*f.Content))
		if strings.ContainsRune(*f.Content, 0) {
			v.refuse(at+".content", "invalid_text", "must not contain NUL; use contentBase64")
		}
	} else {
		raw, err := base64.StdEncoding.Strict().DecodeString(*f.ContentBase64)
		if err != nil {
			v.refuse(at+".contentBase64", "invalid_base64", "must be standard base64 with padding")
		}
		size = int64(len(raw))
	}
	if size > v.p.InlineFileBytes {
		v.refuse(at, "too_large", "at most %d bytes a file, not %d", v.p.InlineFileBytes, size)
	}
	return size
}

var textExtensions = strings.Fields(`
	.bash .bzl .c .cc .cfg .cjs .clj .cmake .conf .cpp .cs .css .csv .cxx .dart .diff .ejs .el .elm .erl .ex .exs .fs
	.go .gradle .graphql .groovy .h .hbs .hpp .hs .html .ini .java .jl .js .json .json5 .jsonc .jsx .kt .kts .less .lock
	.lua .m .md .mdx .mjs .mk .ml .mli .mod .mts .nim .nix .patch .php .pl .pm .properties .proto .ps1 .py .pyi .r .rb
	.rs .rst .sass .sbt .scala .scss .sh .sql .sum .svelte .svg .swift .tcl .tex .tf .tmpl .toml .ts .tsx .txt .vb .vue
	.xml .yaml .yml .zig .zsh`)

// textNames are extensionless files that are text by convention.
var textNames = strings.Fields(`dockerfile makefile license readme .gitignore .gitattributes .editorconfig .env.example`)

func textExtension(p string) bool {
	base := strings.ToLower(path.Base(p))
	return slices.Contains(textExtensions, path.Ext(base)) || slices.Contains(textNames, base)
}

func (v *validator) git(g GitSource) {
	u, err := url.Parse(g.URL)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		v.refuse("git.url", "invalid_url", "must be an https address without query or fragment")
	case u.User != nil:
		v.refuse("git.url", "credentials_in_url", "must not carry credentials")
	case !slices.Contains(v.r.GitHosts, u.Host):
		v.refuse("git.url", "host_not_allowed", "must be on a host that the operator listed")
	}
	if g.Ref == "" || strings.HasPrefix(g.Ref, "-") || strings.ContainsAny(g.Ref, "\x00 \n~^:?*[\\") {
		v.refuse("git.ref", "invalid_ref", "must be a ref name")
	}
	if g.SHA != "" && !isHex(g.SHA, 40) && !isHex(g.SHA, 64) {
		v.refuse("git.sha", "invalid_sha", "must be a full commit id")
	}
}

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

func (v *validator) paths(t Task) {
	if len(t.AllowedPaths) == 0 && !v.p.WholeTree {
		v.refuse("allowedPaths", "required", "must have 1 to %d entries", MaxAllowedPaths)
	}
	if len(t.AllowedPaths) > MaxAllowedPaths {
		v.refuse("allowedPaths", "too_many", "must have at most %d entries", MaxAllowedPaths)
		return
	}
	for i, s := range t.AllowedPaths {
		at := fmt.Sprintf("allowedPaths[%d]", i)
		if why := CheckPattern(s, v.p.WholeTree, v.p.LocalRepository); why != "" {
			v.refuse(at, "invalid_path", "%s", why)
		} else if len(t.Files) > 0 && !bound(s, t.Files) {
			v.refuse(at, "not_in_source", "must name a file or a folder of the source")
		}
	}
}

// bound reports whether an allowed path stands for something of the inline source.
func bound(pattern string, files []File) bool {
	return slices.ContainsFunc(files, func(f File) bool { return Allowed([]string{pattern}, f.Path) })
}

func (v *validator) checks(checks []Check) {
	if len(checks) < v.p.MinChecks || len(checks) > v.p.MaxChecks {
		v.refuse("checks", "count", "must have %d to %d entries, has %d", v.p.MinChecks, v.p.MaxChecks, len(checks))
	}
	for i, c := range checks {
		at := fmt.Sprintf("checks[%d]", i)
		if why := checkArgv(c); why != "" {
			v.refuse(at, "invalid_argv", "%s", why)
			continue
		}
		same := func(o Check) bool { return slices.Equal(o, c) }
		if !v.p.AnyCheck && !slices.ContainsFunc(v.r.Checks, same) {
			v.refuse(at, "check_not_allowed", "must equal one of the operator's checks, word for word")
		}
	}
}

func checkArgv(c Check) string {
	if len(c) == 0 || strings.TrimSpace(c[0]) == "" {
		return "must name a program"
	}
	if len(c) > MaxArgs {
		return fmt.Sprintf("must have at most %d words", MaxArgs)
	}
	for _, a := range c {
		if len(a) > MaxArgBytes || strings.ContainsRune(a, 0) || !utf8.ValidString(a) {
			return "words must be UTF-8 without NUL, at most 8 KiB each"
		}
	}
	return ""
}

func (v *validator) limits(l Limits) {
	if l.MaxSteps < 1 || l.MaxSteps > v.p.MaxSteps {
		v.refuse("limits.maxSteps", "out_of_range", "must be 1 to %d", v.p.MaxSteps)
	}
	if l.WallTimeSeconds < 1 || l.WallTimeSeconds > v.p.WallTimeSeconds {
		v.refuse("limits.wallTimeSeconds", "out_of_range", "must be 1 to %d", v.p.WallTimeSeconds)
	}
	if l.MaxModelRequests < 0 || l.MaxModelRequests > v.p.MaxSteps+2 {
		v.refuse("limits.maxModelRequests", "out_of_range", "must be 0 to %d", v.p.MaxSteps+2)
	}
	if l.MaxOutputTokens < 0 {
		v.refuse("limits.maxOutputTokens", "out_of_range", "must not be negative")
	}
	if l.MaxCostUSD < 0 {
		v.refuse("limits.maxCostUsd", "out_of_range", "must not be negative")
	}
}

func (v *validator) approval(t Task) {
	a := t.Approval
	switch a.Policy {
	case PolicyDenyAll, PolicyReadOnly, PolicyAsk, PolicyEdits, PolicyAllowAll:
	default:
		v.refuse("approval.policy", "unknown_value", "must be deny-all, read-only, ask, edits or allow-all")
	}
	switch a.Unattended {
	case "", UnattendedWait, UnattendedDeny, UnattendedStop:
	default:
		v.refuse("approval.unattended", "unknown_value", "must be wait, deny or stop")
	}
	if a.TimeoutSeconds < 0 || a.TimeoutSeconds > v.p.WallTimeSeconds {
		v.refuse("approval.timeoutSeconds", "out_of_range", "must be 0 to %d", v.p.WallTimeSeconds)
	}
	for name, rules := range map[string][]string{"allow": a.Allow, "deny": a.Deny} {
		if len(rules) > MaxRules {
			v.refuse("approval."+name, "too_many", "must have at most %d rules", MaxRules)
		}
		for i, r := range rules {
			if strings.TrimSpace(r) == "" || len(r) > MaxArgBytes || !IsClean(r) {
				v.refuse(fmt.Sprintf("approval.%s[%d]", name, i), "invalid_rule", "must be a rule such as shell(git status:*)")
			}
		}
	}
}

func (v *validator) sandbox(s Sandbox) {
	switch s.Mode {
	case "", SandboxAuto, SandboxReadOnly, SandboxWorkspace, SandboxDocker:
	case SandboxNone:
		if !v.p.LocalRepository {
			v.refuse("sandbox.mode", "not_here", "must not be none here")
		}
	default:
		v.refuse("sandbox.mode", "unknown_value", "must be auto, read-only, workspace-write, docker or none")
	}
	if !slices.Contains(tiers, s.MinTier) {
		v.refuse("sandbox.minTier", "unknown_value", "must be L0, L1, L2, L3, docker or gvisor")
	}
	if s.Image != "" && !v.p.LocalRepository && !slices.Contains(v.r.Images, s.Image) {
		v.refuse("sandbox.image", "image_not_allowed", "must be one of the operator's images")
	}
	if !v.p.LocalRepository && (len(s.AddDirs) > 0 || len(s.Env) > 0) {
		v.refuse("sandbox", "not_here", "addDirs and env are of the caller's machine and cannot be used here")
	}
	for i, d := range s.AddDirs {
		dir := strings.TrimSuffix(d, ":rw")
		if !path.IsAbs(dir) && !isWindowsAbs(dir) || strings.ContainsAny(dir, "\x00\n") {
			v.refuse(fmt.Sprintf("sandbox.addDirs[%d]", i), "not_absolute", "must be an absolute path, with :rw for writing")
		}
	}
	for i, n := range s.Env {
		if !isEnvName(n) {
			v.refuse(fmt.Sprintf("sandbox.env[%d]", i), "invalid_name", "must be the name of a variable")
		}
	}
	for i, n := range s.Tools {
		if !slices.Contains(ToolNames(), n) {
			v.refuse(fmt.Sprintf("sandbox.tools[%d]", i), "unknown_value", "must be one of %s", strings.Join(ToolNames(), ", "))
		}
	}
}

func (v *validator) network(n Network) {
	for i, h := range n.Hosts {
		at := fmt.Sprintf("network[%d]", i)
		if !isHostPattern(h) {
			v.refuse(at, "invalid_host", "must be a lower-case host name without port")
		} else if !v.p.LocalRepository && !slices.Contains(v.r.Hosts, h) {
			v.refuse(at, "host_not_allowed", "must be on the operator's list")
		}
	}
}

func (v *validator) labels(labels map[string]string) {
	if len(labels) > MaxLabels {
		v.refuse("labels", "too_many", "must have at most %d entries", MaxLabels)
	}
	for k, val := range labels {
		if k == "" || len(k) > 64 || len(val) > 256 || strings.ContainsAny(k, ":\n") || !IsClean(k) || !IsClean(val) {
			v.refuse("labels", "invalid_label", "keys are 1 to 64 bytes without colon, values at most 256 bytes, both clean text")
		}
	}
}
