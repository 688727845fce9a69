package config

import (
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Kind is the shape of a key's value.
type Kind string

// The kinds of values. A duration is written like "20m"; a list is a list of strings.
const (
	String   Kind = "string"
	Int      Kind = "integer"
	Float    Kind = "number"
	Bool     Kind = "boolean"
	Duration Kind = "duration"
	List     Kind = "list"
)

// ProjectRule says what a trusted project file may do with a key.
type ProjectRule string

// The rules for project files.
const (
	ProjectMay      ProjectRule = "may set"
	ProjectStricter ProjectRule = "may only make stricter"
	ProjectNever    ProjectRule = "may never set"
)

// Key describes one setting.
type Key struct {
	Name    string // dotted; a * segment stands for any name
	Kind    Kind
	Default any      // string, int64, float64, bool or []string; nil for none
	Values  []string // the closed set of a string key, strictest first; nil for any text
	Project ProjectRule
	Flag    string // the flag of `run` that sets it, "" for none
	Doc     string
}

// Env is the environment variable of the key, "" for a key with a * segment.
func (k Key) Env() string {
	if strings.Contains(k.Name, "*") {
		return ""
	}
	return "RIVUMI_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Keys lists every setting, in the order of the documentation.
func Keys() []Key { return slices.Clone(table) }

var table = []Key{
	{"model", String, nil, nil, ProjectMay, "model", "model to use, provider/name"},
	{"fallback_model", String, nil, nil, ProjectMay, "fallback-model", "model to go on with when the first one cannot be reached"},
	{"effort", String, nil, []string{"low", "medium", "high"}, ProjectMay, "effort", "reasoning effort, for models that know it"},
	{"provider_url", String, nil, nil, ProjectNever, "provider-url", "address of the model's provider instead of its usual one"},
	{"api_key_cmd", String, nil, nil, ProjectNever, "", "command whose output is the provider's key"},
	{"providers.*.url", String, nil, nil, ProjectNever, "", "address of a provider of your own"},
	{"providers.*.api", String, nil, []string{"chat-completions", "messages"}, ProjectNever, "", "wire the provider speaks"},
	{"providers.*.key_env", String, nil, nil, ProjectNever, "", "environment variable that holds its key"},
	{"providers.*.key_cmd", String, nil, nil, ProjectNever, "", "command whose output is its key"},
	{"remotes.*.url", String, nil, nil, ProjectNever, "", "address of a control plane for --remote=NAME"},
	{"remotes.*.ca", String, nil, nil, ProjectNever, "", "file of certificates to trust for it, besides the system's"},
	{"server", String, nil, nil, ProjectNever, "", "address of the control plane for --remote"},
	{"serve.listen", String, "127.0.0.1:7877", nil, ProjectNever, "", "serve: address to listen on"},
	{"serve.admin", String, "127.0.0.1:7878", nil, ProjectNever, "", "serve: address of the operator's routes, on this machine only; off for none"},
	{"serve.tls_cert", String, nil, nil, ProjectNever, "", "serve: file of the certificate chain in PEM"},
	{"serve.tls_key", String, nil, nil, ProjectNever, "", "serve: file of its key"},
	{"serve.hostnames", List, nil, nil, ProjectNever, "", "serve: names it is called by; others are refused"},
	{"serve.origins", List, nil, nil, ProjectNever, "", "serve: origins of web pages that may call"},
	{"serve.models.*.url", String, nil, nil, ProjectNever, "", "serve: address of the model's provider"},
	{"serve.models.*.name", String, nil, nil, ProjectNever, "", "serve: name that tasks ask for, where it cannot be a key"},
	{"serve.models.*.model", String, nil, nil, ProjectNever, "", "serve: the provider's own name of the model"},
	{"serve.models.*.api", String, nil, []string{"chat-completions", "messages"}, ProjectNever, "", "serve: wire the provider speaks"},
	{"serve.models.*.key_env", String, nil, nil, ProjectNever, "", "serve: environment variable that holds its key"},
	{"serve.models.*.key_cmd", String, nil, nil, ProjectNever, "", "serve: command whose output is its key"},
	{"serve.models.*.input_price", Float, nil, nil, ProjectNever, "", "serve: US dollars for a million input tokens; money budgets need both prices"},
	{"serve.models.*.output_price", Float, nil, nil, ProjectNever, "", "serve: US dollars for a million output tokens"},
	{"serve.checks", List, nil, nil, ProjectNever, "", "serve: commands that tasks may name as checks, word for word"},
	{"serve.images", List, nil, nil, ProjectNever, "", "serve: images that tasks may name"},
	{"serve.image", String, nil, nil, ProjectNever, "", "serve: image of the boxes"},
	{"serve.runtime", String, nil, nil, ProjectNever, "", "serve: runtime of the boxes; runsc is gVisor"},
	{"serve.profile", String, "server", []string{"edge", "server"}, ProjectNever, "", "serve: limits profile"},
	{"serve.placement", String, "box", []string{"box", "control"}, ProjectNever, "", "serve: where the agent runs"},
	{"serve.max_runs", Int, int64(4), nil, ProjectNever, "", "serve: runs carried out at once"},
	{"serve.max_queued", Int, int64(200), nil, ProjectNever, "", "serve: runs that may wait, half of them of one principal"},
	{"serve.whole_tree", Bool, false, nil, ProjectNever, "", "serve: take ** as an allowed path"},
	{"approve", String, "ask", []string{"never", "read-only", "ask", "edits", "all"}, ProjectStricter, "approve", "which tool calls need an approval"},
	{"allow", List, nil, nil, ProjectNever, "allow", "rules of calls that need no approval"},
	{"deny", List, nil, nil, ProjectMay, "deny", "rules of calls that are refused; those of all layers hold"},
	{"on_no_answer", String, "deny", []string{"stop", "deny", "wait"}, ProjectStricter, "on-no-answer", "what an approval does when nobody can answer"},
	{"approval_timeout", Duration, "5m", nil, ProjectStricter, "approval-timeout", "how long an approval waits"},
	{"sandbox", String, "auto", []string{"read-only", "workspace-write", "auto", "docker", "none"}, ProjectStricter, "sandbox", "containment of commands"},
	{"min_tier", String, nil, []string{"gvisor", "docker", "L3", "L2", "L1", "L0"}, ProjectStricter, "", "weakest sandbox tier to accept"},
	{"net", String, "off", nil, ProjectNever, "net", "network of commands: off or allow=HOST,…"},
	{"env", List, nil, nil, ProjectNever, "env", "names of your variables that commands may see"},
	{"add_dirs", List, nil, nil, ProjectNever, "add-dir", "more folders commands may read, or write with :rw"},
	{"caches", String, "on", []string{"off", "on"}, ProjectStricter, "", "whether commands may use this user's toolchain caches, read-only below a layer of the run"},
	{"image", String, nil, nil, ProjectNever, "image", "container image"},
	{"checks", List, nil, nil, ProjectMay, "check", "commands that decide whether the work is done"},
	{"allowed_paths", List, nil, nil, ProjectStricter, "allow-path", "paths the run may change"},
	{"dirty", String, "include", []string{"refuse", "exclude", "include"}, ProjectMay, "dirty", "what becomes of uncommitted work when a run starts"},
	{"include", List, nil, nil, ProjectNever, "include", "globs of ignored files to copy into the run"},
	{"keep", Bool, false, nil, ProjectMay, "keep", "keep the worktree after the run"},
	{"limits.max_steps", Int, int64(40), nil, ProjectStricter, "max-steps", "model calls with their tools"},
	{"limits.timeout", Duration, "20m", nil, ProjectStricter, "timeout", "wall time of a run"},
	{"limits.max_tokens", Int, int64(0), nil, ProjectStricter, "max-tokens", "output tokens of a run, 0 for no limit"},
	{"limits.max_cost", Float, 0.0, nil, ProjectStricter, "max-cost", "US dollars of a run, 0 for no limit"},
	{"limits.max_calls", Int, int64(0), nil, ProjectStricter, "max-calls", "model requests of a run, 0 for steps + 2"},
	{"output", String, "text", []string{"text", "json", "stream-json"}, ProjectNever, "output", "form of the output"},
	{"color", String, "auto", []string{"auto", "always", "never"}, ProjectNever, "color", "colour of terminal output"},
}

// Find gives the key of a dotted name; a name such as providers.mine.url matches its * key.
func Find(name string) (Key, bool) {
	for _, k := range table {
		if matches(k.Name, name) {
			return k, true
		}
	}
	return Key{}, false
}

// Nearest gives the known key most like name, "" when none is near.
func Nearest(name string) string {
	names := make([]string, 0, len(table))
	for _, k := range table {
		names = append(names, k.Name)
	}
	return contract.Nearest(name, names)
}

func matches(pattern, name string) bool {
	p, n := strings.Split(pattern, "."), strings.Split(name, ".")
	if len(p) != len(n) {
		return false
	}
	for i := range p {
		if p[i] != n[i] && (p[i] != "*" || n[i] == "") {
			return false
		}
	}
	return true
}
