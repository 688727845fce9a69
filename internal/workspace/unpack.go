package workspace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Bounds of a packed source.
const (
	maxBundleLine = 512
	maxShallow    = 1000
	maxUnpackTree = 200_000 // files of its tree
)

// UnpackOptions say where a packed source goes.
type UnpackOptions struct {
	Dir      string // a folder, empty or not there yet; it becomes the checkout
	MaxBytes int64  // of the pack; 0: 512 MiB
}

// Unpack makes a repository of a packed source in Dir: the base checked out, the uncommitted work as
// uncommitted work on top. The source is hostile: only the names [Repo.Pack] writes are taken, every
// object is checked, no hook, filter or setting of it counts, and nothing outside Dir is written. On
// an error Dir is gone. The result tells whether git-ignored files came along.
func Unpack(ctx context.Context, bundle io.Reader, o UnpackOptions) (included bool, err error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 512 << 20
	}
	if err := ownFolder(o.Dir); err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeTree(o.Dir))
		}
	}()
	in := bufio.NewReader(bundle)
	head, err := readBundleHead(in)
	if err != nil {
		return false, err
	}
	dir := filepath.Join(o.Dir, ".git")
	if err := writeFiles(dir, emptyRepo(head)); err != nil {
		return false, err
	}
	g := git{dir: dir, cwd: o.Dir, input: in}
	_, err = g.run(ctx, "index-pack", "--stdin", fmt.Sprintf("--max-input-size=%d", o.MaxBytes), "--strict="+oldFaults)
	if err != nil {
		return false, refuseBundle(ctx, err)
	}
	return head.refs[refInclude] != "", head.checkOut(ctx, o.Dir)
}

// oldFaults are faults of objects that old versions of git made and that harm nobody.
const oldFaults = "zeroPaddedFilemode=ignore,missingSpaceBeforeDate=ignore,missingEmail=ignore,badTimezone=ignore,missingTaggerEntry=ignore,badDateOverflow=ignore"

func refuseBundle(ctx context.Context, err error) error {
	if ctx.Err() != nil || contract.KindOf(err) != contract.KindInternal {
		return err
	}
	if ge, ok := errors.AsType[*gitError](err); !ok || ge.code <= 0 {
		return err // git was not started, or something killed it
	}
	return contract.Errorf(contract.KindInvalid, "the source cannot be unpacked: %w", err)
}

// bundleHead is what the head of a bundle says.
type bundleHead struct {
	refs    map[string]string
	shallow []string
}

// readBundleHead reads up to the pack. No object that the other side is said to have, no
// capability and no name but ours is taken.
func readBundleHead(in *bufio.Reader) (*bundleHead, error) {
	bad := func(why string) error {
		return contract.Errorf(contract.KindInvalid, "the source is not a bundle of rivumi: %s", why)
	}
	line, err := bundleLine(in)
	if err != nil || line != "# v2 git bundle" {
		return nil, bad("it does not begin like one (git, version 2, SHA-1)")
	}
	h := &bundleHead{refs: map[string]string{}}
	for {
		if line, err = bundleLine(in); err != nil {
			return nil, bad("its head is broken")
		}
		if line == "" {
			break
		}
		oid, name, _ := strings.Cut(line, " ")
		switch {
		case !isOID(oid, "sha1"):
			return nil, bad("it needs objects that are not in it, or names none")
		case name == refBase || name == refTracked || name == refStart || name == refInclude:
			if h.refs[name] != "" {
				return nil, bad("it names something twice")
			}
			h.refs[name] = oid
		case strings.HasPrefix(name, refShallow) && len(h.shallow) < maxShallow:
			h.shallow = append(h.shallow, oid)
		default:
			return nil, bad("it names something else than a source")
		}
	}
	if h.refs[refBase] == "" {
		return nil, bad("it has no base")
	}
	return h, nil
}

func bundleLine(in *bufio.Reader) (string, error) {
	var b []byte
	for len(b) <= maxBundleLine {
		c, err := in.ReadByte()
		if err != nil {
			return "", err
		}
		if c == '\n' {
			return string(b), nil
		}
		b = append(b, c)
	}
	return "", errors.New("line too long")
}

// emptyRepo is the git directory before the objects come.
func emptyRepo(h *bundleHead) map[string]string {
	files := map[string]string{
		"HEAD": "ref: refs/heads/rivumi\n", "objects/pack/": "", "objects/info/": "", "refs/heads/": "",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tsafecrlf = false\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n",
	}
	if len(h.shallow) > 0 {
		files["shallow"] = strings.Join(h.shallow, "\n") + "\n"
	}
	return files
}

// top is the newest of the named commits up to and with last.
func (h *bundleHead) top(last string) string {
	oid := h.refs[refBase]
	for _, name := range []string{refTracked, refStart, refInclude} {
		if h.refs[name] != "" {
			oid = h.refs[name]
		}
		if name == last {
			break
		}
	}
	return oid
}

// checkOut lays the tree down: the head at the base, the index as the user's was, the files as theirs
// were.
func (h *bundleHead) checkOut(ctx context.Context, dir string) error {
	g := git{dir: filepath.Join(dir, ".git"), tree: dir}
	oids := []string{h.refs[refBase], h.top(refInclude)}
	if err := h.verify(ctx, g); err != nil {
		return err
	}
	g.input = strings.NewReader("update refs/heads/rivumi " + oids[0] + "\n")
	if _, err := g.run(ctx, "update-ref", "--stdin"); err != nil {
		return refuseBundle(ctx, err)
	}
	g.input = nil
	if _, err := g.run(ctx, "read-tree", "-u", "--reset", oids[1]); err != nil {
		return refuseBundle(ctx, err)
	}
	// The files stay; the index goes back to what git knew of them.
	if _, err := g.run(ctx, "read-tree", "--reset", h.top(refTracked)); err != nil {
		return refuseBundle(ctx, err)
	}
	return nil
}

// verify checks that the named objects are commits on top of each other and that their trees hold
// nothing but paths a run may have.
func (h *bundleHead) verify(ctx context.Context, g git) error {
	below := h.refs[refBase]
	for _, name := range []string{refBase, refTracked, refStart, refInclude} {
		oid := h.refs[name]
		if oid == "" {
			continue
		}
		out, err := g.run(ctx, "cat-file", "-p", oid)
		if err != nil || !strings.HasPrefix(string(out), "tree ") {
			return contract.Errorf(contract.KindInvalid, "the source has no commit as %s", name)
		}
		if name != refBase && strings.Count(string(out), "\nparent ") != 1 || name != refBase && !strings.Contains(string(out), "\nparent "+below+"\n") {
			return contract.Errorf(contract.KindInvalid, "the source's %s does not follow what it starts from", name)
		}
		below = oid
		if err := checkTree(ctx, g, oid); err != nil {
			return err
		}
	}
	return nil
}

func checkTree(ctx context.Context, g git, commit string) error {
	out, err := g.run(ctx, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
	if err != nil {
		return refuseBundle(ctx, err)
	}
	n := 0
	for p := range strings.SplitSeq(string(out), "\x00") {
		if p == "" {
			continue
		}
		if n++; n > maxUnpackTree {
			return contract.Errorf(contract.KindTooLarge, "the source has more than %d files", maxUnpackTree)
		}
		for seg := range strings.SplitSeq(p, "/") {
			if seg == "" || seg == "." || seg == ".." || contract.IsGitName(seg) {
				return contract.Errorf(contract.KindInvalid, "the source has a path that cannot be: %s", contract.CleanText(p))
			}
		}
	}
	return nil
}

// FromFiles makes a repository of inline files in Dir, committed as its first commit. The paths have
// passed the rules of requests already and are held against them once more. On an error Dir is gone.
func FromFiles(ctx context.Context, files []InlineFile, dir string) (err error) {
	if err := ownFolder(dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeTree(dir))
		}
	}()
	gitDir := filepath.Join(dir, ".git")
	if err := writeFiles(gitDir, emptyRepo(&bundleHead{})); err != nil {
		return err
	}
	var in strings.Builder
	in.WriteString("commit refs/heads/rivumi\ncommitter rivumi <rivumi@localhost> 946684800 +0000\ndata 6\nsource\n")
	for i, f := range files {
		if why := contract.CheckPath(f.Path); why != "" {
			return contract.Errorf(contract.KindInvalid, "files[%d].path %s", i, why)
		}
		mode := "100644"
		if f.Executable {
			mode = "100755"
		}
		fmt.Fprintf(&in, "M %s inline %s\ndata %d\n%s\n", mode, quotePath(f.Path), len(f.Content), f.Content)
	}
	in.WriteString("done\n")
	g := git{dir: gitDir, tree: dir, input: strings.NewReader(in.String())}
	if _, err := g.run(ctx, "fast-import", "--quiet", "--done", "--date-format=raw"); err != nil {
		return refuseBundle(ctx, err)
	}
	g.input = nil
	if _, err := g.run(ctx, "read-tree", "-u", "--reset", "HEAD"); err != nil {
		return refuseBundle(ctx, err)
	}
	n, err := g.run(ctx, "ls-tree", "-r", "-z", "--name-only", "HEAD")
	if err == nil && strings.Count(string(n), "\x00") != len(files) {
		err = contract.Errorf(contract.KindInvalid, "the files stand in each other's way")
	}
	return err
}

// InlineFile is one file of [FromFiles].
type InlineFile struct {
	Path       string
	Content    []byte
	Executable bool
}
