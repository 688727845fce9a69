package workspace_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

func BenchmarkWorkspace(b *testing.B) {
	for _, files := range []int{100, 10_000, 100_000} {
		for _, way := range []string{workspace.WayWorktree, workspace.WayOverlay} {
			b.Run(fmt.Sprintf("%s/%d", way, files), func(b *testing.B) { benchmarkWay(b, way, files) })
		}
	}
}

var benchRepos = map[int]*gitrepo.Repo{}

// benchRepo makes a repository of n files in folders of 50.
func benchRepo(b *testing.B, n int) *gitrepo.Repo {
	if r := benchRepos[n]; r != nil {
		return r
	}
	root, err := os.MkdirTemp("", "bench-repo-") //nolint:usetesting // it outlives one benchmark
	if err != nil {
		b.Fatal(err)
	}
	r := gitrepo.At(b, root)
	var in bytes.Buffer
	in.WriteString("commit refs/heads/trunk\ncommitter Ada <a@b> 1767323045 +0000\ndata 0\n")
	for i := range n {
		text := fmt.Sprintf("package p%d\n\n// line\nfunc F%d() int { return %d }\n", i/50, i, i)
		fmt.Fprintf(&in, "M 100644 inline src/%d/%d/f%d.go\ndata %d\n%s\n", i/2500, i/50, i, len(text), text)
	}
	r.Git("init", "-q", "-b", "trunk", ".")
	gitrepo.WriteTree(b, root, gitrepo.Files{".git/stream": in.String()})
	r.Git("-c", "alias.load=!git fast-import --quiet < .git/stream", "load")
	r.Git("reset", "-q", "--hard")
	benchRepos[n] = r
	return r
}

func benchmarkWay(b *testing.B, way string, files int) {
	user := benchRepo(b, files)
	cache := b.TempDir()
	var create, look, again, snap, remove float64
	rounds := 0
	change := func(o *workspace.Options) {
		o.Overlay, o.CacheDir, o.Dirty = way == workspace.WayOverlay, cache, contract.DirtyInclude
	}
	if way == workspace.WayOverlay {
		needOverlay(b)
		w := open(b, user, change) // lays the base tree down
		w.unmount()
		if err := w.ws.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		ms := func(do func()) float64 {
			b.StartTimer()
			before := b.Elapsed()
			do()
			d := b.Elapsed() - before
			b.StopTimer()
			return float64(d.Microseconds()) / 1000
		}
		b.StopTimer()
		var w *bench
		create += ms(func() { w = open(b, user, change) })
		w.write(gitrepo.Files{"src/0/0/f1.go": "package changed\n", "src/0/0/new.go": "package n\n"})
		look += ms(func() { _, _ = w.ws.Changes(b.Context()) })
		again += ms(func() { _, _ = w.ws.Changes(b.Context()) })
		snap += ms(func() { w.snapshot() })
		w.unmount()
		remove += ms(func() { _ = w.ws.Remove(b.Context()) })
		rounds++
		b.StartTimer()
	}
	n := float64(rounds)
	b.ReportMetric(create/n, "create-ms")
	b.ReportMetric(look/n, "changes-ms")
	b.ReportMetric(again/n, "again-ms")
	b.ReportMetric(snap/n, "snapshot-ms")
	b.ReportMetric(remove/n, "remove-ms")
}
