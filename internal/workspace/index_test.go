package workspace

import (
	"bytes"
	"testing"

	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
)

func TestAnIndexOfOursIsOneOfGit(t *testing.T) {
	r := gitrepo.New(t, gitrepo.Files{"a": "a\n", "dir/b*": "b\n", "dir-x": "x\n", "l": "-> a"})
	entries, _, err := readIndex(r.Path(".git/index"), "sha1")
	if err != nil || len(entries) != 4 {
		t.Fatal(err, len(entries))
	}
	want := r.Git("ls-files", "--stage")
	r.Write(gitrepo.Files{".git/index": string(formatIndex(entries, "sha1"))})
	if got := r.Git("ls-files", "--stage"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := r.Git("fsck"); got != "" {
		t.Errorf("fsck: %s", got)
	}
}

func FuzzParseIndex(f *testing.F) {
	f.Add(formatIndex([]entry{{path: "a", mode: modeFile, oid: "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"}, {path: "b/c", mode: modeLink, oid: "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", skip: true}}, "sha1"))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseIndex(b, "sha1")
		if err != nil {
			return
		}
		again, err := parseIndex(formatIndex(entries, "sha1"), "sha1")
		if err != nil || len(again) != len(entries) {
			t.Fatalf("%v: %d entries of %d", err, len(again), len(entries))
		}
		if !bytes.Equal(formatIndex(again, "sha1"), formatIndex(entries, "sha1")) {
			t.Error("not the same twice")
		}
	})
}
