package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

type initOptions struct {
	*Factory
	Force bool
}

func newInitCmd(f *Factory, do func(context.Context, *initOptions) error) *cobra.Command {
	o := &initOptions{Factory: f}
	if do == nil {
		do = runInit
	}
	cmd := &cobra.Command{
		Use: "init", Short: "Write .rivumi/task.yaml with the tests found, and AGENTS.md where absent", Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return do(c.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.Force, "force", false, "write .rivumi/task.yaml even if it is there")
	return cmd
}

func runInit(_ context.Context, o *initOptions) error {
	dir, err := o.WorkDir()
	if err != nil {
		return err
	}
	root := repositoryRoot(dir)
	if root == "" {
		return usagef("git init makes one", "%s is not in a git repository", dir)
	}
	checks := detectChecks(root)
	task := filepath.Join(root, ".rivumi", "task.yaml")
	if err := os.MkdirAll(filepath.Dir(task), 0o755); err != nil {
		return fmt.Errorf("write task file: %w", err)
	}
	wrote, err := writeNew(task, taskTemplate(checks), o.Force)
	if err != nil {
		return err
	}
	if !wrote {
		o.IO.Note("%s is there already (--force writes it anew)", task)
	}
	agents := filepath.Join(root, "AGENTS.md")
	if made, err := writeNew(agents, agentsTemplate(checks), false); err != nil {
		return err
	} else if made {
		fmt.Fprintln(o.IO.Out, agents)
	}
	if wrote {
		fmt.Fprintln(o.IO.Out, task)
	}
	if len(checks) == 0 {
		o.IO.Note("no tests were found; write your test command under checks")
	}
	o.IO.Next(`rivumi run -F .rivumi/task.yaml "what to do"`)
	return nil
}

// writeNew writes a file unless it is there, following no link.
func writeNew(path, content string, force bool) (bool, error) {
	if force {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("write %s: %w", path, err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	return true, nil
}

// detectChecks finds the test commands of the usual build tools by their files.
func detectChecks(root string) [][]string {
	has := func(name string) bool {
		info, err := os.Lstat(filepath.Join(root, name))
		return err == nil && info.Mode().IsRegular()
	}
	var out [][]string
	for _, known := range []struct {
		file string
		argv []string
	}{
		{"go.mod", []string{"go", "test", "./..."}},
		{"Cargo.toml", []string{"cargo", "test"}},
		{"pytest.ini", []string{"python3", "-m", "pytest", "-q"}},
		{"tox.ini", []string{"python3", "-m", "pytest", "-q"}},
		{"pom.xml", []string{"mvn", "-q", "test"}},
		{"gradlew", []string{"./gradlew", "test"}},
		{"mix.exs", []string{"mix", "test"}},
		{"test.sh", []string{"sh", "test.sh"}},
	} {
		if has(known.file) {
			out = append(out, known.argv)
		}
	}
	if len(out) == 0 && has("pyproject.toml") && mentions(root, "pyproject.toml", "pytest") {
		out = append(out, []string{"python3", "-m", "pytest", "-q"})
	}
	if has("package.json") && npmTest(root) {
		out = append(out, []string{"npm", "test"})
	}
	if len(out) == 0 && has("Makefile") && mentions(root, "Makefile", "\ntest:") {
		out = append(out, []string{"make", "test"})
	}
	return out
}

func mentions(root, name, text string) bool {
	raw, err := readBounded(filepath.Join(root, name), 1<<20)
	return err == nil && strings.Contains("\n"+string(raw), text)
}

func npmTest(root string) bool {
	raw, err := readBounded(filepath.Join(root, "package.json"), 1<<20)
	var p struct {
		Scripts map[string]string `json:"scripts"`
	}
	return err == nil && json.Unmarshal(raw, &p) == nil && p.Scripts["test"] != "" && !strings.Contains(p.Scripts["test"], "no test specified")
}

func taskTemplate(checks [][]string) string {
	var b strings.Builder
	b.WriteString("# A task for rivumi run -F .rivumi/task.yaml \"what to do\". See rivumi help contract.\n")
	b.WriteString("allowedPaths: [\"**\"]\n")
	if len(checks) == 0 {
		b.WriteString("# checks:            # commands that decide whether the work is done, run without a shell\n#   - [make, test]\n")
	} else {
		b.WriteString("checks:              # commands that decide whether the work is done, run without a shell\n")
		for _, c := range checks {
			raw, _ := json.Marshal(c)
			fmt.Fprintf(&b, "  - %s\n", raw)
		}
	}
	b.WriteString("limits: {maxSteps: 40, wallTimeSeconds: 1200}\n")
	return b.String()
}

func agentsTemplate(checks [][]string) string {
	var b strings.Builder
	b.WriteString("# For agents working on this repository\n\n")
	if len(checks) > 0 {
		b.WriteString("Before you say that you are done, run:\n\n")
		for _, c := range checks {
			fmt.Fprintf(&b, "    %s\n", quoteArgv(c))
		}
		b.WriteString("\n")
	}
	b.WriteString("Keep changes small and to the point. Do not change tests to make them pass unless the task says so.\n")
	return b.String()
}
