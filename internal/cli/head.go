package cli

import (
	"os"
	"path/filepath"
	"strings"
)

// headIsBorn reports whether the checkout at root surely has a first commit, by looking at git's
// files. False means that git has to be asked. It saves every run two processes before it starts.
func headIsBorn(root string) bool {
	if root == "" {
		return false
	}
	dir := filepath.Join(root, ".git")
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return false // a linked worktree or a submodule
	}
	head := readSmall(filepath.Join(dir, "HEAD"))
	ref, isRef := strings.CutPrefix(head, "ref: ")
	if !isRef {
		return len(head) >= 40 && strings.Trim(head, "0123456789abcdef") == ""
	}
	if !strings.HasPrefix(ref, "refs/") || strings.Contains(ref, "..") {
		return false
	}
	if len(readSmall(filepath.Join(dir, filepath.FromSlash(ref)))) >= 40 {
		return true
	}
	packed, err := readBounded(filepath.Join(dir, "packed-refs"), 16<<20)
	return err == nil && strings.Contains(string(packed)+"\n", " "+ref+"\n")
}

// readSmall gives the first line of a small file, "" for none.
func readSmall(path string) string {
	raw, err := readBounded(path, 4096)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	return strings.TrimSpace(line)
}
