package workspace

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Survey is what a start line tells before a run begins.
type Survey struct {
	Dirty contract.DirtySummary
	Notes []string // what stays behind and why, bounded
}

// surveyed is the user's work on its way into a run.
type surveyed struct {
	absorbed
	dirty contract.DirtySummary
	notes []string
}

func cmpString(a, b string) int { return cmp.Compare(a, b) }

// survey decides what of the user's uncommitted work comes along, and reads it.
func (w *Workspace) survey(ctx context.Context, o Options, user *userTree) (*surveyed, error) {
	elsewhere := w.rec.Base != o.Repo.head
	files, gone := user.overlay(w.base)
	sv := &surveyed{notes: notesOf(o.Repo, user, o.Include)}
	if elsewhere {
		files, gone = nil, nil
	}
	var err error
	if sv.absorbed, err = w.takeFrom(ctx, o.Repo.root, files, gone); err != nil {
		sv.close()
		return nil, err
	}
	sv.dirty.Untracked = len(user.fresh)
	for _, e := range sv.changed {
		if trackedEntry(user.entries, e.path) != nil {
			sv.dirty.Tracked++
		} else {
			sv.dirty.Included++ // untracked and carried
		}
	}
	sv.dirty.Tracked += len(sv.gone)
	sv.dirty.Included += sv.dirty.Tracked
	for _, l := range sv.left {
		sv.notes = append(sv.notes, "left behind: "+l)
	}
	return sv, sv.apply(o.Dirty, elsewhere)
}

// apply carries out the choice for uncommitted work.
func (sv *surveyed) apply(d contract.Dirty, elsewhere bool) error {
	total := sv.dirty.Tracked + sv.dirty.Untracked
	switch {
	case d == contract.DirtyRefuse && total > 0:
		sv.close()
		return contract.Errorf(contract.KindConflict, "the checkout has uncommitted work: %d changed and %d untracked files", sv.dirty.Tracked, sv.dirty.Untracked)
	case d == contract.DirtyExclude && total > 0:
		sv.notes = append([]string{fmt.Sprintf("%d changed and %d untracked files are not part of the run", sv.dirty.Tracked, sv.dirty.Untracked)}, sv.notes...)
	case elsewhere:
		sv.notes = append([]string{"the run starts from another commit than HEAD: uncommitted work is not part of it"}, sv.notes...)
	default:
		return nil
	}
	sv.changed, sv.gone, sv.dirty.Included = nil, nil, 0
	return nil
}

func (w *Workspace) takeFrom(ctx context.Context, root string, files []found, gone []string) (absorbed, error) {
	src, err := openSource(root)
	if err != nil {
		return absorbed{}, err
	}
	defer src.close()
	return w.absorb(ctx, src, files, gone, w.base)
}

// notesOf tells what of the checkout a run will not have.
func notesOf(r *Repo, u *userTree, include []string) []string {
	var notes []string
	add := func(format string, args ...any) {
		notes = append(notes, contract.CleanText(fmt.Sprintf(format, args...)))
	}
	if names := slices.DeleteFunc(slices.Clone(u.ignored), func(p string) bool { return matchesAny(include, p) }); len(names) > 0 {
		slices.Sort(names)
		add("ignored files stay behind (--include GLOB copies them): %s", nameSome(names))
	}
	if subs := u.submodules(); len(subs) > 0 {
		add("submodules are empty in the run: %s", nameSome(subs))
	}
	if patterns := filterPatterns(r, u); len(patterns) > 0 {
		add("files with a git filter (such as LFS) are in the run as git stores them: %s", nameSome(patterns))
	}
	if r.sparse() {
		add("the checkout is sparse, and so is the run")
	}
	if len(u.scan.nested) > 0 {
		slices.Sort(u.scan.nested)
		add("repositories inside the checkout stay behind: %s", nameSome(u.scan.nested))
	}
	if len(u.scan.special) > 0 {
		add("sockets, pipes and devices stay behind: %s", nameSome(u.scan.special))
	}
	for _, b := range u.bulk {
		add("%s", b)
		if len(notes) > 20 {
			break
		}
	}
	if isPartial(r) {
		add("the clone is partial: objects that are not on this machine are not fetched")
	}
	return notes
}

func isPartial(r *Repo) bool {
	for k, v := range r.config {
		if strings.HasPrefix(k, "remote.") && strings.HasSuffix(k, ".promisor") && isTrue(v[len(v)-1]) {
			return true
		}
	}
	return false
}

// filterPatterns gives the attribute lines of the checkout that name a filter.
func filterPatterns(r *Repo, u *userTree) []string {
	var patterns []string
	files := []string{filepath.Join(r.common, "info", "attributes")}
	for i := range u.entries {
		if baseName(u.entries[i].path) == ".gitattributes" && u.entries[i].mode != modeLink {
			files = append(files, filepath.Join(r.root, filepath.FromSlash(u.entries[i].path)))
		}
	}
	for _, p := range files {
		fi, err := os.Lstat(p)
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > 1<<20 {
			continue
		}
		b, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(b, []byte("filter=")) {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if name, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Contains(rest, "filter=") && !strings.HasPrefix(name, "#") {
				patterns = append(patterns, name)
			}
		}
	}
	return patterns
}

// Survey counts the user's uncommitted work and names what a run would not have, without making
// anything that stays.
func (r *Repo) Survey(ctx context.Context, dirty contract.Dirty, include []string) (Survey, error) {
	dir, err := os.MkdirTemp("", "rivumi-survey-")
	if err != nil {
		return Survey{}, fmt.Errorf("make survey folder: %w", err)
	}
	defer os.RemoveAll(dir)
	l := layout{dir}
	if err := makeLedger(l.ledger(), r); err != nil {
		return Survey{}, err
	}
	user, err := readUser(ctx, l, r)
	if err != nil {
		return Survey{}, err
	}
	tracked, err := r.changedTracked(ctx, l, user)
	if err != nil {
		return Survey{}, err
	}
	s := Survey{Dirty: contract.DirtySummary{Tracked: tracked, Untracked: len(user.fresh)}, Notes: notesOf(r, user, include)}
	if dirty != contract.DirtyExclude {
		s.Dirty.Included = tracked + len(user.carried)
	}
	return s, nil
}

// changedTracked counts tracked files whose bytes in the checkout differ from the head.
func (r *Repo) changedTracked(ctx context.Context, l layout, u *userTree) (int, error) {
	index := filepath.Join(l.ledger(), "survey.index")
	if err := os.WriteFile(index, formatIndex(slices.Clone(u.entries), r.format), 0o600); err != nil {
		return 0, fmt.Errorf("write index: %w", err)
	}
	out, err := git{dir: l.ledger(), index: index}.run(ctx, "diff-index", "--cached", "-z", "--name-only",
		"--no-renames", "--ignore-submodules=all", r.head)
	if err != nil {
		return 0, fmt.Errorf("compare the index with HEAD: %w", err)
	}
	changed := map[string]bool{}
	for p := range strings.SplitSeq(string(out), "\x00") {
		if p != "" {
			changed[p] = true
		}
	}
	for _, p := range u.scan.deleted {
		changed[p] = true
	}
	src, err := openSource(r.root)
	if err != nil {
		return 0, err
	}
	defer src.close()
	for _, f := range u.scan.modified {
		e := trackedEntry(u.entries, f.path)
		if e == nil || e.stage != 0 || e.mode != f.mode || rawOID(src, f.path, r.format) != e.oid {
			changed[f.path] = true
		}
	}
	return len(changed), nil
}
