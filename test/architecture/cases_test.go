package architecture

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	treeRoot  = "../.."
	casesDoc  = "docs/cases.md"
	casesHead = "<!-- made by test/architecture: UPDATE_CASES=1 go test -run TestCases ./test/architecture -->\n"
)

// caseRow is a row of the table of cases as it stands in the document.
var caseRow = regexp.MustCompile(`(?m)^\| ([A-Z]{2}-\d{2}) \| ([^|]+) \|`)

// The names that tests give themselves after a case: functions, rows of suites, first lines of stories.
var (
	caseFunc  = regexp.MustCompile(`(?m)^func (Test\w*?[A-Z]{2}\d{2}[A-Z]\w*)\(`)
	caseID    = regexp.MustCompile(`([A-Z]{2})(\d{2})`)
	caseEntry = regexp.MustCompile(`(?m)"(([A-Z]{2})-?(\d{2})[a-z]?(?: ?[A-Za-z][^"]*))"`)
	caseStory = regexp.MustCompile(`(?m)^#.*\b([A-Z]{2})-(\d{2})\b`)
)

// TestCasesAreTheTestsThatThereAre holds the table of docs/cases.md: every case has a test that is named
// after it, and every test the table names is there. One that it does not name yet is only told. The
// titles are written in the document; the rest is made.
func TestCasesAreTheTestsThatThereAre(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(treeRoot, casesDoc))
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(doc), casesHead)
	if !ok {
		t.Fatalf("%s has no mark where its table begins", casesDoc)
	}
	found := caseTests(t)
	var b strings.Builder
	b.WriteString(head + casesHead + "| case | what must hold | tests | state |\n|---|---|---|---|\n")
	rows := caseRow.FindAllStringSubmatch(string(doc), -1)
	if len(rows) != 80 {
		t.Errorf("%d cases, want 80", len(rows))
	}
	for _, r := range rows {
		tests, state := found[r[1]], "tested"
		if delete(found, r[1]); len(tests) == 0 {
			state = "open"
			t.Errorf("case %s has no test that is named after it", r[1])
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r[1], strings.TrimSpace(r[2]), strings.Join(tests, "<br>"), state)
	}
	if os.Getenv("UPDATE_CASES") == "" {
		for row := range strings.Lines(string(doc)) {
			if caseRow.MatchString(row) && !strings.Contains(b.String(), row) {
				compareRow(t, row, b.String())
			}
		}
		return
	}
	if err := os.WriteFile(filepath.Join(treeRoot, casesDoc), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// compareRow looks for what a row of the document names in the table as it would be made now.
func compareRow(t *testing.T, row, made string) {
	t.Helper()
	id := caseRow.FindStringSubmatch(row)[1]
	_, now, _ := strings.Cut(made, "| "+id+" |")
	now, _, _ = strings.Cut(now, "\n")
	cells := strings.Split(row, " | ")
	for name := range strings.SplitSeq(cells[len(cells)-2], "<br>") {
		if !strings.Contains(now, strings.TrimSpace(name)) {
			t.Errorf("%s: %s names the test %s, which is not there", id, casesDoc, name)
		}
	}
	t.Logf("%s has other tests by now: UPDATE_CASES=1 go test -run TestCases ./test/architecture", id)
}

// caseTests gives, for each case, where its tests are and what they are called.
func caseTests(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	add := func(id, path, name string) {
		text := "`" + path + "`"
		if name != "" {
			text += " " + strings.NewReplacer("|", "/", "`", "'").Replace(name)
		}
		if !slices.Contains(found[id], text) {
			found[id] = append(found[id], text)
		}
	}
	for _, top := range []string{"internal", "test", "deploy"} {
		err := filepath.WalkDir(filepath.Join(treeRoot, top), func(p string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) || err == nil && d.IsDir() {
				return nil
			}
			rel, rerr := filepath.Rel(treeRoot, p)
			if err != nil || rerr != nil {
				return err
			}
			story, suite := filepath.Ext(p) == ".txtar", holdsTests(rel)
			if !story && !suite || rel == "test/architecture/cases_test.go" {
				return nil
			}
			text, err := os.ReadFile(p)
			if story {
				for _, m := range caseStory.FindAllSubmatch(text, -1) {
					add(string(m[1])+"-"+string(m[2]), rel, "")
				}
				return err
			}
			for _, m := range caseFunc.FindAllSubmatch(text, -1) {
				for _, id := range caseID.FindAllSubmatch(m[1], -1) {
					add(string(id[1])+"-"+string(id[2]), rel, string(m[1]))
				}
			}
			for _, m := range caseEntry.FindAllSubmatch(text, -1) {
				add(string(m[2])+"-"+string(m[3]), rel, string(m[1]))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// holdsTests reports whether a Go file holds tests: of its own, or of a suite that others run.
func holdsTests(rel string) bool {
	return strings.HasSuffix(rel, "_test.go") ||
		filepath.Ext(rel) == ".go" && regexp.MustCompile(`/(sandboxtest|modeltest|runstest|storetest)/`).MatchString(rel)
}
