package architecture

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bounds of docs/architecture.md, "Numbers to hold".
const (
	maxFile     = 500
	maxTestFile = 800
	maxFunction = 120
	maxP90      = 42
)

func sources(t *testing.T) []string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "*.go").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var files []string
	for name := range strings.FieldsSeq(string(out)) {
		files = append(files, filepath.Join(root, name))
	}
	return files
}

func TestFilesAndFunctionsStaySmall(t *testing.T) {
	var lengths []int
	for _, name := range sources(t) {
		src, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // removed in the working tree, not yet in the index
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(src, []byte("// Code generated")) {
			continue
		}
		limit, test := maxFile, strings.HasSuffix(name, "_test.go")
		if test {
			limit = maxTestFile
		}
		if n := bytes.Count(src, []byte("\n")); n > limit {
			t.Errorf("%s has %d lines, more than %d", name, n, limit)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || test {
				continue
			}
			n := fset.Position(f.Body.End()).Line - fset.Position(f.Body.Pos()).Line
			lengths = append(lengths, n)
			if n > maxFunction {
				t.Errorf("%s: %s has %d lines, more than %d", name, f.Name.Name, n, maxFunction)
			}
		}
	}
	slices.Sort(lengths)
	if p90 := lengths[len(lengths)*9/10]; p90 > maxP90 {
		t.Errorf("the 90th percentile of function bodies is %d lines, more than %d", p90, maxP90)
	}
}
