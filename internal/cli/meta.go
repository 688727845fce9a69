package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rivumi/rivumi/internal/contract"
)

// versionInfo is the JSON of `version`.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Events   int    `json:"eventVersion"`
}

func newVersionCmd(f *Factory) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{Version: f.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Events: contract.EventVersion}
			if b, ok := debug.ReadBuildInfo(); ok {
				for _, s := range b.Settings {
					if s.Key == "vcs.revision" {
						v.Commit = s.Value
					}
				}
			}
			if asJSON {
				return writeJSON(f.IO.Out, v, "")
			}
			fmt.Fprintf(f.IO.Out, "rivumi %s (%s, %s)\n", v.Version, v.Platform, v.Go)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "machine-readable output")
	return cmd
}

func newCompletionCmd(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print a completion script for a shell", Args: args(1, 1),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(c *cobra.Command, a []string) error {
			switch a[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(f.IO.Out, true)
			case "zsh":
				return c.Root().GenZshCompletion(f.IO.Out)
			case "fish":
				return c.Root().GenFishCompletion(f.IO.Out, true)
			case "powershell":
				return c.Root().GenPowerShellCompletionWithDesc(f.IO.Out)
			}
			return usagef("bash, zsh, fish or powershell", "no completion for %q", a[0])
		},
	}
}

// newManCmd prints one manual page for the whole program, or writes one a command into a folder.
func newManCmd(f *Factory) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "man", Short: "Print the manual page", Hidden: true, Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				fmt.Fprint(f.IO.Out, manPage(c.Root(), f.Version))
				return nil
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("write manual: %w", err)
			}
			for _, sub := range append([]*cobra.Command{c.Root()}, c.Root().Commands()...) {
				if sub.Hidden {
					continue
				}
				name := strings.ReplaceAll(sub.CommandPath(), " ", "-") + ".1"
				if err := os.WriteFile(filepath.Join(dir, name), []byte(manPage(sub, f.Version)), 0o644); err != nil {
					return fmt.Errorf("write manual: %w", err)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write a page for every command into `DIR`")
	return cmd
}

// manPage writes a command as a page of section 1.
func manPage(c *cobra.Command, version string) string {
	var b strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"rivumi %s\"\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(name)), roff(version), roff(name), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	if c.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", roff(c.Long))
	}
	if c.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(sub.Use), roff(sub.Short))
			}
		}
	}
	b.WriteString(".SH OPTIONS\n")
	c.Flags().VisitAll(func(fl *pflag.Flag) {
		if fl.Hidden {
			return
		}
		left, doc := flagText(fl)
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(left)), roff(doc))
	})
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	return b.String()
}

// roff escapes text for a manual page.
func roff(s string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = strings.ReplaceAll(s, "-", `\-`)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
