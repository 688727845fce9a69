package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// layout is where the parts of a run's folder are.
type layout struct{ dir string }

func (l layout) ledger() string  { return filepath.Join(l.dir, "ledger") }
func (l layout) repo() string    { return filepath.Join(l.dir, "repo.git") }
func (l layout) link() string    { return filepath.Join(l.repo(), "worktrees", "tree") } // the worktree's own git dir
func (l layout) tree() string    { return filepath.Join(l.dir, "tree") }
func (l layout) upper() string   { return filepath.Join(l.dir, "upper") }
func (l layout) work() string    { return filepath.Join(l.dir, "work") }
func (l layout) include() string { return filepath.Join(l.dir, "include") } // copies of ignored files, for checks
func (l layout) record() string  { return filepath.Join(l.dir, "workspace.json") }
func (l layout) start() string   { return filepath.Join(l.ledger(), "start.index") }

// treeConfig is the part of a configuration that decides how bytes of a tree become objects. The
// words come from the user's settings and only known ones are taken over.
func treeConfig(r *Repo, bare bool) string {
	var b strings.Builder
	version := 0
	if r.format == "sha256" {
		version = 1
	}
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = %d\n\tbare = %t\n\tsafecrlf = false\n", version, bare)
	for _, s := range []struct{ key, words string }{
		{"filemode", "true false"},
		{"symlinks", "true false"},
		{"ignorecase", "true false"},
		{"autocrlf", "true false input"},
		{"eol", "lf crlf native"},
		{"sparsecheckout", "true false"},
		{"sparsecheckoutcone", "true false"},
	} {
		v := strings.ToLower(r.setting("core." + s.key))
		if v != "" && strings.Contains(" "+s.words+" ", " "+v+" ") {
			fmt.Fprintf(&b, "\t%s = %s\n", s.key, v)
		}
	}
	b.WriteString("[gc]\n\tauto = 0\n\tworktreePruneExpire = never\n[maintenance]\n\tauto = false\n")
	if r.format == "sha256" {
		b.WriteString("[extensions]\n\tobjectformat = sha256\n")
	}
	return b.String()
}

// gitFiles are the files every git directory of ours has, beside its own configuration.
func gitFiles(r *Repo) map[string]string {
	files := map[string]string{
		"HEAD": "ref: refs/heads/none\n", "objects/info/alternates": alternates(r.objectDirs()[:1]),
		"objects/pack/": "", "refs/heads/": "", "info/exclude": excludes(r),
	}
	for name, from := range map[string]string{
		"info/attributes": filepath.Join(r.common, "info", "attributes"),
		"shallow":         filepath.Join(r.common, "shallow"),
	} {
		if b, err := os.ReadFile(from); err == nil {
			files[name] = string(b)
		}
	}
	return files
}

// alternates formats object folders for objects/info/alternates.
func alternates(dirs []string) string {
	var b strings.Builder
	for _, d := range dirs {
		if strings.ContainsAny(d, "\n\"\\") || strings.HasPrefix(d, "#") {
			fmt.Fprintf(&b, "%s\n", quotePath(d))
		} else {
			b.WriteString(d + "\n")
		}
	}
	return b.String()
}

// excludes joins the user's ignore rules that are not in the tree: their global file and the
// repository's own.
func excludes(r *Repo) string {
	var b strings.Builder
	for _, p := range []string{r.excludesFile(), filepath.Join(r.common, "info", "exclude")} {
		if text, err := os.ReadFile(p); err == nil {
			b.Write(bytes.TrimSuffix(text, []byte("\n")))
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// makeLedger writes the host's git directory by hand: no process, no template, no hook.
func makeLedger(dir string, r *Repo) error {
	files := gitFiles(r)
	files["config"] = treeConfig(r, false) +
		"[checkout]\n\tworkers = 0\n\tthresholdForParallelism = 500\n[fastimport]\n\tunpackLimit = 1\n"
	if b, err := os.ReadFile(filepath.Join(r.gitDir, "info", "sparse-checkout")); err == nil {
		files["info/sparse-checkout"] = string(b)
	}
	return writeFiles(dir, files)
}

// makeAgentRepo writes the agent's repository and the worktree's place in it: detached at commit,
// with the names of the user's branches and tags to look at.
func makeAgentRepo(l layout, r *Repo, commit string) error {
	files := gitFiles(r)
	files["config"] = treeConfig(r, true) + "[user]\n\tname = rivumi\n\temail = rivumi@localhost\n" +
		"[core]\n\ttrustctime = false\n[commit]\n\tgpgsign = false\n[tag]\n\tgpgsign = false\n[core]\n\tpager = cat\n\teditor = true\n"
	files["packed-refs"] = packedRefs(r)
	if err := writeFiles(l.repo(), files); err != nil {
		return err
	}
	own := map[string]string{"HEAD": commit + "\n", "commondir": "../..\n", "gitdir": filepath.Join(l.tree(), ".git") + "\n"}
	if b, err := os.ReadFile(filepath.Join(r.gitDir, "info", "sparse-checkout")); err == nil {
		own["info/sparse-checkout"] = string(b)
	}
	return writeFiles(l.link(), own)
}

const maxRefs = 20_000

// packedRefs gives the user's branches, tags and remote branches as a packed-refs file.
func packedRefs(r *Repo) string {
	refs := map[string]string{}
	if b, err := os.ReadFile(filepath.Join(r.common, "packed-refs")); err == nil {
		for line := range strings.Lines(string(b)) {
			oid, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if ok && isOID(oid, r.format) && wantedRef(name) && len(refs) < maxRefs {
				refs[name] = oid
			}
		}
	}
	for _, kind := range []string{"refs/heads", "refs/tags", "refs/remotes"} {
		_ = filepath.WalkDir(filepath.Join(r.common, kind), func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || len(refs) >= maxRefs {
				return nil // refs are only there to look at
			}
			b, err := os.ReadFile(p)
			name, rerr := filepath.Rel(r.common, p)
			if oid := strings.TrimSpace(string(b)); err == nil && rerr == nil && isOID(oid, r.format) {
				refs[filepath.ToSlash(name)] = oid
			}
			return nil
		})
	}
	var b strings.Builder
	b.WriteString("# pack-refs with: sorted \n")
	for _, name := range sortedKeys(refs) {
		fmt.Fprintf(&b, "%s %s\n", refs[name], name)
	}
	return b.String()
}

func wantedRef(name string) bool {
	return !strings.ContainsAny(name, " \x00") && (strings.HasPrefix(name, "refs/heads/") ||
		strings.HasPrefix(name, "refs/tags/") || strings.HasPrefix(name, "refs/remotes/"))
}

// isOID reports whether s is an object name in the format.
func isOID(s, format string) bool {
	return len(s) == newHash(format).Size()*2 && strings.Trim(s, "0123456789abcdef") == ""
}

// writeFiles writes files below dir; a name that ends in a slash is an empty folder.
func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		folder := filepath.Dir(p)
		if strings.HasSuffix(name, "/") {
			folder = p
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("make %q: %w", folder, err)
		}
		if folder == p {
			continue
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write %q: %w", p, err)
		}
	}
	return nil
}

// quotePath quotes a path the way git's own formats do.
func quotePath(p string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(p) {
		switch c := p[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// checkout writes tree as files into dir and gives the entries of the index it made at index.
func (l layout) checkout(ctx context.Context, tree, dir, index string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make tree: %w", err)
	}
	g := git{dir: l.ledger(), tree: dir, index: index}
	if _, err := g.run(ctx, "read-tree", "--reset", "-u", tree); err != nil {
		return fmt.Errorf("check out %s: %w", tree, err)
	}
	return nil
}

// readIndex reads the index at path and when it was written.
func readIndex(path, format string) ([]entry, os.FileInfo, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	entries, err := parseIndex(b, format)
	return entries, fi, err
}
