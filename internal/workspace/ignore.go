package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const maxIgnoreRounds = 64 // of asking git about ever deeper folders

// ignored asks git which of the paths its ignore rules cover, read from tree.
func ignored(ctx context.Context, g git, paths []string) (map[string]bool, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	g.input = strings.NewReader("./" + strings.Join(paths, "\x00./") + "\x00") // ./ keeps a colon in front from being magic
	g.env = append(g.env, "GIT_LITERAL_PATHSPECS=0")                           // which this command does not know
	out, err := g.run(ctx, "check-ignore", "--no-index", "-z", "--stdin")
	if err != nil && !exitedWith(err, 1) {
		return nil, fmt.Errorf("ask for ignore rules: %w", err)
	}
	set := map[string]bool{}
	for p := range strings.SplitSeq(string(out), "\x00") {
		if p != "" {
			set[strings.TrimPrefix(p, "./")] = true
		}
	}
	return set, nil
}

// askIgnored tells which of the paths are ignored; folders end in a slash.
type askIgnored func(ctx context.Context, paths []string) (map[string]bool, error)

// sorted splits what a scan found untracked by the ignore rules.
type sorted struct {
	fresh   []found  // files that are not ignored
	ignored []string // topmost ignored files and folders, the latter with a slash
}

// sift asks for the ignore rules of everything untracked in res, and looks into big folders
// only once git said that they are not ignored. res gets what such folders hold.
func (s *scanner) sift(ctx context.Context, ask askIgnored, root string, res *scanResult) (sorted, error) {
	var out sorted
	files, pending := res.untracked, res.pending
	for range maxIgnoreRounds {
		paths := make([]string, 0, len(files)+len(pending))
		for _, f := range files {
			paths = append(paths, f.path)
		}
		for _, f := range pending {
			paths = append(paths, f.path)
		}
		set, err := ask(ctx, paths)
		if err != nil {
			return out, err
		}
		out.add(files, set)
		var next []string
		for _, f := range pending {
			if set[f.path] {
				out.ignored = append(out.ignored, f.path)
			} else {
				next = append(next, f.path)
			}
		}
		if len(next) == 0 {
			return out, nil
		}
		if files, pending, err = s.descend(ctx, root, next, res); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (o *sorted) add(files []found, set map[string]bool) {
	slices.SortFunc(files, byPath) // a folder comes before what is in it
	top := ""
	for _, f := range files {
		if top != "" && strings.HasPrefix(f.path, top) {
			continue
		}
		isFolder := strings.HasSuffix(f.path, "/")
		switch {
		case set[f.path]:
			o.ignored = append(o.ignored, f.path)
			if top = ""; isFolder {
				top = f.path
			}
		case !isFolder:
			o.fresh = append(o.fresh, f)
		}
	}
}

// descend lists one level of untracked folders.
func (s *scanner) descend(ctx context.Context, root string, folders []string, res *scanResult) (files, pending []found, err error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open tree %q: %w", root, err)
	}
	defer unix.Close(fd)
	var level scanResult
	for _, folder := range folders {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		dir, err := openBeneath(fd, strings.TrimSuffix(folder, "/"))
		if err != nil {
			continue // gone or replaced meanwhile
		}
		names, err := readNames(dir)
		for _, name := range names {
			if err == nil && !isDotGit(name) {
				err = s.untracked(dir, folder+name, &level)
			}
		}
		unix.Close(dir)
		if err != nil {
			return nil, nil, err
		}
		if len(level.untracked) > maxUntracked {
			res.overflow = true
			level.untracked, level.pending = level.untracked[:maxUntracked], nil
			break
		}
	}
	res.nested, res.special = append(res.nested, level.nested...), append(res.special, level.special...)
	return level.untracked, level.pending, nil
}
