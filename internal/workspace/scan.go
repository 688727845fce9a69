package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	eagerUntracked = 500     // entries of an untracked folder looked at before git is asked whether it is ignored
	maxScanDepth   = 512     // folders deep
	maxUntracked   = 200_000 // untracked files listed in one scan; the rest is left out
)

// found is a file of a tree as a scan saw it, without following links.
type found struct {
	path string
	mode uint32 // git's; 0 for what git cannot hold
	st   unix.Stat_t
}

// scanResult is how a tree differs, by its stat, from a list of entries.
type scanResult struct {
	modified  []found  // tracked and there, perhaps changed
	deleted   []string // tracked and gone
	untracked []found  // not tracked; folders end in a slash
	pending   []found  // untracked folders too big to list before their ignore rule is known
	nested    []string // untracked folders that are repositories of their own
	special   []string // sockets, pipes, devices: no git holds them
	overflow  bool     // more than maxUntracked
}

// scanner walks a tree beside the sorted entries of an index. Folders are opened by descriptor
// and no link is followed, so a tree that changes underneath can only give a wrong answer about itself.
type scanner struct {
	fileMode bool
	stamp    unix.Timespec // when the entries' stat was taken: files not older may have changed unseen
	entered  bool          // list what is in nested repositories too
	layer    bool          // the tree is the upper layer of an overlay: what is not in it is unchanged

	group *errgroup.Group
	ctx   context.Context
	mu    sync.Mutex
	res   scanResult
}

// scan compares the tree at root with entries.
func (s *scanner) scan(ctx context.Context, root string, entries []entry) (scanResult, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return scanResult{}, fmt.Errorf("open tree %q: %w", root, err)
	}
	defer unix.Close(fd)
	s.group, s.ctx = errgroup.WithContext(ctx)
	s.group.SetLimit(runtime.GOMAXPROCS(0))
	err = s.folder(fd, "", entries)
	if werr := s.group.Wait(); err == nil {
		err = werr
	}
	slices.SortFunc(s.res.modified, byPath)
	slices.SortFunc(s.res.untracked, byPath)
	slices.Sort(s.res.deleted)
	return s.res, err
}

func byPath(a, b found) int { return strings.Compare(a.path, b.path) }

// folder compares one open folder; entries are those below prefix.
func (s *scanner) folder(fd int, prefix string, entries []entry) error {
	if err := s.ctx.Err(); err != nil {
		return context.Cause(s.ctx)
	}
	if strings.Count(prefix, "/") > maxScanDepth {
		return fmt.Errorf("folder %q is too deep", prefix)
	}
	names, err := readNames(fd)
	if err != nil {
		return fmt.Errorf("list folder %q: %w", prefix, err)
	}
	files, dirs := children(prefix, entries)
	hides := !s.layer || isOpaque(fd)
	var local scanResult
	for _, name := range names {
		if isDotGit(name) {
			continue
		}
		if s.layer && isWhiteout(fd, name) {
			if e := files[name]; e != nil {
				local.gone([]entry{*e}, true)
				delete(files, name)
			}
			local.gone(dirs[name], true)
			delete(dirs, name)
			continue
		}
		if e, ok := files[name]; ok {
			delete(files, name)
			if s.tracked(fd, e, &local) {
				continue
			}
		}
		if sub, ok := dirs[name]; ok {
			opened, err := s.enter(fd, name, prefix, sub)
			if err != nil {
				return err
			}
			delete(dirs, name)
			if opened {
				continue
			}
			local.gone(sub, true) // a file stands in the folder's place
		}
		if err := s.untracked(fd, prefix+name, &local); err != nil {
			return err
		}
	}
	for _, e := range files {
		local.gone([]entry{*e}, hides)
	}
	for _, sub := range dirs {
		local.gone(sub, hides)
	}
	s.merge(local)
	return nil
}

// gone takes entries that were not met as deleted. Where the layer below shows through, only what
// had been laid into the upper layer can be missed.
func (r *scanResult) gone(entries []entry, hides bool) {
	for i := range entries {
		if e := &entries[i]; (hides || e.laid) && !e.skip && e.mode != modeGit {
			r.deleted = append(r.deleted, e.path)
		}
	}
}

func (s *scanner) merge(r scanResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.res.modified = append(s.res.modified, r.modified...)
	s.res.deleted = append(s.res.deleted, r.deleted...)
	s.res.pending = append(s.res.pending, r.pending...)
	s.res.nested = append(s.res.nested, r.nested...)
	s.res.special = append(s.res.special, r.special...)
	if room := maxUntracked - len(s.res.untracked); len(r.untracked) > room {
		r.untracked, s.res.overflow = r.untracked[:max(room, 0)], true
	}
	s.res.untracked = append(s.res.untracked, r.untracked...)
}

// tracked compares a tracked file; false means that something else stands in its place.
func (s *scanner) tracked(fd int, e *entry, local *scanResult) bool {
	if e.mode == modeGit {
		return true // a submodule is never looked into
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, baseName(e.path), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		local.deleted = append(local.deleted, e.path)
		return true
	}
	mode := gitMode(&st)
	if mode == 0 {
		local.deleted = append(local.deleted, e.path)
		return false
	}
	if e.assumeValid || e.stage == 0 && !e.intentToAdd && e.sameStat(&st, s.fileMode) && !s.racy(e) {
		return true
	}
	if !s.fileMode && mode != modeLink && e.mode != modeLink {
		mode = e.mode
	}
	local.modified = append(local.modified, found{path: e.path, mode: mode, st: st})
	return true
}

// racy reports whether the file could have changed after its entry was made without its stat telling.
func (s *scanner) racy(e *entry) bool {
	if int64(e.mtime) != s.stamp.Sec {
		return int64(e.mtime) > s.stamp.Sec
	}
	return e.mtimeNS == 0 || int64(e.mtimeNS) >= s.stamp.Nsec
}

// enter walks a tracked folder, beside the others where a processor is free.
func (s *scanner) enter(fd int, name, prefix string, sub []entry) (bool, error) {
	child, err := openFolder(fd, name)
	if err != nil {
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOENT) {
			return false, nil // no folder any more: its files are gone
		}
		return false, fmt.Errorf("open folder %q: %w", prefix+name, err)
	}
	walk := func() error {
		defer unix.Close(child)
		return s.folder(child, prefix+name+"/", sub)
	}
	if s.group.TryGo(walk) {
		return true, nil
	}
	return true, walk()
}

// untracked lists something that is not in the index.
func (s *scanner) untracked(fd int, path string, local *scanResult) error {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, baseName(path), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil // gone meanwhile
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return s.untrackedFolder(fd, path, local)
	}
	f := found{path: path, mode: gitMode(&st), st: st}
	if f.mode == 0 && s.layer && isWhiteoutStat(&st) {
		return nil
	}
	if f.mode == 0 {
		local.special = append(local.special, path)
		return nil
	}
	local.untracked = append(local.untracked, f)
	return nil
}

func (s *scanner) untrackedFolder(fd int, path string, local *scanResult) error {
	child, err := openFolder(fd, baseName(path))
	if err != nil {
		local.special = append(local.special, path)
		return nil
	}
	defer unix.Close(child)
	var inner scanResult
	room := eagerUntracked
	if s.eager(child, path+"/", &inner, &room) {
		local.untracked = append(append(local.untracked, found{path: path + "/"}), inner.untracked...)
		local.nested = append(local.nested, inner.nested...)
		local.special = append(local.special, inner.special...)
		return nil
	}
	local.pending = append(local.pending, found{path: path + "/"})
	return nil
}

// eager lists an untracked folder whole, false when it holds more than room.
func (s *scanner) eager(fd int, prefix string, local *scanResult, room *int) bool {
	names, err := readNames(fd)
	if err != nil || strings.Count(prefix, "/") > maxScanDepth {
		return true // unreadable: nothing of it can be carried
	}
	if slices.ContainsFunc(names, isDotGit) {
		local.nested = append(local.nested, strings.TrimSuffix(prefix, "/"))
		if !s.entered {
			return true
		}
	}
	for _, name := range names {
		if isDotGit(name) {
			continue
		}
		if *room--; *room < 0 {
			return false
		}
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue
		}
		f := found{path: prefix + name, mode: gitMode(&st), st: st}
		switch {
		case f.mode != 0:
			local.untracked = append(local.untracked, f)
		case s.layer && isWhiteoutStat(&st):
		case st.Mode&unix.S_IFMT != unix.S_IFDIR:
			local.special = append(local.special, f.path)
		default:
			child, err := openFolder(fd, name)
			if err != nil {
				continue
			}
			local.untracked = append(local.untracked, found{path: f.path + "/"})
			whole := s.eager(child, f.path+"/", local, room)
			unix.Close(child)
			if !whole {
				return false
			}
		}
	}
	return true
}

// openFolder opens a folder beneath fd without following a link.
func openFolder(fd int, name string) (int, error) {
	return unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// openBeneath opens the folder at a slash-separated path below root, component by component and
// without following links. The caller closes the descriptor.
func openBeneath(root int, path string) (int, error) {
	fd, err := unix.FcntlInt(uintptr(root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil || path == "" {
		return fd, err
	}
	for name := range strings.SplitSeq(path, "/") {
		next, err := openFolder(fd, name)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

func readNames(fd int) ([]string, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), "folder")
	defer f.Close()
	return f.Readdirnames(-1)
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func dirName(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// children splits the entries below prefix into the files of that folder and its tracked folders.
func children(prefix string, entries []entry) (files map[string]*entry, dirs map[string][]entry) {
	files, dirs = make(map[string]*entry, min(len(entries), 64)), map[string][]entry{}
	for i := 0; i < len(entries); {
		rest := entries[i].path[len(prefix):]
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			files[rest] = &entries[i]
			i++
			continue
		}
		end := prefix + rest[:slash] + "0" // the byte after the slash
		n := sort.Search(len(entries)-i, func(k int) bool { return entries[i+k].path >= end })
		dirs[rest[:slash]] = entries[i : i+n]
		i += n
	}
	return files, dirs
}
