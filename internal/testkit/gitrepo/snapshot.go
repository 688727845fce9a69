package gitrepo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Shot is a checkout with its git directories at one moment, byte for byte: content, mode and
// modification time of every file, folder and link. Index, refs, packed-refs, config, stash,
// hooks, reflogs, worktrees and objects are all files of it. Only the times of loose objects are
// left out: any git that would write an object which is there already renews its time instead,
// also through alternates, which nobody can tell from a read.
type Shot struct {
	root  string
	lines map[string]string
}

// Snapshot takes a shot of the checkout at root and, for a linked worktree, of the git directory
// it belongs to.
func Snapshot(t testing.TB, root string) Shot {
	t.Helper()
	s := Shot{root: root, lines: map[string]string{}}
	s.add(t, root)
	r := At(t, root)
	if common, err := r.Try("rev-parse", "--path-format=absolute", "--git-common-dir"); err == nil && !strings.HasPrefix(common, root+"/") {
		s.add(t, common)
	}
	return s
}

func (s Shot) add(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		line := fi.Mode().String()
		if !fi.Mode().IsRegular() || !strings.Contains(p, "/objects/") {
			line += " " + fi.ModTime().UTC().Format("15:04:05.000000000")
		}
		switch {
		case fi.Mode().IsRegular() && fi.Size() > 64<<20:
			line += fmt.Sprintf(" %d bytes", fi.Size())
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			line += " " + hex.EncodeToString(sum[:8])
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		s.lines[p] = line
		return nil
	})
	if err != nil {
		t.Fatalf("take a shot of %s: %v", dir, err)
	}
}

// Same fails the test unless the checkout is still exactly as it was.
func (s Shot) Same(t testing.TB) {
	t.Helper()
	for _, d := range s.Diff(t) {
		t.Errorf("the user's checkout changed: %s", d)
	}
}

// Diff lists what changed since the shot, for tests that expect some of it.
func (s Shot) Diff(t testing.TB) []string {
	t.Helper()
	now := Snapshot(t, s.root)
	var out []string
	for p, was := range s.lines {
		is, ok := now.lines[p]
		switch {
		case !ok:
			out = append(out, "gone: "+p)
		case is != was:
			out = append(out, fmt.Sprintf("changed: %s: %s, was %s", p, is, was))
		}
	}
	for p := range now.lines {
		if _, ok := s.lines[p]; !ok {
			out = append(out, "new: "+p)
		}
	}
	slices.Sort(out)
	return out
}
