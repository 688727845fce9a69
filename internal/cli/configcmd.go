package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/config"
)

func newConfigCmd(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Read, change and explain settings", Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	sub := func(use, short string, least, most int, do func(f *Factory, a []string) error) {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: short, Args: args(least, most),
			RunE: func(_ *cobra.Command, a []string) error { return do(f, a) },
		})
	}
	sub("get KEY", "Print the value in force", 1, 1, configGet)
	sub("set KEY VALUE", "Set a key in your settings; an empty value removes it", 2, 2, configSet)
	sub("path", "Print where settings are read from", 0, 0, configPath)
	sub("explain [KEY]", "Say which layer set a value", 0, 1, configExplain)
	sub("schema", "Print the JSON Schema of settings files", 0, 0, configSchema)
	sub("trust", "Show this repository's settings and trust their exact content", 0, 0, configTrust)
	sub("untrust", "Stop trusting this repository's settings", 0, 0, configUntrust)
	cmd.AddCommand(newConfigListCmd(f))
	return cmd
}

func newConfigListCmd(f *Factory) *cobra.Command {
	var asJSON bool
	var jq string
	cmd := &cobra.Command{
		Use: "list", Short: "Print every setting in force", Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error { return configList(f, asJSON || jq != "", jq) },
	}
	addOutputFlags(cmd.Flags(), &asJSON, &jq)
	return cmd
}

func configGet(f *Factory, a []string) error {
	c, err := f.Config()
	if err != nil {
		return err
	}
	if _, ok := config.Find(a[0]); !ok {
		return unknownKey(a[0])
	}
	fmt.Fprintln(f.IO.Out, config.Text(c.Lookup(a[0]).Value))
	return nil
}

func unknownKey(name string) error {
	hint := "rivumi config list prints them"
	if near := config.Nearest(name); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return usagef(hint, "unknown key %q", name)
}

func configSet(f *Factory, a []string) error {
	path := f.UserConfigFile()
	if path == "" {
		return usagef("set HOME, or give --config FILE", "there is no place for settings")
	}
	if err := config.WriteUser(path, a[0], a[1]); err != nil {
		return err
	}
	f.IO.Note("wrote %s", path)
	f.IO.Next("rivumi config explain " + a[0])
	return nil
}

func configPath(f *Factory, _ []string) error {
	fmt.Fprintf(f.IO.Out, "user     %s%s\n", f.UserConfigFile(), missing(f.UserConfigFile()))
	dir, err := f.WorkDir()
	if err != nil {
		return err
	}
	if root := repositoryRoot(dir); root != "" {
		path := config.ProjectFile(root)
		fmt.Fprintf(f.IO.Out, "project  %s%s\n", path, f.trustState(root))
	}
	state, err := f.StateDir()
	if err != nil {
		return err
	}
	fmt.Fprintf(f.IO.Out, "state    %s\n", state)
	return nil
}

func missing(path string) string {
	if _, err := os.Stat(path); err != nil {
		return "  (not there)"
	}
	return ""
}

func (f *Factory) trustState(root string) string {
	raw, err := os.ReadFile(config.ProjectFile(root))
	if err != nil {
		return "  (not there)"
	}
	trust, err := f.Trust()
	if err == nil && trust.Holds(root, raw) {
		return "  (trusted)"
	}
	return "  (not trusted, so not used; rivumi config trust)"
}

func configExplain(f *Factory, a []string) error {
	c, err := f.Config()
	if err != nil {
		return err
	}
	names := c.Names()
	if len(a) == 1 {
		k, ok := config.Find(a[0])
		if !ok {
			return unknownKey(a[0])
		}
		fmt.Fprintf(f.IO.Out, "%s: %s\n", a[0], k.Doc)
		names = []string{a[0]}
	}
	w := tabwriter.NewWriter(f.IO.Out, 2, 8, 2, ' ', 0)
	for _, name := range names {
		chain := c.Chain(name)
		if len(chain) == 0 {
			fmt.Fprintf(w, "%s\t(not set)\n", name)
		}
		for i, s := range chain {
			mark := "  overridden"
			if i == 0 {
				mark = ""
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s%s\n", name, config.Text(s.Value), s.Layer, s.Origin, mark)
		}
	}
	if c.Untrusted != "" {
		f.IO.Note("%s is not trusted and not used; rivumi config trust shows it", c.Untrusted)
	}
	return w.Flush()
}

// listed is one line of `config list --json`.
type listed struct {
	Key    string       `json:"key"`
	Value  any          `json:"value"`
	Layer  config.Layer `json:"layer"`
	Origin string       `json:"origin"`
}

func configList(f *Factory, asJSON bool, jq string) error {
	c, err := f.Config()
	if err != nil {
		return err
	}
	out := []listed{}
	for _, name := range c.Names() {
		s := c.Lookup(name)
		out = append(out, listed{name, s.Value, s.Layer, s.Origin})
	}
	if asJSON {
		return writeJSON(f.IO.Out, out, jq)
	}
	w := tabwriter.NewWriter(f.IO.Out, 2, 8, 2, ' ', 0)
	for _, l := range out {
		fmt.Fprintf(w, "%s\t%s\t%s\n", l.Key, config.Text(l.Value), l.Layer)
	}
	return w.Flush()
}

func configSchema(f *Factory, _ []string) error {
	enc := json.NewEncoder(f.IO.Out)
	enc.SetIndent("", "  ")
	return enc.Encode(config.Schema())
}

func configTrust(f *Factory, _ []string) error {
	root, raw, err := f.projectFile()
	if err != nil {
		return err
	}
	trust, err := f.Trust()
	if err != nil {
		return err
	}
	fmt.Fprintf(f.IO.Out, "%s\n", clean(string(raw)))
	if f.IO.Asks() {
		fmt.Fprintf(f.IO.Err, "rivumi: trust exactly these settings of %s? type yes: ", root)
		answer := make([]byte, 5)
		n, _ := io.ReadAtLeast(f.IO.In, answer, 4)
		if string(answer[:min(3, n)]) != "yes" {
			return usagef("nothing was changed", "not trusted")
		}
	}
	if err := trust.Add(root, raw); err != nil {
		return err
	}
	f.IO.Note("trusted until the file changes: %s", config.ProjectFile(root))
	if _, err := f.Config(); err != nil {
		f.IO.Warn("they cannot be used as they are: %v", err)
	}
	f.IO.Next("rivumi config explain", "rivumi config untrust")
	return nil
}

func configUntrust(f *Factory, _ []string) error {
	dir, err := f.WorkDir()
	if err != nil {
		return err
	}
	trust, err := f.Trust()
	if err != nil {
		return err
	}
	if err := trust.Remove(repositoryRoot(dir)); err != nil {
		return err
	}
	f.IO.Note("this repository's settings are not used any more")
	f.IO.Next("rivumi config trust")
	return nil
}

func (f *Factory) projectFile() (root string, raw []byte, err error) {
	dir, err := f.WorkDir()
	if err != nil {
		return "", nil, err
	}
	root = repositoryRoot(dir)
	raw, err = readBounded(config.ProjectFile(root), 1<<20)
	if root == "" || err != nil {
		return "", nil, usagef("write .rivumi/config.toml in the root of a repository", "there are no repository settings here")
	}
	return root, raw, nil
}
