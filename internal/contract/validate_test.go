package contract

import (
	"encoding/base64"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func localTask() Task {
	return Task{
		Instruction: "x", Model: "script:x", Repository: &Repository{Path: "/r"}, Limits: DefaultLimits(),
		Approval: ApprovalPolicy{Policy: PolicyAsk},
	}
}

var edgeRules = Rules{
	Models: []string{"m"},
	Checks: []Check{{"git", "diff", "--check"}, {"python3", "-m", "pytest", "-q"}},
}

func edgeTask() Task {
	content := "print(1)\n"
	return Task{
		Instruction: "x", Model: "m", Files: []File{{Path: "src/a.py", Content: &content}}, AllowedPaths: []string{"src/**"},
		Checks: []Check{{"git", "diff", "--check"}}, Limits: Limits{MaxSteps: 20, WallTimeSeconds: 220},
		Approval: ApprovalPolicy{Policy: PolicyDenyAll},
	}
}

func TestValidTasksPass(t *testing.T) {
	if err := Validate(localTask(), Local(), Rules{}); err != nil {
		t.Errorf("local: %v", err)
	}
	for _, p := range []Profile{Edge(), Server()} {
		if err := Validate(edgeTask(), p, edgeRules); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

func TestEveryRuleOfATaskIsHeld(t *testing.T) {
	big := strings.Repeat("a", 64<<10+1)
	nul := "a\x00"
	b64 := base64.StdEncoding.EncodeToString([]byte("x"))
	for _, c := range []struct {
		field, code string
		change      func(*Task)
	}{
		{"instruction", "required", func(t *Task) { t.Instruction = " \n" }},
		{"instruction", "too_long", func(t *Task) { t.Instruction = strings.Repeat("é", 32_001) }},
		{"instruction", "invalid_text", func(t *Task) { t.Instruction = nul }},
		{"name", "invalid_name", func(t *Task) { t.Name = "A b" }},
		{"model", "required", func(t *Task) { t.Model = "" }},
		{"model", "model_not_allowed", func(t *Task) { t.Model = "other" }},
		{"effort", "unknown_value", func(t *Task) { t.Effort = "max" }},
		{"source", "exactly_one", func(t *Task) { t.Files = nil }},
		{"source", "exactly_one", func(t *Task) { t.Upload = &Upload{ID: "upl_x"} }},
		{"repository", "not_here", func(t *Task) { t.Repository = &Repository{Path: "/x"} }},
		{"upload", "not_here", func(t *Task) { t.Upload = &Upload{ID: "upl_x"} }},
		{"git.url", "invalid_url", func(t *Task) { t.Git = &GitSource{URL: "http://h/x", Ref: "m"} }},
		{"git.url", "credentials_in_url", func(t *Task) { t.Git = &GitSource{URL: "https://u:p@h/x", Ref: "m"} }},
		{"git.url", "host_not_allowed", func(t *Task) { t.Git = &GitSource{URL: "https://h/x", Ref: "m"} }},
		{"git.ref", "invalid_ref", func(t *Task) { t.Git = &GitSource{URL: "https://h/x", Ref: "--upload-pack=x"} }},
		{"files", "too_many", func(t *Task) { t.Files = slices.Repeat(t.Files, 33) }},
		{"files[1].path", "duplicate_path", func(t *Task) { t.Files = append(t.Files, File{Path: "SRC/a.py", ContentBase64: &b64}) }},
		{"files[0].path", "invalid_path", func(t *Task) { t.Files[0].Path = "../a.py" }},
		{"files[0].path", "not_text", func(t *Task) { t.Files[0].Path = "src/a.exe" }},
		{"files[0]", "exactly_one", func(t *Task) { t.Files[0].ContentBase64 = &b64 }},
		{"files[0].contentBase64", "invalid_base64", func(t *Task) { t.Files[0].Content = nil; s := "a"; t.Files[0].ContentBase64 = &s }},
		{"files[0].content", "invalid_text", func(t *Task) { t.Files[0].Content = &nul }},
		{"files[0]", "too_large", func(t *Task) { t.Files[0].Content = &big }},
		{"files", "file_is_folder", func(t *Task) { t.Files = append(t.Files, File{Path: "src/a.py/b.py", ContentBase64: &b64}) }},
		{"allowedPaths", "required", func(t *Task) { t.AllowedPaths = nil }},
		{"allowedPaths", "too_many", func(t *Task) { t.AllowedPaths = slices.Repeat([]string{"src/**"}, 65) }},
		{"allowedPaths[0]", "invalid_path", func(t *Task) { t.AllowedPaths = []string{"**"} }},
		{"allowedPaths[0]", "not_in_source", func(t *Task) { t.AllowedPaths = []string{"other/**"} }},
		{"checks", "count", func(t *Task) { t.Checks = nil }},
		{"checks", "count", func(t *Task) { t.Checks = slices.Repeat(t.Checks, 5) }},
		{"checks[0]", "check_not_allowed", func(t *Task) { t.Checks = []Check{{"git", "diff"}} }},
		{"checks[0]", "invalid_argv", func(t *Task) { t.Checks = []Check{{}} }},
		{"limits.maxSteps", "out_of_range", func(t *Task) { t.Limits.MaxSteps = 21 }},
		{"limits.maxSteps", "out_of_range", func(t *Task) { t.Limits.MaxSteps = 0 }},
		{"limits.wallTimeSeconds", "out_of_range", func(t *Task) { t.Limits.WallTimeSeconds = 221 }},
		{"limits.maxModelRequests", "out_of_range", func(t *Task) { t.Limits.MaxModelRequests = 23 }},
		{"limits.maxOutputTokens", "out_of_range", func(t *Task) { t.Limits.MaxOutputTokens = -1 }},
		{"limits.maxCostUsd", "out_of_range", func(t *Task) { t.Limits.MaxCostUSD = -1 }},
		{"approval.policy", "unknown_value", func(t *Task) { t.Approval.Policy = "yes" }},
		{"approval.unattended", "unknown_value", func(t *Task) { t.Approval.Unattended = "x" }},
		{"approval.timeoutSeconds", "out_of_range", func(t *Task) { t.Approval.TimeoutSeconds = 300 }},
		{"approval.deny[0]", "invalid_rule", func(t *Task) { t.Approval.Deny = []string{"\x1b[2K"} }},
		{"sandbox.mode", "not_here", func(t *Task) { t.Sandbox.Mode = SandboxNone }},
		{"sandbox.minTier", "unknown_value", func(t *Task) { t.Sandbox.MinTier = "L9" }},
		{"sandbox.image", "image_not_allowed", func(t *Task) { t.Sandbox.Image = "x" }},
		{"sandbox", "not_here", func(t *Task) { t.Sandbox.Env = []string{"HOME"} }},
		{"sandbox.tools[0]", "unknown_value", func(t *Task) { t.Sandbox.Tools = []string{"web"} }},
		{"network[0]", "invalid_host", func(t *Task) { t.Network.Hosts = []string{"a.b:80"} }},
		{"network[0]", "host_not_allowed", func(t *Task) { t.Network.Hosts = []string{"a.b"} }},
		{"labels", "invalid_label", func(t *Task) { t.Labels = map[string]string{"a:b": ""} }},
	} {
		task := edgeTask()
		c.change(&task)
		err := Validate(task, Edge(), edgeRules)
		if err == nil {
			t.Errorf("%s %s is not refused", c.field, c.code)
			continue
		}
		if got := refusals(t, err); !slices.ContainsFunc(got, func(r Refusal) bool { return r.Field == c.field && r.Code == c.code }) {
			t.Errorf("want %s at %s, got %+v", c.code, c.field, got)
		}
	}
}

func TestLocalRules(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*Task)
	}{
		{"repository.path", func(t *Task) { t.Repository.Path = "x" }},
		{"repository.base", func(t *Task) { t.Repository.Base = "--output=x" }},
		{"repository.dirty", func(t *Task) { t.Repository.Dirty = "x" }},
		{"repository.include[0]", func(t *Task) { t.Repository.Include = []string{"../x"} }},
		{"model", func(t *Task) { t.Model = "a b" }},
		{"sandbox.addDirs[0]", func(t *Task) { t.Sandbox.AddDirs = []string{"x"} }},
		{"sandbox.env[0]", func(t *Task) { t.Sandbox.Env = []string{"A=B"} }},
	} {
		task := localTask()
		c.change(&task)
		err := Validate(task, Local(), Rules{})
		if err == nil || refusals(t, err)[0].Field != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
	}
}

// server is at least as strict as local in every field, and edge than server. A field that is
// neither a bound nor a freedom must be named here.
func TestProfilesGetStricter(t *testing.T) {
	floor := map[string]bool{"MinChecks": true, "InlineTextOnly": true} // more is stricter
	zeroIsFree := map[string]bool{"ResponseTokens": true}
	order := []Profile{Local(), Server(), Edge()}
	for i := 1; i < len(order); i++ {
		a, b := reflect.ValueOf(order[i-1]), reflect.ValueOf(order[i])
		for f := range a.Type().Fields() {
			x, y := weight(a.FieldByIndex(f.Index)), weight(b.FieldByIndex(f.Index))
			if zeroIsFree[f.Name] && x == 0 {
				x = Unbounded
			}
			if floor[f.Name] {
				x, y = y, x
			}
			if y > x {
				t.Errorf("%s: %s is wider than %s", f.Name, order[i].Name, order[i-1].Name)
			}
		}
	}
}

func weight(v reflect.Value) int64 {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return 1
		}
		return 0
	case reflect.String:
		return 0
	default:
		return v.Int()
	}
}
