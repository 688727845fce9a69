package control

import (
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

const module = "github.com/rivumi/rivumi/internal/"

func goTool(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The core is linked natively and as WebAssembly: standard library, contract and token only, and
// nothing in all its dependencies that speaks with the world.
func TestImports(t *testing.T) {
	for line := range strings.Lines(goTool(t, nil, "list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}", module+"control")) {
		path, standard, _ := strings.Cut(strings.TrimSpace(line), " ")
		if standard != "true" && !slices.Contains([]string{module + "control", module + "contract", module + "token"}, path) {
			t.Errorf("the core depends on %s", path)
		}
		if slices.Contains([]string{"net", "net/http", "os/exec", "os/signal", "database/sql", "log", "log/slog", "crypto/rand", "math/rand", "math/rand/v2", "plugin"}, path) {
			t.Errorf("the core depends on %s", path)
		}
	}
	for _, pkg := range []string{"control", "token"} {
		for name := range strings.FieldsSeq(goTool(t, nil, "list", "-f", "{{join .Imports \" \"}}", module+pkg)) {
			if slices.Contains([]string{"os", "io/fs", "syscall", "unsafe", "sync", "context", "runtime"}, name) {
				t.Errorf("%s imports %s", pkg, name)
			}
		}
	}
}

// The host passes the moment and randomness; nothing here takes them or starts anything.
func TestNoClockAndNoGoroutine(t *testing.T) {
	for _, dir := range []string{".", "../token"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
					t.Errorf("%s: a goroutine or channel", fset.Position(n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains([]string{"Now", "Sleep", "After", "Since", "Until", "NewTimer", "NewTicker", "Tick", "AfterFunc", "Local"}, n.Sel.Name) {
						t.Errorf("%s: time.%s", fset.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func TestBuildsAsWebAssembly(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for another platform")
	}
	goTool(t, []string{"GOOS=wasip1", "GOARCH=wasm"}, "build", module+"control")
}
