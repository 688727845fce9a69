package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

const (
	maxCounted = 4 << 20 // bytes of a file whose changed lines are counted; larger ones count as binary
	maxEdits   = 1_500   // changed lines counted exactly; beyond it every line between the ends counts
)

// counts are the changed lines of a file in one state.
type counts struct {
	key      string // the state
	add, del int
	same     bool // its bytes are those of the base
}

// count turns differences into a list with line counts. Only files that changed since the last call are read.
func (w *Workspace) count(ctx context.Context, d differences) ([]contract.FileChange, error) {
	src, err := w.view()
	if err != nil {
		return nil, err
	}
	defer src.close()
	if err := w.loadBase(ctx, d); err != nil {
		return nil, err
	}
	var files []contract.FileChange
	seen := map[string]counts{}
	for _, f := range d.files {
		key := fmt.Sprint(f.mode, f.st.Size, f.st.Mtim, f.st.Ctim, f.st.Ino)
		c, ok := w.memo.counts[f.path]
		if !ok || c.key != key {
			c = w.countFile(src, f)
			c.key = key
		}
		seen[f.path] = c
		old := trackedEntry(w.base, f.path)
		if c.same && old != nil && old.mode == f.mode {
			continue
		}
		change := contract.FileChange{Path: f.path, Status: "modified", Additions: c.add, Deletions: c.del, Mode: strconv.FormatUint(uint64(f.mode), 8)}
		if old == nil {
			change.Status = "added"
		}
		files = append(files, change)
	}
	for _, p := range d.gone {
		_, del := lineDiff(w.memo.base[p], nil)
		files = append(files, contract.FileChange{Path: p, Status: "deleted", Deletions: del})
	}
	w.memo.counts = seen
	return files, nil
}

// countFile compares one file with its base.
func (w *Workspace) countFile(src opener, f found) counts {
	f2, link, st, err := src.open(f.path)
	if err != nil {
		return counts{add: -1, del: -1}
	}
	now := []byte(link)
	if f2 != nil {
		defer f2.Close()
		if st.Size > maxCounted {
			return counts{add: -1, del: -1}
		}
		if now, err = io.ReadAll(io.LimitReader(f2, maxCounted)); err != nil {
			return counts{add: -1, del: -1}
		}
	}
	old, known := w.memo.base[f.path]
	if !known && trackedEntry(w.base, f.path) != nil {
		return counts{add: -1, del: -1} // the base was too large to read
	}
	if known && !bytes.Contains(old, []byte("\r\n")) && bytes.Contains(now, []byte("\r\n")) && !bytes.Equal(old, now) {
		if lf := bytes.ReplaceAll(now, []byte("\r\n"), []byte("\n")); bytes.Equal(lf, old) {
			now = lf // line endings only, as git keeps them
		}
	}
	add, del := lineDiff(old, now)
	return counts{add: add, del: del, same: known && bytes.Equal(old, now)}
}

// loadBase reads the base side of changed files that is not known yet.
func (w *Workspace) loadBase(ctx context.Context, d differences) error {
	if w.memo.base == nil {
		w.memo.base = map[string][]byte{}
	}
	var want []*entry
	need := func(p string) {
		if e := trackedEntry(w.base, p); e != nil && e.size <= maxCounted && w.memo.base[p] == nil {
			want = append(want, e)
		}
	}
	for _, f := range d.files {
		need(f.path)
	}
	for _, p := range d.gone {
		need(p)
	}
	if len(want) == 0 {
		return nil
	}
	var in bytes.Buffer
	for _, e := range want {
		in.WriteString(e.oid + "\n")
	}
	out, err := git{dir: w.ledger(), input: &in}.run(ctx, "cat-file", "--batch")
	if err != nil {
		return fmt.Errorf("read base files: %w", err)
	}
	for _, e := range want {
		head, rest, _ := bytes.Cut(out, []byte("\n"))
		words := strings.Fields(string(head))
		if len(words) != 3 {
			return fmt.Errorf("read base files: git answered %q", contract.CleanText(string(head)))
		}
		n, err := strconv.Atoi(words[2])
		if err != nil || n+1 > len(rest) {
			return fmt.Errorf("read base files: cut short")
		}
		w.memo.base[e.path] = bytes.Clone(rest[:n:n])
		if n == 0 {
			w.memo.base[e.path] = []byte{}
		}
		out = rest[n+1:]
	}
	return nil
}

// lineDiff counts added and deleted lines, -1 for binary content.
func lineDiff(old, now []byte) (add, del int) {
	if bytes.IndexByte(old[:min(len(old), 8000)], 0) >= 0 || bytes.IndexByte(now[:min(len(now), 8000)], 0) >= 0 {
		return -1, -1
	}
	a, b := splitLines(old), splitLines(now)
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[0], b[0]) {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	edits := editDistance(a, b)
	return (edits + len(b) - len(a)) / 2, (edits + len(a) - len(b)) / 2
}

func splitLines(b []byte) [][]byte {
	if len(b) == 0 {
		return nil
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// editDistance is the length of a shortest edit of lines (Myers' greedy algorithm), bounded.
func editDistance(a, b [][]byte) int {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return n + m
	}
	limit := min(n+m, maxEdits)
	v := make([]int, 2*limit+3)
	off := limit + 1
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			x := 0
			if k == -d || k != d && v[off+k-1] < v[off+k+1] {
				x = v[off+k+1]
			} else {
				x = v[off+k-1] + 1
			}
			for x < n && x-k < m && bytes.Equal(a[x], b[x-k]) {
				x++
			}
			v[off+k] = x
			if x >= n && x-k >= m {
				return d
			}
		}
	}
	return n + m
}
