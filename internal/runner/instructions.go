package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Bounds of what a repository may add to the prompt.
const (
	maxInstructions = 16 << 10 // bytes, all sources together
	maxSkills       = 50
	maxSkillLine    = 300  // bytes of a skill's name or description
	maxNested       = 50   // nested AGENTS.md that are named
	maxWalk         = 5000 // entries looked at for them
	maxDepth        = 5
)

// instructions gathers what the user and the repository tell the agent: the user's own SYSTEM.md, the
// root AGENTS.md, the names of nested ones, and the name and description of each skill. The
// repository's part is marked as data. tree is opened beneath its root: a link out of it is not
// followed. Notes say what was cut.
func instructions(tree, systemFile string) (text string, notes []string, err error) {
	var b strings.Builder
	if systemFile != "" {
		own, err := readCapped(os.Open, systemFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", nil, fmt.Errorf("read the user's instructions: %w", err)
		default:
			b.WriteString(block("user-instructions", "SYSTEM.md of the user", own))
		}
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		return "", nil, fmt.Errorf("open the tree: %w", err)
	}
	defer root.Close()
	b.WriteString(repositoryPart(root))
	text = b.String()
	if len(text) > maxInstructions {
		text = strings.ToValidUTF8(text[:maxInstructions], "") + "\n[cut at 16 KiB]\n"
		notes = append(notes, "the instructions of the repository are longer than 16 KiB and were cut")
	}
	return text, notes, nil
}

func repositoryPart(root *os.Root) string {
	var b strings.Builder
	open := func(name string) (*os.File, error) { return root.Open(name) }
	if own, err := readCapped(open, "AGENTS.md"); err == nil {
		b.WriteString(block("repository-instructions", "AGENTS.md of the repository", own))
	}
	if nested := nestedAgents(root.FS()); len(nested) > 0 {
		b.WriteString(block("repository-instructions", "more AGENTS.md, for the folders they are in; read them before working there",
			strings.Join(nested, "\n")))
	}
	if skills := skillList(root, open); skills != "" {
		b.WriteString(block("repository-skills", "skills of the repository; read .agents/skills/NAME/SKILL.md to use one", skills))
	}
	return b.String()
}

// block marks text as data. The text cannot close its own block.
func block(tag, title, text string) string {
	text = strings.ReplaceAll(contract.CleanText(text), "</"+tag, `<\/`+tag)
	return fmt.Sprintf("<%s title=%q>\n%s\n</%s>\n", tag, title, strings.TrimRight(text, "\n"), tag)
}

func readCapped(open func(string) (*os.File, error), name string) (string, error) {
	f, err := open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a plain file: %w", name, fs.ErrInvalid)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxInstructions+1))
	return string(data), err
}

// nestedAgents names the AGENTS.md below the root. The walk is bounded: a huge tree names fewer.
func nestedAgents(tree fs.FS) []string {
	var found []string
	seen := 0
	_ = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error { // what cannot be read is not named
		seen++
		if seen > maxWalk || len(found) == maxNested {
			return fs.SkipAll
		}
		if err != nil {
			return fs.SkipDir
		}
		if d.IsDir() && p != "." && skipFolder(p) {
			return fs.SkipDir
		}
		if d.Name() == "AGENTS.md" && p != "AGENTS.md" && d.Type().IsRegular() && contract.CheckPath(p) == "" {
			found = append(found, p)
		}
		return nil
	})
	return found
}

func skipFolder(p string) bool {
	name := path.Base(p)
	return strings.HasPrefix(name, ".") || strings.Count(p, "/") >= maxDepth ||
		slices.Contains([]string{"node_modules", "vendor", "target", "dist", "build"}, name)
}

func skillList(root *os.Root, open func(string) (*os.File, error)) string {
	entries, err := fs.ReadDir(root.FS(), ".agents/skills")
	if err != nil {
		return ""
	}
	var lines []string
	for _, e := range entries {
		if len(lines) == maxSkills {
			break
		}
		text, err := readCapped(open, path.Join(".agents/skills", e.Name(), "SKILL.md"))
		if err != nil {
			continue
		}
		name, about := frontMatter(text)
		if name == "" {
			name = e.Name()
		}
		lines = append(lines, fmt.Sprintf("- %s (folder %s): %s", name, e.Name(), about))
	}
	return strings.Join(lines, "\n")
}

// frontMatter reads the plain one-line name and description fields between the first two --- lines.
func frontMatter(text string) (name, about string) {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if lines[0] != "---" {
		return "", ""
	}
	for _, line := range lines[1:] {
		if line == "---" {
			break
		}
		key, value, _ := strings.Cut(line, ":")
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		if len(value) > maxSkillLine {
			value = strings.ToValidUTF8(value[:maxSkillLine], "") + "…"
		}
		switch key {
		case "name":
			name = value
		case "description":
			about = value
		}
	}
	return name, about
}
