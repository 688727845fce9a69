package contract

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func refusals(t *testing.T, err error) []Refusal {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("want a *contract.Error, got %v", err)
	}
	return e.Refusals
}

func TestDecodeTaskIsStrict(t *testing.T) {
	for _, c := range []struct{ name, body, field, code string }{
		{"letter case of a key counts", `{"Instruction":"x"}`, "Instruction", "unknown_field"},
		{"unknown key, deep", `{"limits":{"max_step":3}}`, "limits.max_step", "unknown_field"},
		{"duplicate key", `{"model":"a","model":"b"}`, "model", "duplicate_key"},
		{"duplicate key inside a free map", `{"labels":{"a":"1","a":"2"}}`, "labels.a", "duplicate_key"},
		{"duplicate key inside a custom value", `{"network":{"a":1,"a":2}}`, "network.a", "duplicate_key"},
		{"trailing data", `{} {}`, "(document)", "trailing_data"},
		{"trailing comma", "{\n\"model\":\"a\",\n}", "(document)", "invalid_json"},
		{"empty", "  ", "", "invalid_json"},
		{"null for a string", `{"model":null}`, "model", "wrong_type"},
		{"string for a number", `{"limits":{"maxSteps":"3"}}`, "limits.maxSteps", "wrong_type"},
		{"fraction for a whole number", `{"limits":{"maxSteps":1.5}}`, "limits.maxSteps", "wrong_type"},
		{"array for an object", `{"limits":[]}`, "limits", "wrong_type"},
		{"object for an array", `{"checks":{}}`, "checks", "wrong_type"},
		{"wrong element", `{"checks":[["go",1]]}`, "checks[0][1]", "wrong_type"},
		{"network of the wrong shape", `{"network":"all"}`, "network", "invalid_value"},
		{"invalid UTF-8", "{\"model\":\"\xff\"}", "", "invalid_utf8"},
		{"nested too deep", `{"labels":{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}}`, "", "too_deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := DecodeTask([]byte(c.body))
			got := refusals(t, err)
			if !slices.ContainsFunc(got, func(r Refusal) bool {
				return r.Code == c.code && (c.field == "" || c.field == r.Field || c.field == "(document)" && r.Field == "")
			}) {
				t.Errorf("want %s at %q, got %+v", c.code, c.field, got)
			}
		})
	}
}

// CF-04: a mistyped safety key names the key that was meant, and everything wrong comes at once.
func TestCF04MistypedKeysAreNamedTogether(t *testing.T) {
	body := `{"instruction":"x","allowed_path":["a"],"limits":{"max_step":1},"aproval":{}}`
	_, err := DecodeTask([]byte(body))
	text := err.Error()
	for _, want := range []string{`did you mean "allowedPaths"`, `did you mean "maxSteps"`, `did you mean "approval"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if KindOf(err) != KindUnknownField {
		t.Errorf("kind is %s", KindOf(err))
	}
	_, err = DecodeTask([]byte("{\n  \"model\": \"a\",\n}"))
	if !strings.Contains(err.Error(), "line 3") {
		t.Errorf("no line in %q", err)
	}
	if _, err := DecodeTask([]byte("\ufeff{}")); err != nil {
		t.Errorf("a byte-order mark: %v", err)
	}
}

func TestDecodeAcceptsEveryFieldOfATask(t *testing.T) {
	content := "x"
	full := Task{
		Instruction: "do", Name: "n", Model: "m", FallbackModel: "f", Effort: "low",
		Repository: &Repository{Path: "/r", Base: "HEAD", Dirty: DirtyInclude, Include: []string{".env"}},
		Files:      []File{{Path: "a", Content: &content, Executable: true}}, Upload: &Upload{ID: "upl_1"},
		Git: &GitSource{URL: "https://h/x", Ref: "main"}, AllowedPaths: []string{"a"},
		Checks: []Check{{"true"}}, Limits: DefaultLimits(), Approval: ApprovalPolicy{Policy: PolicyAsk, Allow: []string{"r"}},
		Sandbox: Sandbox{Mode: SandboxAuto, Env: []string{"A"}}, Network: Network{Hosts: []string{"h"}},
		Labels: map[string]string{"a": "b"},
	}
	got, err := DecodeTask(MarshalJSON(full))
	if err != nil {
		t.Fatal(err)
	}
	if string(MarshalJSON(got)) != string(MarshalJSON(full)) {
		t.Errorf("round trip:\n%s\n%s", MarshalJSON(got), MarshalJSON(full))
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"labels":{}`)
	for i := range 100 {
		b.WriteString(`,"k` + strings.Repeat("x", i) + `":1`)
	}
	b.WriteString("}")
	_, err := DecodeTask([]byte(b.String()))
	if n := len(refusals(t, err)); n != MaxRefusals {
		t.Errorf("%d refusals, want %d", n, MaxRefusals)
	}
}

func FuzzDecodeTask(f *testing.F) {
	f.Add([]byte(`{"instruction":"x","limits":{"maxSteps":1,"wallTimeSeconds":5},"checks":[["a"]],"network":["a.b"]}`))
	f.Add([]byte(`{"a":{"a":{"a":[[[{"b":null}]]]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		task, err := DecodeTask(data)
		if err != nil {
			if k := KindOf(err); k != KindInvalid && k != KindUnknownField {
				t.Fatalf("kind %s of %v", k, err)
			}
			return
		}
		// What is accepted here is accepted by the plain decoder with the same meaning.
		var plain Task
		if err := json.Unmarshal(trimBOM(data), &plain); err != nil {
			t.Fatalf("plain decoder: %v", err)
		}
		if string(MarshalJSON(plain)) != string(MarshalJSON(task)) {
			t.Fatal("two meanings")
		}
	})
}

func trimBOM(b []byte) []byte { return []byte(strings.TrimPrefix(string(b), "\ufeff")) }
