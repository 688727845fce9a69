package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
)

// buildTask joins the task file, the settings and the prompt into the contract of a run. A flag
// beats the file, the file beats every other layer of the settings; deny rules add up.
func buildTask(o *runOptions, c *config.Config, prompt string) (contract.Task, error) {
	var t contract.Task
	if o.File != "" {
		var err error
		if t, err = readTaskFile(o.File); err != nil {
			return t, err
		}
	}
	if err := setInstruction(&t, o, prompt); err != nil {
		return t, err
	}
	r := resolver{c}
	r.text(&t.Model, "model")
	r.text(&t.FallbackModel, "fallback_model")
	r.text(&t.Effort, "effort")
	if o.Name != "" || o.Worktree != "" {
		t.Name = firstOf(o.Name, o.Worktree)
	}
	r.list(&t.AllowedPaths, "allowed_paths")
	r.limits(&t.Limits)
	if err := r.checks(&t); err != nil {
		return t, err
	}
	if err := r.approval(&t.Approval); err != nil {
		return t, err
	}
	if err := r.place(o, &t); err != nil {
		return t, err
	}
	return t, r.source(o, &t)
}

func setInstruction(t *contract.Task, o *runOptions, prompt string) error {
	isPrompt := strings.HasSuffix(o.File, ".md") || strings.HasSuffix(o.File, ".markdown") || strings.HasSuffix(o.File, ".txt")
	switch {
	case t.Instruction == "":
		t.Instruction = prompt
	case prompt == "":
	case isPrompt:
		t.Instruction += "\n\n" + prompt
	default:
		return usagef("leave the instruction out of the file, or the prompt out of the command line",
			"the task is given twice: by %s and by the prompt", o.File)
	}
	return nil
}

func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// resolver fills the fields of a task from the settings.
type resolver struct{ c *config.Config }

// wins reports whether the setting replaces what the task file said.
func (r resolver) wins(name string, fileSaid bool) bool {
	s := r.c.Lookup(name)
	return s.Value != nil && (!fileSaid || s.Layer == config.Flag)
}

func (r resolver) text(field *string, name string) {
	if r.wins(name, *field != "") {
		*field = r.c.String(name)
	}
}

func (r resolver) list(field *[]string, name string) {
	if r.wins(name, len(*field) > 0) {
		*field = r.c.List(name)
	}
}

func (r resolver) limits(l *contract.Limits) {
	if r.wins("limits.max_steps", l.MaxSteps != 0) {
		l.MaxSteps = int(r.c.Int("limits.max_steps"))
	}
	if r.wins("limits.timeout", l.WallTimeSeconds != 0) {
		l.WallTimeSeconds = int(r.c.Duration("limits.timeout").Seconds())
	}
	if r.wins("limits.max_calls", l.MaxModelRequests != 0) {
		l.MaxModelRequests = int(r.c.Int("limits.max_calls"))
	}
	if r.wins("limits.max_tokens", l.MaxOutputTokens != 0) {
		l.MaxOutputTokens = r.c.Int("limits.max_tokens")
	}
	if r.wins("limits.max_cost", l.MaxCostUSD != 0) {
		l.MaxCostUSD = r.c.Float("limits.max_cost")
	}
}

func (r resolver) checks(t *contract.Task) error {
	if !r.wins("checks", len(t.Checks) > 0) {
		return nil
	}
	t.Checks = nil
	for _, line := range r.c.List("checks") {
		argv, err := splitCheck(line)
		if err != nil {
			return err
		}
		t.Checks = append(t.Checks, argv)
	}
	return nil
}

func (r resolver) approval(a *contract.ApprovalPolicy) error {
	if r.wins("approve", a.Policy != "") {
		a.Policy = policyOf(r.c.String("approve"))
	}
	if r.wins("on_no_answer", a.Unattended != "") {
		a.Unattended = contract.Unattended(r.c.String("on_no_answer"))
	}
	if r.wins("approval_timeout", a.TimeoutSeconds != 0) {
		a.TimeoutSeconds = int(r.c.Duration("approval_timeout").Seconds())
	}
	r.list(&a.Allow, "allow")
	a.Deny = append(a.Deny, r.c.All("deny")...)
	return nil
}

// policyOf turns the word of the command line into the contract's.
func policyOf(word string) contract.Policy {
	switch word {
	case "never":
		return contract.PolicyDenyAll
	case "all":
		return contract.PolicyAllowAll
	}
	return contract.Policy(word)
}

func (r resolver) place(o *runOptions, t *contract.Task) error {
	if r.wins("sandbox", t.Sandbox.Mode != "") {
		t.Sandbox.Mode = contract.SandboxMode(r.c.String("sandbox"))
	}
	r.text(&t.Sandbox.MinTier, "min_tier")
	r.text(&t.Sandbox.Image, "image")
	r.list(&t.Sandbox.Env, "env")
	if r.wins("add_dirs", len(t.Sandbox.AddDirs) > 0) {
		dirs, err := absoluteDirs(o.Factory, r.c.List("add_dirs"))
		if err != nil {
			return err
		}
		t.Sandbox.AddDirs = dirs
	}
	if r.wins("net", len(t.Network.Hosts) > 0) {
		hosts, err := parseNet(r.c.String("net"))
		if err != nil {
			return err
		}
		t.Network.Hosts = hosts
	}
	if o.yolo && t.Sandbox.Mode == contract.SandboxNone && !o.iKnow {
		return usagef("use a sandbox (-s auto), or add --i-know", "--yolo without a sandbox lets every command do anything to this machine")
	}
	return nil
}

func absoluteDirs(f *Factory, dirs []string) ([]string, error) {
	base, err := f.WorkDir()
	if err != nil {
		return nil, err
	}
	for i, d := range dirs {
		rw := strings.HasSuffix(d, ":rw")
		d = strings.TrimSuffix(strings.TrimSuffix(d, ":rw"), ":ro")
		if !filepath.IsAbs(d) {
			d = filepath.Join(base, d)
		}
		if rw {
			d += ":rw"
		}
		dirs[i] = d
	}
	return dirs, nil
}

func parseNet(s string) ([]string, error) {
	if s == "" || s == "off" || s == "none" {
		return nil, nil
	}
	list, ok := strings.CutPrefix(s, "allow=")
	if !ok || list == "" {
		return nil, usagef("--net off, or --net allow=HOST,HOST", "--net %q is not known", s)
	}
	return strings.Split(list, ","), nil
}

func (r resolver) source(o *runOptions, t *contract.Task) error {
	if t.Repository == nil && len(t.Files) == 0 && t.Upload == nil && t.Git == nil {
		t.Repository = &contract.Repository{}
	}
	rep := t.Repository
	if rep == nil {
		return nil
	}
	if rep.Path == "" || !filepath.IsAbs(rep.Path) {
		dir, err := o.WorkDir()
		if err != nil {
			return err
		}
		rep.Path = filepath.Join(dir, rep.Path)
	}
	if o.Base != "" {
		rep.Base = o.Base
	}
	if r.wins("dirty", rep.Dirty != "") {
		rep.Dirty = contract.Dirty(r.c.String("dirty"))
	}
	r.list(&rep.Include, "include")
	more, err := worktreeInclude(repositoryRoot(rep.Path))
	for _, g := range more {
		if !slices.Contains(rep.Include, g) {
			rep.Include = append(rep.Include, g)
		}
	}
	return err
}

// worktreeInclude reads .worktreeinclude at the root of the checkout: one glob a line, # begins a
// comment, a name without a slash counts at any depth, a folder as all that is in it.
func worktreeInclude(root string) ([]string, error) {
	raw, err := readBounded(filepath.Join(root, ".worktreeinclude"), 1<<20)
	if root == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read .worktreeinclude: %w", err)
	}
	var out []string
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "/")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		dir, isDir := strings.CutSuffix(line, "/")
		if isDir {
			line = dir + "/**"
		}
		if why := contract.CheckPattern(line, true, true); why != "" {
			return nil, usagef("mend the line, or take it out", ".worktreeinclude: %q %s", line, why)
		}
		out = append(out, line)
		if !strings.Contains(dir, "/") {
			out = append(out, "**/"+line)
		}
	}
	return out, nil
}
