package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rivumi/rivumi/internal/config"
)

// runOptions is what `run` and the bare form are asked for. Settings that a file or a variable may
// give as well are not here: they go through [config.Config] by the name of their flag.
type runOptions struct {
	*Factory

	File, Name string
	Base       string
	DryRun     bool
	Worktree   string
	Remote     string
	// IncludeSecrets sends files that look like credentials to a control plane, too.
	IncludeSecrets bool
	Detach         bool
	Attempts       int
	Print          bool
	Bundle         string
	Continue       bool
	Resume         string
	Fork           bool
	Ephemeral      bool
	JSON           bool
	JQ             string

	yolo, iKnow  bool
	maxTurns     int
	outputFormat string
}

// flagGroup is a heading of `run --help` with its flags in order.
type flagGroup struct {
	title string
	names []string
}

func runGroups() []flagGroup {
	return []flagGroup{
		{"Task", []string{"file", "name", "allow-path", "check", "base", "dirty", "include", "dry-run"}},
		{"Where", []string{"cd", "worktree", "keep", "sandbox", "net", "add-dir", "env", "image"}},
		{"Remote", []string{"remote", "include-secrets", "detach", "attempts"}},
		{"Model", []string{"model", "effort", "provider-url", "fallback-model"}},
		{"Control", []string{"approve", "allow", "deny", "on-no-answer", "approval-timeout"}},
		{"Limits", []string{"max-steps", "timeout", "max-tokens", "max-cost", "max-calls"}},
		{"Output", []string{"output", "json", "jq", "print", "quiet", "color", "bundle"}},
		{"Session", []string{"continue", "resume", "fork", "ephemeral"}},
		{"Global", []string{"profile", "set", "config", "no-project-config", "debug", "log-file"}},
	}
}

// runFlagNames lists the flags that belong to `run` alone.
func runFlagNames() []string {
	var out []string
	for _, g := range runGroups() {
		if g.title != "Global" {
			out = append(out, g.names...)
		}
	}
	return slices.DeleteFunc(out, func(n string) bool { return n == "cd" || n == "quiet" || n == "color" })
}

func addRunFlags(cmd *cobra.Command, o *runOptions) {
	p := cmd.Flags()
	p.StringVarP(&o.File, "file", "F", "", "task from `FILE`: a prompt (.md) or a contract (.yaml, .json)")
	p.StringVarP(&o.Name, "name", "n", "", "`NAME` a handle for the run")
	p.StringVar(&o.Base, "base", "", "start from revision `REF` instead of HEAD")
	p.BoolVar(&o.DryRun, "dry-run", false, "print the resolved contract and stop")
	p.StringVarP(&o.Worktree, "worktree", "w", "", "keep the worktree under `NAME` (same as --name NAME --keep)")
	p.StringVar(&o.Remote, "remote", "", "run on a control plane, the configured one or `NAME`")
	p.Lookup("remote").NoOptDefVal = "default"
	p.BoolVar(&o.IncludeSecrets, "include-secrets", false, "with --remote: send files that look like credentials, too")
	p.BoolVarP(&o.Detach, "detach", "d", false, "go on in the background and print the run's id")
	p.IntVar(&o.Attempts, "attempts", 1, "try `N` times and keep the best")
	p.BoolVarP(&o.Print, "print", "p", false, "plain lines even on a terminal")
	p.StringVar(&o.Bundle, "bundle", "", "write the bundle to `FILE` at the end")
	p.BoolVarP(&o.Continue, "continue", "c", false, "go on with the last run of this repository")
	p.StringVarP(&o.Resume, "resume", "r", "", "go on with `RUN`")
	p.BoolVar(&o.Fork, "fork", false, "with --continue or --resume: start a run of its own from there")
	p.BoolVar(&o.Ephemeral, "ephemeral", false, "remove the record at the end")
	addSettingFlags(p)
	addOutputFlags(p, &o.JSON, &o.JQ)
	p.BoolVar(&o.yolo, "yolo", false, "same as --approve all")
	p.BoolVar(&o.iKnow, "i-know", false, "confirm --yolo without a sandbox")
	p.BoolVar(&o.Detach, "bg", false, "same as --detach")
	p.IntVar(&o.maxTurns, "max-turns", 0, "same as --max-steps")
	p.StringVar(&o.outputFormat, "output-format", "", "same as --output")
	for _, n := range []string{"yolo", "i-know", "bg", "max-turns", "output-format"} {
		p.Lookup(n).Hidden = true
	}
}

// addSettingFlags adds a flag for every setting that names one; values stay with the flag set.
func addSettingFlags(p *pflag.FlagSet) {
	for _, k := range config.Keys() {
		if k.Flag == "" || p.Lookup(k.Flag) != nil || k.Flag == "color" {
			continue
		}
		doc := k.Doc
		if k.Values != nil {
			doc += ": " + strings.Join(k.Values, ", ")
		}
		if k.Default != nil && config.Text(k.Default) != "0" && k.Kind != config.Bool {
			doc += fmt.Sprintf(" (default %s)", config.Text(k.Default))
		}
		short := map[string]string{"model": "m", "sandbox": "s", "output": "o"}[k.Flag]
		switch k.Kind {
		case config.List:
			p.StringArray(k.Flag, nil, "`"+placeholder(k.Flag)+"` "+doc+" (repeat)")
		case config.Bool:
			p.Bool(k.Flag, false, doc)
		default:
			p.StringP(k.Flag, short, "", "`"+placeholder(k.Flag)+"` "+doc)
		}
	}
}

func placeholder(flag string) string {
	switch flag {
	case "allow-path", "include":
		return "GLOB"
	case "check":
		return "ARGV"
	case "add-dir":
		return "DIR[:rw]"
	case "env":
		return "NAME"
	case "image":
		return "REF"
	case "allow", "deny":
		return "RULE"
	case "model", "fallback-model":
		return "PROVIDER/NAME"
	case "provider-url":
		return "URL"
	case "max-steps", "max-tokens", "max-calls":
		return "N"
	case "max-cost":
		return "USD"
	case "timeout", "approval-timeout":
		return "DURATION"
	}
	return "WORD"
}

// addOutputFlags adds the flags of machine-readable output.
func addOutputFlags(p *pflag.FlagSet, json *bool, jq *string) {
	p.BoolVar(json, "json", false, "machine-readable output")
	p.StringVar(jq, "jq", "", "filter the JSON by `EXPR`")
}

// applyFlags puts the flags that were given into the strongest layer of the settings.
func applyFlags(p *pflag.FlagSet, c *config.Config, o *runOptions) error {
	if err := o.habits(p, c); err != nil {
		return err
	}
	for _, k := range config.Keys() {
		fl := p.Lookup(k.Flag)
		if k.Flag == "" || fl == nil || !fl.Changed {
			continue
		}
		origin := "--" + k.Flag
		if list, ok := fl.Value.(pflag.SliceValue); ok {
			c.SetList(k.Name, list.GetSlice(), origin)
			continue
		}
		if err := c.Set(k.Name, fl.Value.String(), origin); err != nil {
			return err
		}
	}
	return nil
}

// habits takes the flags people know from other programs.
func (o *runOptions) habits(p *pflag.FlagSet, c *config.Config) error {
	if o.yolo {
		if err := c.Set("approve", "all", "--yolo"); err != nil {
			return err
		}
	}
	if o.maxTurns != 0 {
		if err := c.Set("limits.max_steps", fmt.Sprint(o.maxTurns), "--max-turns"); err != nil {
			return err
		}
	}
	if o.outputFormat != "" {
		if err := c.Set("output", o.outputFormat, "--output-format"); err != nil {
			return err
		}
	}
	if o.JSON || o.JQ != "" {
		if !p.Changed("output") {
			return c.Set("output", "json", "--json")
		}
	}
	return nil
}

func hideFlags(cmd *cobra.Command) {
	for _, n := range append(runFlagNames(), "yolo", "i-know", "bg", "max-turns", "output-format") {
		if fl := cmd.Flags().Lookup(n); fl != nil {
			fl.Hidden = true
		}
	}
}

// runUsage prints the flags of `run` under their headings.
func runUsage(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
	w := tabwriter.NewWriter(out, 2, 8, 3, ' ', 0)
	for _, g := range runGroups() {
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, n := range g.names {
			if fl := cmd.Flags().Lookup(n); fl != nil {
				left, doc := flagText(fl)
				fmt.Fprintf(w, "  %s\t%s\n", left, doc)
			}
		}
	}
	return w.Flush()
}

// flagText writes a flag with its argument, and its meaning.
func flagText(fl *pflag.Flag) (left, doc string) {
	arg, doc := pflag.UnquoteUsage(fl)
	doc = strings.TrimPrefix(doc, arg+" ")
	if fl.Value.Type() == "bool" {
		arg = ""
	}
	left = "    --" + fl.Name
	if fl.Shorthand != "" {
		left = "-" + fl.Shorthand + ", --" + fl.Name
	}
	if fl.NoOptDefVal != "" && arg != "" {
		return left + "[=" + arg + "]", doc
	}
	return strings.TrimRight(left+" "+arg, " "), doc
}
