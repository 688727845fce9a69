package workspace_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
	"github.com/rivumi/rivumi/internal/workspace"
)

func TestPT01LineEndingsOfUntouchedLinesSurvive(t *testing.T) {
	files := gitrepo.Files{"w.txt": "a\r\nword\r\nc\r\n", "m.txt": "a\r\nword\nc\r\n", "n.txt": "a\nword\nc"}
	for _, setting := range []string{"", "true", "input"} {
		for _, attributes := range []string{"", "* text=auto\n", "*.txt text eol=crlf\n", "*.txt -text\n"} {
			eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
				user := gitrepo.New(t, files)
				if setting != "" {
					user.Git("config", "core.autocrlf", setting)
				}
				if attributes != "" {
					user.Write(gitrepo.Files{".gitattributes": attributes})
					user.Commit("attributes")
				}
				user.Git("config", "core.safecrlf", "false")
				user.Git("rm", "-q", "-r", "--cached", ".")
				user.Git("add", "-A")
				user.Git("commit", "-q", "--allow-empty", "-m", "normal")
				for name := range files {
					if err := os.Remove(user.Path(name)); err != nil {
						t.Fatal(err)
					}
				}
				_ = os.Remove(user.Path(".gitattributes"))
				user.Git("checkout", "-q", "-f", "HEAD", "--", ".")
				b := open(t, user, way)
				if got, want := listing(t, b.tree), listing(t, user.Root); got != want {
					t.Fatalf("%q %q: tree\n%swant\n%s", setting, attributes, got, want)
				}
				f, err := b.ws.Files(b.tree)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				for name := range files {
					old, _, err := f.Read(name)
					if err != nil {
						t.Fatal(err)
					}
					if err := f.Write(name, []byte(strings.Replace(string(old), "word", "WORD", 1))); err != nil {
						t.Fatal(err)
					}
				}
				s := b.snapshot()
				for _, c := range s.Files {
					if c.Additions != 1 || c.Deletions != 1 {
						t.Errorf("%q %q: %+v\n%s", setting, attributes, c, s.Patch)
					}
				}
				if len(s.Files) != 3 {
					t.Errorf("changed: %s", paths(s))
				}
				r := apply(t, b, s, nil)
				if r.State != workspace.ReceiptApplied {
					t.Errorf("%+v", r)
				}
				if got, want := listing(t, user.Root), listing(t, b.tree); got != want {
					t.Errorf("%q %q: applied\n%swant\n%s", setting, attributes, got, want)
				}
			})
		}
	}
}

func TestPT02Latin1Survives(t *testing.T) {
	user := gitrepo.New(t, gitrepo.Files{"l.txt": "caf\xe9\nprice: 5\n"})
	b := open(t, user)
	f, err := b.ws.Files(b.tree)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	old, mode, err := f.Read("l.txt")
	if err != nil || mode != 0o644 {
		t.Fatal(err, mode)
	}
	if err := f.Write("l.txt", []byte(strings.Replace(string(old), "5", "7", 1))); err != nil {
		t.Fatal(err)
	}
	s := b.snapshot()
	if got := b.applied(s).Read("l.txt"); got != "caf\xe9\nprice: 7\n" {
		t.Errorf("got %q", got)
	}
}

func TestPT03BinaryChangesCarryTheirData(t *testing.T) {
	bin := "\x00" + strings.Repeat("0123456789abcde\xff", 64)
	user := gitrepo.New(t, gitrepo.Files{"img.bin": bin, "a.txt": "a\n"})
	b := open(t, user)
	b.write(gitrepo.Files{"img.bin": bin[:500] + "\x01\x02" + bin[500:], "new.bin": "\x00\x00new", "a.txt": "b\n"})
	c := b.applied(b.snapshot())
	for _, n := range []string{"img.bin", "new.bin", "a.txt"} {
		if c.Read(n) != b.read(n) {
			t.Errorf("%s differs", n)
		}
	}
}

func TestPT04NewFilesModesLinksAndRenames(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		user := gitrepo.New(t, gitrepo.Files{"s.sh*": "#!/bin/sh\necho 1\n", "a.txt": strings.Repeat("line\n", 20), "plain": "p\n"})
		b := open(t, user, way)
		b.write(gitrepo.Files{"n/new.txt": "new\n", "e.txt": "", "s.sh*": "#!/bin/sh\necho 2\n", "l": "-> n/new.txt", "dir b/x": strings.Repeat("line\n", 20)})
		b.remove("a.txt")
		if err := os.Chmod(filepath.Join(b.tree, "plain"), 0o755); err != nil {
			t.Fatal(err)
		}
		s := b.snapshot()
		if got, want := listing(t, b.applied(s).Root), listing(t, b.tree); got != want {
			t.Errorf("applied:\n%swant:\n%s", got, want)
		}
		if !strings.Contains(paths(s), "R dir b/x") || strings.Contains(string(s.Patch), "rename from") {
			t.Errorf("renames are for display only: %s\n%s", paths(s), s.Patch)
		}
		for _, f := range s.Manifest {
			if f.Path == "plain" && (f.Before.Mode != "100644" || f.After.Mode != "100755" || f.Before.SHA256 != f.After.SHA256) {
				t.Errorf("manifest: %+v", f)
			}
		}
	})
}

func TestPT05PersonalSettingsDoNotChangeThePatch(t *testing.T) {
	var want string
	for _, config := range []string{
		"", "[diff]\nnoprefix=true\n", "[diff]\nmnemonicPrefix=true\n", "[color]\nui=always\n", "[diff]\nexternal=/bin/true\n",
		"[diff]\nalgorithm=patience\ncontext=0\nrenames=copies\norderFile=/etc/hostname\nindentHeuristic=false\ninterHunkContext=9\nsuppressBlankEmpty=true\n",
		"[core]\nquotePath=true\nwhitespace=trailing-space\nabbrev=4\n[apply]\nwhitespace=error\n",
	} {
		home := t.TempDir()
		gitrepo.WriteTree(t, home, gitrepo.Files{".gitconfig": config})
		t.Setenv("HOME", home)
		user := gitrepo.New(t, gitrepo.Files{"a": "1\n2\n\n4\n5\n6\n7\n8\n", "b": "b\n"})
		if err := os.WriteFile(user.Path(".git/config"), append([]byte(user.Read(".git/config")), config...), 0o600); err != nil {
			t.Fatal(err)
		}
		b := open(t, user)
		b.write(gitrepo.Files{"a": "1\n2 \n\n4\n5\n6\n7\nx\n", "é": "b\n"})
		s := b.snapshot()
		if want == "" {
			want = string(s.Patch)
		}
		if string(s.Patch) != want {
			t.Errorf("with %q:\n%s\nwant\n%s", config, s.Patch, want)
		}
	}
}

func TestPT06UnusualNames(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		user := gitrepo.New(t, gitrepo.Files{"docs/naïve café.md": "a\n"})
		b := open(t, user, way)
		odd := gitrepo.Files{
			"docs/naïve café.md": "b\n", "docs/tab\there": "t\n", "docs/quote\"s": "q\n", "docs/new\nline": "n\n", "docs/back\\slash": "b\n",
			"docs/:(top)x": "c\n", "docs/-dash": "d\n", "docs/star*.c": "s\n", "docs/ space ": "s\n", "docs/latin\xe9": "l\n", "docs/{a}[b]?": "g\n",
		}
		delete(odd, "docs/star*.c")
		b.write(odd)
		s := b.snapshot()
		if len(s.Files) != len(odd) {
			t.Errorf("changed: %s", paths(s))
		}
		for _, f := range s.Files {
			if _, ok := odd[f.Path]; !ok {
				t.Errorf("name %q", f.Path)
			}
		}
		if _, refusals := workspace.CheckPatch(s.Patch, []string{"docs/**"}); len(refusals) > 0 {
			t.Errorf("outside policy: %+v", refusals)
		}
		if _, err := json.Marshal(s.Files); err != nil {
			t.Error(err)
		}
		if got, want := listing(t, b.applied(s).Root), listing(t, b.tree); got != want {
			t.Errorf("applied:\n%swant:\n%s", got, want)
		}
		before := listing(t, user.Root)
		r := apply(t, b, s, nil)
		if got, want := listing(t, user.Root), listing(t, b.tree); got != want {
			t.Errorf("applied:\n%swant:\n%s", got, want)
		}
		undo(t, b, r)
		if got := listing(t, user.Root); got != before {
			t.Errorf("undone:\n%swant:\n%s", got, before)
		}
	})
}

func TestAR03LargeAdditionsAreFlagged(t *testing.T) {
	b := open(t, gitrepo.New(t, gitrepo.Files{"a": "a\n"}))
	b.write(gitrepo.Files{"app*": strings.Repeat("\x00binary", 200_000), "a": "b\n", "small": "s\n"})
	s := b.snapshot()
	if len(s.Large) != 1 || s.Large[0] != "app" {
		t.Errorf("flagged: %v", s.Large)
	}
	if strings.Contains(string(s.Patch), "rivumi") {
		t.Error("the patch holds files of the program itself")
	}
}

func TestNestedRepositoriesOfTheAgentAreTakenAsFiles(t *testing.T) {
	eachWay(t, func(t *testing.T, way func(*workspace.Options)) {
		b := open(t, gitrepo.New(t, gitrepo.Files{"a": "a\n"}), way)
		b.git("init", "-q", "made/by/agent")
		b.write(gitrepo.Files{"made/by/agent/src/main.go": "package main\n", "made/by/agent/.gitignore": "out\n", "made/by/agent/out": "o\n"})
		inner := gitrepo.At(t, filepath.Join(b.tree, "made/by/agent"))
		inner.Commit("inner")
		s := b.snapshot()
		if paths(s) != "A made/by/agent/.gitignore, A made/by/agent/src/main.go" {
			t.Errorf("changed: %s", paths(s))
		}
		if _, refusals := workspace.CheckPatch(s.Patch, nil); len(refusals) > 0 {
			t.Errorf("%+v", refusals)
		}
	})
}

func TestCheckPatchRefuses(t *testing.T) {
	text := func(path string) string {
		return "diff --git a/" + path + " b/" + path + "\nnew file mode 100644\nindex 0000000..257cc56\n--- /dev/null\n+++ b/" + path + "\n@@ -0,0 +1 @@\n+foo\n"
	}
	link := func(target string) string {
		return "diff --git a/d/l b/d/l\nnew file mode 120000\nindex 0000000..1de5659\n--- /dev/null\n+++ b/d/l\n@@ -0,0 +1 @@\n+" + target + "\n\\ No newline at end of file\n"
	}
	for name, c := range map[string]struct {
		patch string
		code  contract.FailureCode
	}{
		"PP-02 hook":        {text(".git/hooks/pre-commit"), contract.FailPaths},
		"PP-02 nested":      {text("vendor/x/.git/config"), contract.FailPaths},
		"PP-02 case":        {text(".GIT/x"), contract.FailPaths},
		"PP-02 file":        {text("sub/.git"), contract.FailPaths},
		"short name":        {text("GIT~1/config"), contract.FailPaths},
		"dot and space":     {text(".git. /config"), contract.FailPaths},
		"stream":            {text(".git::$INDEX_ALLOCATION/config"), contract.FailPaths},
		"HFS":               {text(".g\u200cit/config"), contract.FailPaths},
		"soft hyphen":       {text(".g\u00adit/config"), contract.FailPaths},
		"backslash":         {text(`x\.git\config`), contract.FailPaths},
		"up":                {text("../x"), contract.FailPaths},
		"up inside":         {text("a/../../x"), contract.FailPaths},
		"absolute":          {text("/etc/x"), contract.FailResult},
		"rename into git":   {"diff --git a/x b/.git/x\nsimilarity index 100%\nrename from x\nrename to .git/x\n", contract.FailPaths},
		"rename from git":   {"diff --git a/.git/x b/x\nsimilarity index 100%\nrename from .git/x\nrename to x\n", contract.FailPaths},
		"copy":              {"diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", contract.FailResult},
		"gitlink":           {"diff --git a/s b/s\nnew file mode 160000\nindex 0000000..b2b2b2b\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2\n", contract.FailResult},
		"set-uid":           {"diff --git a/x b/x\nold mode 100644\nnew mode 104755\n", contract.FailResult},
		"file to link":      {"diff --git a/x b/x\nold mode 100644\nnew mode 120000\n", contract.FailResult},
		"link absolute":     {link("/etc/passwd"), contract.FailResult},
		"link up":           {link("../../x"), contract.FailResult},
		"link into git":     {link("../.git/config"), contract.FailResult},
		"binary no data":    {"diff --git a/x b/x\nindex 1234567..2345678 100644\nBinary files a/x and b/x differ\n", contract.FailResult},
		"text before":       {"hello\n" + text("x"), contract.FailResult},
		"traditional":       {"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", contract.FailResult},
		"traditional after": {text("x") + "--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", contract.FailResult},
		"cut":               {text("x")[:90], contract.FailResult},
	} {
		_, refusals := workspace.CheckPatch([]byte(c.patch), nil)
		if len(refusals) == 0 || refusals[0].Code != string(c.code) {
			t.Errorf("%s: %+v", name, refusals)
		}
	}
	for _, good := range []string{text("x"), text("a/..b/c"), text("foo..bar"), text(".github/x"), link("../x"), link("y"), ""} {
		if _, refusals := workspace.CheckPatch([]byte(good), nil); len(refusals) > 0 {
			t.Errorf("refused %q: %+v", good, refusals)
		}
	}
	if _, refusals := workspace.CheckPatch([]byte(text("src/x")+text("doc/x")), []string{"src/**"}); len(refusals) != 1 || refusals[0].Field != "doc/x" {
		t.Errorf("allowed paths: %+v", refusals)
	}
}

func FuzzCheckPatch(f *testing.F) {
	f.Add([]byte("diff --git a/x b/x\nnew file mode 100644\nindex 0000000..257cc56\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+foo\n"))
	f.Add([]byte("diff --git a/x b/.git/x\nsimilarity index 100%\nrename from x\nrename to .git/x\n"))
	f.Add([]byte("diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n"))
	f.Add([]byte("diff --git \"a/\\303\\251\" \"b/\\303\\251\"\ndeleted file mode 120000\nindex 1..0\n"))
	f.Fuzz(func(t *testing.T, patch []byte) {
		files, refusals := workspace.CheckPatch(patch, []string{"ok/**"})
		if len(refusals) > 0 {
			return
		}
		for _, file := range files {
			for _, p := range file.Paths() {
				if !strings.HasPrefix(p, "ok/") || strings.Contains(strings.ToLower(p), "/.git/") || strings.Contains(p, "/../") {
					t.Errorf("let %q through", p)
				}
			}
		}
	})
}
