package workspace

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rivumi/rivumi/internal/contract"
)

// Repo is a user's checkout as [Discover] found it. It is a value of that moment: the head does not
// follow later commits. Nothing of this type writes to the checkout.
type Repo struct {
	root     string // of the checkout
	gitDir   string // of this checkout (a linked worktree has its own)
	common   string // where objects and refs are
	head     string // commit
	headTree string
	format   string              // sha1 or sha256
	config   map[string][]string // the few settings that matter, lower-case keys
}

// wantedConfig are the settings that decide how bytes of the checkout become objects, and who
// the user is. None of them is a program that is ever run.
const wantedConfig = `^(core\.(autocrlf|eol|symlinks|filemode|ignorecase|sparsecheckout|sparsecheckoutcone|excludesfile)` +
	`|extensions\..*|user\.(name|email)|filter\..*\.(clean|smudge|process)|remote\..*\.promisor)$`

// Discover finds the checkout that dir is in: from a folder below its root, in a linked worktree
// (also of a bare repository), with a detached head, sparse. A folder outside any checkout is
// KindNotFound, a repository without a checkout or without a first commit KindInvalid.
func Discover(ctx context.Context, dir string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, contract.Errorf(contract.KindInvalid, "resolve %q: %w", dir, err)
	}
	if fi, err := os.Stat(dir); err != nil {
		return nil, contract.Errorf(contract.KindNotFound, "open %q: %w", dir, err)
	} else if !fi.IsDir() {
		return nil, contract.Errorf(contract.KindInvalid, "%q is not a folder", dir)
	}
	r := &Repo{}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.locate(gctx, dir) })
	g.Go(func() (err error) { r.config, err = readConfig(gctx, dir); return err })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return r, nil
}

// discoverEnv lets the user's own global settings count (safe.directory, core.autocrlf), since
// neither rev-parse nor config runs a program. Location variables are still cleared.
func discoverEnv() []string {
	env := slices.DeleteFunc(baseEnv(), func(kv string) bool {
		return strings.HasPrefix(kv, "GIT_CONFIG_")
	})
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func (r *Repo) locate(ctx context.Context, dir string) error {
	args := append(safeConfig(), "rev-parse", "--path-format=absolute", "--show-object-format", "--absolute-git-dir",
		"--git-common-dir", "--show-toplevel", "HEAD^{commit}", "HEAD^{tree}")
	out, err := start(ctx, call{cwd: dir, env: discoverEnv(), args: args, name: "rev-parse"})
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil {
		return locateError(ctx, dir, lines, err)
	}
	if len(lines) != 6 {
		return contract.Errorf(contract.KindInvalid, "the path of the repository at %q has a line break in it", dir)
	}
	r.format, r.gitDir, r.common, r.root, r.head, r.headTree = lines[0], lines[1], lines[2], lines[3], lines[4], lines[5]
	return nil
}

func locateError(ctx context.Context, dir string, lines []string, err error) error {
	if ctx.Err() != nil || contract.KindOf(err) != contract.KindInternal {
		return err
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "not a git repository"):
		return contract.Errorf(contract.KindNotFound, "%q is not inside a git repository", dir)
	case strings.Contains(text, "dubious ownership"):
		return contract.Errorf(contract.KindForbidden,
			"the repository at %q belongs to somebody else; if you trust it: git config --global --add safe.directory %q", dir, dir)
	case strings.Contains(text, "must be run in a work tree"):
		return contract.Errorf(contract.KindInvalid, "%q has no checkout (a bare repository, or inside .git)", dir)
	case len(lines) >= 4:
		return contract.Errorf(contract.KindInvalid, "a first commit is needed: the repository at %q has no commit to start from", lines[3])
	}
	return contract.Errorf(contract.KindInvalid, "look at the repository at %q: %w", dir, err)
}

func readConfig(ctx context.Context, dir string) (map[string][]string, error) {
	args := append(safeConfig(), "config", "--includes", "-z", "--get-regexp", wantedConfig)
	out, err := start(ctx, call{cwd: dir, env: discoverEnv(), args: args, name: "config"})
	if err != nil && !exitedWith(err, 1) {
		return nil, contract.Errorf(contract.KindInvalid, "read the git configuration of %q: %w", dir, err)
	}
	config := map[string][]string{}
	for item := range strings.SplitSeq(string(out), "\x00") {
		key, value, found := strings.Cut(item, "\n")
		if key == "" {
			continue
		}
		if !found {
			value = "true" // a key without a value
		}
		config[key] = append(config[key], value)
	}
	return config, nil
}

// Root is the absolute path of the checkout's root.
func (r *Repo) Root() string { return r.root }

// Head is the commit that was checked out when the repository was found.
func (r *Repo) Head() string { return r.head }

// GitDir is the git directory of this checkout, CommonDir the one its objects and refs are in.
func (r *Repo) GitDir() string { return r.gitDir }

// CommonDir is the git directory that holds objects and refs.
func (r *Repo) CommonDir() string { return r.common }

// Resolve gives the commit and the tree of a revision, KindInvalid for one that is not there.
func (r *Repo) Resolve(ctx context.Context, rev string) (commit, tree string, err error) {
	if rev == "" || rev == "HEAD" {
		return r.head, r.headTree, nil
	}
	if strings.HasPrefix(rev, "-") || strings.ContainsAny(rev, "\x00\n") {
		return "", "", contract.Errorf(contract.KindInvalid, "base %q is not a revision", rev)
	}
	out, err := git{dir: r.gitDir}.run(ctx, "rev-parse", "--end-of-options", rev+"^{commit}", rev+"^{tree}")
	if err != nil && ctx.Err() == nil {
		return "", "", contract.Errorf(contract.KindInvalid, "base %q is not a commit of this repository", rev)
	} else if err != nil {
		return "", "", err
	}
	fields := strings.Fields(string(out))
	if len(fields) > 0 && fields[0] == "--end-of-options" {
		fields = fields[1:]
	}
	if len(fields) != 2 {
		return "", "", contract.Errorf(contract.KindInvalid, "base %q is not one commit", rev)
	}
	return fields[0], fields[1], nil
}

// setting gives the last value of a setting, "" for none.
func (r *Repo) setting(key string) string {
	if v := r.config[key]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

func (r *Repo) sparse() bool { return isTrue(r.setting("core.sparsecheckout")) }

func isTrue(v string) bool {
	switch strings.ToLower(v) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}

// excludesFile is the user's own list of ignored files: data, never a program.
func (r *Repo) excludesFile() string {
	if p := r.setting("core.excludesfile"); p != "" {
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			return filepath.Join(os.Getenv("HOME"), rest)
		}
		return p
	}
	base := os.Getenv("XDG_CONFIG_HOME")
	if base == "" {
		home := os.Getenv("HOME")
		if home == "" {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "git", "ignore")
}

// objectDirs lists the object folders git would read from, the repository's own first.
func (r *Repo) objectDirs() []string {
	dirs := []string{filepath.Join(r.common, "objects")}
	for i := 0; i < len(dirs) && len(dirs) < 32; i++ {
		b, err := os.ReadFile(filepath.Join(dirs[i], "info", "alternates"))
		if err != nil {
			continue // no further store
		}
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSuffix(line, "\n")
			if line == "" || line[0] == '#' || line[0] == '"' {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(dirs[i], line)
			}
			if line = filepath.Clean(line); !slices.Contains(dirs, line) {
				dirs = append(dirs, line)
			}
		}
	}
	return dirs
}
