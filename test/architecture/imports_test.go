// Package architecture holds the shape of the code: which package may import which, who may touch
// which third-party family, and how large files and functions may grow.
package architecture

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rivumi/rivumi/"

// table is the import table of docs/architecture.md. contract is left out: everything may import it.
var table = map[string][]string{
	"internal/contract":      {},
	"internal/token":         {},
	"internal/control":       {"internal/token"},
	"internal/control/store": {"internal/control"},
	"internal/control/host":  {"internal/control", "internal/control/store", "internal/sandbox", "internal/token", "internal/model", "internal/remote/client", "internal/remote/worker"},
	"internal/model":         {},
	"internal/sandbox":       {},
	"internal/agent":         {"internal/model", "internal/sandbox"},
	"internal/policy":        {},
	"internal/workspace":     {},
	"internal/bundle":        {},
	"internal/runner":        {"internal/agent", "internal/model", "internal/policy", "internal/sandbox", "internal/workspace", "internal/bundle"},
	"internal/remote/client": {"internal/token"},
	"internal/remote/worker": {"internal/control", "internal/model", "internal/sandbox", "internal/token"},
	"internal/view":          {},
	"internal/config":        {},
	"internal/tui":           {"internal/view"},
}

// wiring packages may import everything.
var wiring = []string{"internal/cli", "internal/testkit", "cmd", "bench", "test"}

// families says which packages alone may import a third-party family.
var families = map[string][]string{
	"github.com/spf13/cobra":          {"internal/cli"},
	"github.com/ncruces/go-sqlite3":   {"internal/control/store"},
	"modernc.org/sqlite":              {"internal/control/store"},
	"github.com/r3labs/sse":           {"internal/remote/client"},
	"mvdan.cc/sh":                     {"internal/policy"},
	"github.com/bluekeyes":            {"internal/workspace"},
	"github.com/landlock-lsm":         {"internal/sandbox/proc"},
	"github.com/moby":                 {"internal/sandbox/docker"},
	"github.com/prometheus":           {"internal/cli"},
	"charm.land":                      {"internal/tui", "internal/cli"},
	"github.com/BurntSushi/toml":      {"internal/config"},
	"github.com/zalando/go-keyring":   {"internal/config", "internal/cli"},
	"github.com/itchyny/gojq":         {"internal/cli"},
	"github.com/google/jsonschema-go": {"internal/cli", "internal/testkit", "test"},
}

// stdOnly packages import nothing outside the standard library but contract and each other.
var stdOnly = []string{"internal/contract", "internal/token", "internal/control", "internal/agent", "internal/runner", "internal/view", "internal/bundle"}

type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Standard,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		all = append(all, p)
	}
	if len(all) < 10 {
		t.Fatalf("only %d packages listed", len(all))
	}
	return all
}

// owner gives the longest entry of the table that p lies in or below.
func owner(p string) string {
	best := ""
	for name := range table {
		if (p == name || strings.HasPrefix(p, name+"/")) && len(name) > len(best) {
			best = name
		}
	}
	return best
}

func below(p string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return p == r || strings.HasPrefix(p, r+"/") })
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, p := range packages(t) {
		from := owner(p.ImportPath)
		if from == "" {
			if !below(p.ImportPath, wiring) {
				t.Errorf("%s stands in no row of the table", p.ImportPath)
			}
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			if row := owner(to); row != from && row != "internal/contract" && !slices.Contains(table[from], row) {
				t.Errorf("%s must not import %s", p.ImportPath, to)
			}
		}
	}
}

func TestThirdPartyFamiliesStayInTheirPackages(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			if strings.HasPrefix(imp, module) || !strings.Contains(strings.Split(imp, "/")[0], ".") {
				continue
			}
			if slices.Contains(stdOnly, p.ImportPath) {
				t.Errorf("%s imports %s and may use the standard library only", p.ImportPath, imp)
			}
			for family, homes := range families {
				if strings.HasPrefix(imp, family) && !below(p.ImportPath, homes) {
					t.Errorf("%s imports %s, which belongs in %v", p.ImportPath, imp, homes)
				}
			}
		}
	}
}

func TestOnlySomePackagesStartGoroutinesOrProcesses(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(p.Imports, "os/exec") && !below(p.ImportPath, append([]string{"internal/workspace", "internal/sandbox", "internal/config"}, wiring...)) {
			t.Errorf("%s starts processes", p.ImportPath)
		}
	}
}
