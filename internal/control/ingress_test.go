package control

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
)

// edit gives a valid body with one value replaced by raw JSON; path is dotted, a number is an index.
func edit(t *testing.T, path, value string) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(contract.MarshalJSON(validTask()), &v); err != nil {
		t.Fatal(err)
	}
	var val any = json.RawMessage(value)
	at := any(v)
	words := strings.Split(path, ".")
	for i, w := range words {
		last := i == len(words)-1
		switch x := at.(type) {
		case map[string]any:
			if last && value == "" {
				delete(x, w)
			} else if last {
				x[w] = val
			}
			at = x[w]
		case []any:
			var n int
			_, _ = fmt.Sscan(w, &n)
			if last {
				x[n] = val
			}
			at = x[n]
		}
	}
	return string(contract.MarshalJSON(v))
}

// The rules of the remote-execution seed, each broken once: refused by name, and nothing is left.
func TestIngressRefusesEveryBrokenRuleOfTheSeed(t *testing.T) {
	files := func(n, size int) string {
		var list []contract.File
		for i := range n {
			list = append(list, contract.File{Path: fmt.Sprintf("src/f%d.py", i), Content: text(strings.Repeat("x", size))})
		}
		return string(contract.MarshalJSON(list))
	}
	cases := []struct{ name, path, value, field string }{
		{"no instruction", "instruction", "", "instruction"},
		{"empty instruction", "instruction", `""`, "instruction"},
		{"blank instruction", "instruction", `" \n\t"`, "instruction"},
		{"next line only", "instruction", `"\u0085"`, "instruction"},
		{"NUL", "instruction", `"a\u0000b"`, "instruction"},
		{"32 001 characters", "instruction", `"` + strings.Repeat("\u00e9", 32_001) + `"`, "instruction"},
		{"instruction a number", "instruction", "7", "instruction"},
		{"no model", "model", "", "model"},
		{"other model", "model", `"bad"`, "model"},
		{"model in other case", "model", `"Good"`, "model"},
		{"no source", "files", "", "source"},
		{"33 files", "files", files(33, 1), "files"},
		{"a file of 65 KiB", "files", files(1, 65<<10), "files[0]"},
		{"more than 512 KiB", "files", files(9, 60<<10), "files"},
		{"NUL in path", "files.0.path", `"a\u0000.py"`, "files[0].path"},
		{"backslash", "files.0.path", `"a\\b.py"`, "files[0].path"},
		{"dot dot", "files.0.path", `"src/../a.py"`, "files[0].path"},
		{"dot", "files.0.path", `"./a.py"`, "files[0].path"},
		{"empty segment", "files.0.path", `"src//a.py"`, "files[0].path"},
		{"absolute", "files.0.path", `"/a.py"`, "files[0].path"},
		{"drive", "files.0.path", `"c:a.py"`, "files[0].path"},
		{".git", "files.0.path", `".git/config.py"`, "files[0].path"},
		{".GIT", "files.0.path", `"src/.GIT/a.py"`, "files[0].path"},
		{"git~1", "files.0.path", `"git~1/a.py"`, "files[0].path"},
		{".git with dot", "files.0.path", `".git./a.py"`, "files[0].path"},
		{"bidi", "files.0.path", `"src/\u202ea.py"`, "files[0].path"},
		{"not NFC", "files.0.path", `"src/e\u0301.py"`, "files[0].path"},
		{"no text", "files.0.path", `"src/a.exe"`, "files[0].path"},
		{"file is folder", "files", `[{"path":"src/a.py","content":""},{"path":"src/a.py/b.py","content":""}]`, "files"},
		{"same but for case", "files", `[{"path":"src/a.py","content":""},{"path":"src/A.py","content":""}]`, "files[1].path"},
		{"both contents", "files.0.contentBase64", `"eA=="`, "files[0]"},
		{"no content", "files.0", `{"path":"src/a.py"}`, "files[0]"},
		{"bad base64", "files", `[{"path":"src/a.py","contentBase64":"eA"}]`, "files[0].contentBase64"},
		{"file unknown key", "files.0.mode", "493", "files[0].mode"},
		{"no allowed path", "allowedPaths", "[]", "allowedPaths"},
		{"path of no file", "allowedPaths", `["lib/**"]`, "allowedPaths[0]"},
		{"everything", "allowedPaths", `["**"]`, "allowedPaths[0]"},
		{"glob", "allowedPaths", `["src/*.py"]`, "allowedPaths[0]"},
		{"escape", "allowedPaths", `["../**"]`, "allowedPaths[0]"},
		{"no check", "checks", "[]", "checks"},
		{"five checks", "checks", `[["git","diff","--check"],["git","diff","--check"],["git","diff","--check"],["git","diff","--check"],["git","diff","--check"]]`, "checks"},
		{"unknown check", "checks", `[["rm","-rf","/"]]`, "checks[0]"},
		{"check as one word", "checks", `[["git diff --check"]]`, "checks[0]"},
		{"check joined by NUL", "checks", `[["git\u0000diff\u0000--check"]]`, "checks[0]"},
		{"check with more", "checks", `[["git","diff","--check","x"]]`, "checks[0]"},
		{"check with less", "checks", `[["git","diff"]]`, "checks[0]"},
		{"check a string", "checks", `["git diff --check"]`, "checks[0]"},
		{"21 steps", "limits.maxSteps", "21", "limits.maxSteps"},
		{"no steps", "limits.maxSteps", "0", "limits.maxSteps"},
		{"fraction", "limits.maxSteps", "1.5", "limits.maxSteps"},
		{"float", "limits.maxSteps", "1.0", "limits.maxSteps"},
		{"221 seconds", "limits.wallTimeSeconds", "221", "limits.wallTimeSeconds"},
		{"string number", "limits.wallTimeSeconds", `"20"`, "limits.wallTimeSeconds"},
		{"key in upper case", "INSTRUCTION", `"x"`, "INSTRUCTION"},
		{"unknown key", "provider", `"x"`, "provider"},
		{"endpoint", "limits.modelUrl", `"https://x"`, "limits.modelUrl"},
		{"policy", "approval.policy", `"yolo"`, "approval.policy"},
		{"upload", "upload", `{"id":"upl_x"}`, "source"},
		{"repository", "repository", `{"path":"/etc"}`, "source"},
		{"network", "network", `["evil.example"]`, "network[0]"},
		{"no containment", "sandbox.mode", `"none"`, "sandbox.mode"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, contract.Edge())
			resp, effects := s.ask(jsonRequest("POST", "/v1/runs", edit(t, c.path, c.value)))
			p := decoded[contract.Problem](t, resp)
			if resp.Status != 400 || len(effects) > 0 || len(s.runs) > 0 {
				t.Fatalf("%d %s, %d runs", resp.Status, resp.Body, len(s.runs))
			}
			named := false
			for _, r := range p.Errors {
				named = named || r.Field == c.field && r.Code != "" && r.Detail != ""
			}
			if !named {
				t.Errorf("%s is not named: %s", c.field, resp.Body)
			}
		})
	}
}

func TestIngressRefusesDocumentsThatAreNotOneStrictObject(t *testing.T) {
	good := string(contract.MarshalJSON(validTask()))
	cases := map[string]string{
		"empty": "", "blank": "  ", "array": "[]", "null": "null", "string": `"x"`, "cut": good[:len(good)-1], "trailing": good + "{}",
		"trailing word": good + " x", "duplicate": `{"model":"good",` + good[1:], "duplicate inside": strings.Replace(good, `"maxSteps":4`, `"maxSteps":4,"maxSteps":4`, 1),
		"invalid UTF-8": strings.Replace(good, "fix", "\xff", 1), "deep": `{"instruction":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}",
		"comment": "//x\n" + good, "single quotes": "{'model':'good'}",
	}
	for name, body := range cases {
		s := newSite(t, contract.Edge())
		resp, _ := s.ask(jsonRequest("POST", "/v1/runs", body))
		if resp.Status != 400 || len(s.runs) > 0 {
			t.Errorf("%s: %d %s", name, resp.Status, resp.Body)
		}
	}
	s := newSite(t, contract.Edge())
	if resp, _ := s.ask(jsonRequest("POST", "/v1/runs", strings.Repeat(" ", 768<<10)+good)); resp.Status != 413 {
		t.Errorf("above 768 KiB: %d", resp.Status)
	}
	form := jsonRequest("POST", "/v1/runs", good)
	form.Header["content-type"] = "application/x-www-form-urlencoded"
	if resp, _ := s.ask(form); resp.Status != 415 {
		t.Errorf("a form: %d", resp.Status)
	}
}

func TestAllRefusalsOfOneRequestComeTogether(t *testing.T) {
	task := validTask()
	task.Instruction, task.Model = "", "bad"
	task.Files[0].Path = "../x.py"
	task.Checks = []contract.Check{{"sh"}}
	task.Limits = contract.Limits{MaxSteps: 99, WallTimeSeconds: 999}
	s := newSite(t, contract.Edge())
	resp, _ := s.ask(jsonRequest("POST", "/v1/runs", task))
	p := decoded[contract.Problem](t, resp)
	fields := map[string]bool{}
	for _, r := range p.Errors {
		fields[r.Field] = true
	}
	for _, f := range []string{"instruction", "model", "files[0].path", "checks[0]", "limits.maxSteps", "limits.wallTimeSeconds"} {
		if !fields[f] {
			t.Errorf("%s is missing: %s", f, resp.Body)
		}
	}
}

func TestIngressTakesWhatOnlyLooksWrong(t *testing.T) {
	for name, body := range map[string]string{
		"dots in a name":   strings.ReplaceAll(edit(t, "files.0.path", `"src/foo..bar.py"`), "x = 1", "x"),
		"hidden file":      edit(t, "files.0.path", `"src/.hidden.py"`),
		"two leading dots": edit(t, "files.0.path", `"src/..b/c.py"`),
		"32 000 wide":      edit(t, "instruction", `"`+strings.Repeat("\u00e9", 32_000)+`"`),
		"base64":           edit(t, "files", `[{"path":"src/a.py","contentBase64":"eA=="}]`),
		"exact path":       edit(t, "allowedPaths", `["src/a.py"]`),
		"operator's host":  edit(t, "network", `["proxy.example"]`),
		"byte-order mark":  "\ufeff" + string(contract.MarshalJSON(validTask())),
	} {
		s := newSite(t, contract.Edge())
		if resp, _ := s.ask(jsonRequest("POST", "/v1/runs", body)); resp.Status != 202 {
			t.Errorf("%s: %d %s", name, resp.Status, resp.Body)
		}
	}
}
