package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

func TestMain(m *testing.M) {
	if handled, code := proc.Main(os.Args); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

const (
	idA = contract.RunID("run_aaaaaaaaaaaaaaaaaaaaaaaaaa")
	idB = contract.RunID("run_aaaabbbbbbbbbbbbbbbbbbbbbb")
)

func ending(s contract.State, code int, f *contract.Failure) contract.RunEnded {
	return contract.RunEnded{State: s, ExitCode: code, Error: f, Result: &contract.Result{Summary: "said", ChangedFiles: []contract.FileChange{{Path: "a.txt", Status: "modified", Additions: 1}}}}
}

func TestExitCodesAreDecidedInOnePlace(t *testing.T) {
	for want, errs := range map[int][]error{
		0: {nil},
		1: {errors.New("x"), contract.Errorf(contract.KindInternal, "x")},
		2: {usagef("", "x"), &config.Error{Message: "x"}, contract.Errorf(contract.KindInvalid, "x"), contract.Errorf(contract.KindRunNotFound, "x"), fmt.Errorf("a: %w", contract.Errorf(contract.KindUnknownField, "x"))},
		4: {&model.Error{Kind: model.ErrConfig, Code: "no_key"}, contract.Errorf(contract.KindUnauthorized, "x")},
		7: {&sandbox.Error{Code: sandbox.ErrTier}},
		9: {applyFailed(contract.Run{}, contract.Errorf(contract.KindConflict, "x"))},
	} {
		for _, err := range errs {
			if got := exitCode(err); got != want {
				t.Errorf("%v: exit code %d, want %d", err, got, want)
			}
		}
	}
	for code := range 11 {
		if got := exitCode(ended(code)); got != code {
			t.Errorf("a run that ended with %d gives %d", code, got)
		}
	}
}

func TestChecksAreSplitWithoutAShell(t *testing.T) {
	for in, want := range map[string]contract.Check{
		"go test ./...":             {"go", "test", "./..."},
		"  a\t b  ":                 {"a", "b"},
		`a 'b c' "d e" f\ g`:        {"a", "b c", "d e", "f g"},
		`sh -c 'x | y && z > f'`:    {"sh", "-c", "x | y && z > f"},
		`a "" ''`:                   {"a", "", ""},
		`a "\"" 'it'"'"'s'`:         {"a", `"`, "it's"},
		`go test -run '^Test[AB]$'`: {"go", "test", "-run", "^Test[AB]$"},
	} {
		got, err := splitCheck(in)
		if err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", " ", "a | b", "a && b", "a; b", "a > f", "a < f", "a $HOME", "a `b`", "a *.go", "a ?", "a [b]", "~/a", "a {b,c}", "a 'b", `a "b`, `a \`, "A=b c", `a "$HOME"`, "a # b", "a\nb"} {
		if got, err := splitCheck(in); err == nil || exitCode(err) != 2 {
			t.Errorf("%q was taken as %q (%v)", in, got, err)
		}
	}
}

func TestQuotedWordsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		argv := rapid.SliceOfN(rapid.StringMatching(`[a-zA-Z0-9 '"\\$|_./-]{0,8}`), 1, 4).Draw(t, "argv")
		argv[0] = "x" + strings.ReplaceAll(argv[0], "=", "")
		got, err := splitCheck(quoteArgv(argv))
		if err != nil || cmp.Diff(contract.Check(argv), got) != "" {
			t.Fatalf("%q became %q as %s (%v)", argv, got, quoteArgv(argv), err)
		}
	})
}

func TestYAMLIsReadStrictly(t *testing.T) {
	got, err := yamlToJSON([]byte("instruction: |\n  a\n  b\nchecks: [[go, test]]\nlimits: {maxSteps: 3, maxCostUsd: 0.5}\nname: '007'\n"))
	if want := `{"checks":[["go","test"]],"instruction":"a\nb\n","limits":{"maxCostUsd":0.5,"maxSteps":3},"name":"007"}`; err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
	for name, doc := range map[string]string{
		"duplicate": "a: 1\na: 2", "alias": "a: &x 1\nb: *x", "merge": "a: {<<: {b: 1}}", "two documents": "a: 1\n---\nb: 2", "tag": "a: !!binary aGk=",
		"octal": "a: 0o17", "infinity": "a: .inf", "map key": "{a: 1}: 2", "empty": "", "deep": strings.Repeat("[", 100) + strings.Repeat("]", 100),
	} {
		if got, err := yamlToJSON([]byte(doc)); err == nil {
			t.Errorf("%s was taken as %s", name, got)
		}
	}
}

func TestRunsAreNamedInManyWays(t *testing.T) {
	m := newMemory()
	m.add(contract.Run{ID: idA, Name: "old", Status: contract.Running, Repository: "/elsewhere"}, contract.RunQueued{})
	m.add(contract.Run{ID: idB, Name: "old", Status: contract.Running}, contract.RunQueued{})
	for ref, want := range map[string]string{
		string(idA): string(idA), "aaaab": string(idB), "run_aaaab": string(idB), "old": string(idB), "@last": string(idB), "@-1": string(idA),
		"aaaa": "names 2 runs", "aaa": "at least 4", "zzzz": "no run is named", "@-2": "there is no run", "@first": "does not name a run", "run_zzzzzzzzzzzzzzzzzzzzzzzzzz": "not known",
	} {
		code, out, errOut := runOn(t, m, "show", ref, "--jq", ".id")
		if strings.HasPrefix(want, "run_") {
			if code != 0 || strings.TrimSpace(out) != want {
				t.Errorf("%s: %d %s %s", ref, code, out, errOut)
			}
		} else if code != 2 || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d %s", ref, code, errOut)
		}
	}
}

func TestAttachEndsWithTheRunsCode(t *testing.T) {
	m := newMemory()
	m.add(contract.Run{ID: idA}, contract.RunQueued{}, contract.ModelMessage{Text: "hello"}, ending(contract.Failed, 3, &contract.Failure{Code: contract.FailChecks, Message: "no"}))
	code, out, errOut := runOn(t, m, "attach", string(idA))
	if code != 3 || !strings.Contains(out, "failed, checks_failed: 1 file changed") || !strings.Contains(errOut, "* hello") || !strings.Contains(errOut, "next: rivumi diff") {
		t.Errorf("%d\n%s\n%s", code, out, errOut)
	}
}

func TestAttachRefusesALogThatIsNotWhole(t *testing.T) {
	m := newMemory()
	m.add(contract.Run{ID: idA}, contract.RunQueued{}, contract.StepStarted{Step: 1}, contract.StepStarted{Step: 2}, ending(contract.Completed, 0, nil))
	m.logs[idA][1].Data = json.RawMessage(`{"step":7,"max":0}`)
	if code, _, errOut := runOn(t, m, "attach", string(idA)); code != 1 || !strings.Contains(errOut, "event 3 does not follow event 2") {
		t.Errorf("%d %s", code, errOut)
	}
}

func TestApproveListsAndDecides(t *testing.T) {
	m := newMemory()
	m.add(contract.Run{ID: idA, Status: contract.Running}, contract.RunQueued{}, contract.ApprovalRequested{Approval: contract.Approval{
		ID: "apr_0123456789", Title: "Run a command", Command: contract.Asked{Script: "make\x1b[31m install"}, Reason: "no rule allows it",
	}})
	code, out, _ := runOn(t, m, "approve", "@last")
	if code != 0 || !strings.Contains(out, "apr_0123456789") || !strings.Contains(out, `make\x1b[31m install`) {
		t.Errorf("%d %s", code, out)
	}
	if code, _, errOut := runOn(t, m, "approve", "@last", "apr_0123", "--allow-once", "--deny"); code != 2 {
		t.Errorf("two decisions at once: %d %s", code, errOut)
	}
	code, _, errOut := runOn(t, m, "approve", "@last", "apr_0123", "--deny", "--note", "no")
	if d := m.decisions["apr_0123456789"]; code != 0 || d.Verdict != contract.Deny || d.By != "ada" || d.Note != "no" {
		t.Errorf("%d %+v %s", code, d, errOut)
	}
}

func TestPlainLinesHoldNoEscapeByte(t *testing.T) {
	evil := "a\x1b[2J\x1b]0;t\x07\u202eb\u009b"
	m := newMemory()
	m.add(contract.Run{ID: idA, Name: "n", Instruction: evil, Model: evil}, contract.RunQueued{Task: contract.Task{Instruction: evil, Model: evil}}, contract.WorkspaceReady{Root: evil, Notes: []string{evil}, Sandbox: evil},
		contract.ModelDelta{Text: evil}, contract.ModelMessage{Text: evil, ToolCalls: []contract.ToolCall{{ID: "c", Name: evil, Arguments: json.RawMessage(`{"command":"\u001b[31m"}`)}}},
		contract.ToolStarted{CallID: "c", Name: evil}, contract.ToolResult{CallID: "c", Stdout: evil, ExitCode: 1}, contract.CheckFinished{CheckResult: contract.CheckResult{Argv: contract.Check{evil}}, Tail: evil},
		contract.Notice{Text: evil}, contract.MessageUser{Message: contract.Message{Text: evil}}, contract.RunCancelRequested{Reason: evil},
		contract.RunEnded{State: contract.Failed, Error: &contract.Failure{Code: "x", Message: evil, Hint: evil}, Result: &contract.Result{Summary: evil, ChangedFiles: []contract.FileChange{{Path: evil}}}})
	for _, args := range [][]string{{"attach", "n"}, {"show", "n"}, {"logs", "n"}, {"ps"}, {"show", "n", "--jq", ".instruction"}, {"diff", "n", "--stat"}} {
		_, out, errOut := runOn(t, m, args...)
		if i := strings.IndexAny(out+errOut, "\x1b\x07\u009b\u202e"); i >= 0 {
			t.Errorf("%v prints a control character near %q", args, (out + errOut)[max(0, i-20):i+1])
		}
	}
}

func TestArtifactsAreCheckedOnTheWay(t *testing.T) {
	m := newMemory()
	m.add(contract.Run{ID: idA}, contract.RunQueued{}, ending(contract.Completed, 0, nil))
	m.files["patch.diff"] = "--- a\n"
	dir := t.TempDir()
	code, _, errOut := runOn(t, m, "artifacts", "get", string(idA), "patch.diff", "-O", filepath.Join(dir, "p"))
	raw, err := os.ReadFile(filepath.Join(dir, "p"))
	if code != 0 || err != nil || string(raw) != "--- a\n" {
		t.Errorf("%d %s %v", code, errOut, err)
	}
	if code, _, errOut := runOn(t, m, "artifacts", "get", string(idA), "nothing"); code != 2 || !strings.Contains(errOut, "no artifact") {
		t.Errorf("%d %s", code, errOut)
	}
}

func TestPipedTextIsTakenOnlyWhenItIsThere(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s, _, _ := TestIO()
	s.In, s.InFile = r, r
	began := time.Now()
	got, err := readPrompt(s, []string{"do", "it"}, false)
	if err != nil || got != "do it" || time.Since(began) > 10*time.Second {
		t.Errorf("open pipe: %q %v", got, err)
	}
	if _, err := w.WriteString("more\n"); err != nil {
		t.Fatal(err)
	}
	if got, err = readPrompt(s, []string{"do it"}, false); err != nil || got != "do it\n\n<stdin>\nmore\n</stdin>" {
		t.Errorf("with data: %q %v", got, err)
	}
	if _, err := w.WriteString(strings.Repeat("x", 60_000)); err != nil {
		t.Fatal(err)
	}
	if got, err = readPrompt(s, []string{"do it"}, false); err != nil || len(got) < 60_000 {
		t.Errorf("long text: %d bytes, %v", len(got), err)
	}
}

func TestTaskComesFromFlagsFileAndSettings(t *testing.T) {
	var got contract.Task
	f := &Factory{IO: nil, Getenv: func(n string) string { return map[string]string{"HOME": t.TempDir()}[n] }, Now: time.Now}
	f.IO, _, _ = TestIO()
	cmd := newRunCmd(f, nil)
	o := &runOptions{Factory: f}
	file := filepath.Join(t.TempDir(), "task.json")
	if err := os.WriteFile(file, []byte(`{"model":"file/m","limits":{"maxSteps":5,"wallTimeSeconds":9},"approval":{"policy":"edits","deny":["shell(rm:*)"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	o.File = file
	if err := cmd.ParseFlags([]string{"--max-steps", "7", "--deny", "shell(git push:*)", "--check", "go test ./...", "--net", "allow=a.b,c.d", "--approve", "never"}); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{Environ: []string{"RIVUMI_MODEL=env/m", "RIVUMI_LIMITS_TIMEOUT=1h"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := applyFlags(cmd.Flags(), c, o); err != nil {
		t.Fatal(err)
	}
	if got, err = buildTask(o, c, "fix"); err != nil {
		t.Fatal(err)
	}
	want := contract.Task{
		Instruction: "fix", Model: "file/m", Limits: contract.Limits{MaxSteps: 7, WallTimeSeconds: 9}, Checks: []contract.Check{{"go", "test", "./..."}},
		Approval:   contract.ApprovalPolicy{Policy: contract.PolicyDenyAll, Unattended: contract.UnattendedDeny, TimeoutSeconds: 300, Deny: []string{"shell(rm:*)", "shell(git push:*)"}},
		Sandbox:    contract.Sandbox{Mode: contract.SandboxAuto},
		Network:    contract.Network{Hosts: []string{"a.b", "c.d"}},
		Repository: got.Repository,
	}
	want.Repository.Dirty = contract.DirtyInclude
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestEveryCommandHelpsWithoutOpeningAnything(t *testing.T) {
	s, _, _ := TestIO()
	f := &Factory{IO: s, Getenv: func(string) string { return "" }}
	root := newRootCmd(f)
	for _, c := range root.Commands() {
		s, out, errOut := TestIO()
		f := &Factory{IO: s, Getenv: func(string) string { return "" }} // opening anything would panic
		if code := Run(t.Context(), f, []string{c.Name(), "--help"}); code != 0 || out.Len() == 0 {
			t.Errorf("%s --help: %d %s", c.Name(), code, errOut)
		}
		if c.Short == "" {
			t.Errorf("%s has no short text", c.Name())
		}
	}
}
