package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, s Sources) *Config {
	t.Helper()
	c, err := Load(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLayersBeatEachOtherInOrder(t *testing.T) {
	dir := t.TempDir()
	user := write(t, filepath.Join(dir, "user.toml"), "model = \"user/m\"\n[limits]\nmax_steps = 30\ntimeout = \"10m\"\n")
	root := filepath.Join(dir, "repo")
	project := write(t, ProjectFile(root), "[limits]\nmax_steps = 20\n")
	trust, err := OpenTrust(filepath.Join(dir, "trust.json"))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(project)
	if err := trust.Add(root, raw); err != nil {
		t.Fatal(err)
	}
	s := Sources{UserFile: user, Root: root, Trust: trust}
	if c := load(t, s); c.Int("limits.max_steps") != 20 || c.Lookup("limits.max_steps").Origin != project+":2" || c.String("model") != "user/m" {
		t.Errorf("project: %+v", c.Lookup("limits.max_steps"))
	}
	s.Environ = []string{"RIVUMI_LIMITS_MAX_STEPS=10"}
	if c := load(t, s); c.Int("limits.max_steps") != 10 {
		t.Errorf("environment: %+v", c.Lookup("limits.max_steps"))
	}
	s.Sets = []string{"limits.max_steps=5"}
	c := load(t, s)
	if got := c.Lookup("limits.max_steps"); got.Value != int64(5) || got.Layer != Flag {
		t.Errorf("flag: %+v", got)
	}
	var layers []string
	for _, v := range c.Chain("limits.max_steps") {
		layers = append(layers, string(v.Layer))
	}
	if got := strings.Join(layers, " "); got != "flag environment project user default" {
		t.Errorf("chain is %s", got)
	}
}

func TestUnknownKeyNamesFileLineAndNearest(t *testing.T) {
	for name, c := range map[string]struct{ doc, message, hint string }{
		"top":     {"model = \"a/b\"\naprove = \"ask\"\n", `:2: unknown key "aprove"`, `"approve"`},
		"table":   {"[limits]\n# steps\nmax_step = 3\n", `:3: unknown key "limits.max_step"`, `"limits.max_steps"`},
		"dotted":  {"limits.max_step = 3\n", `:1: unknown key "limits.max_step"`, `"limits.max_steps"`},
		"type":    {"model = 3\n", ":1: model must be text", ""},
		"value":   {"approve = \"yes\"\n", ":1: approve must be one of never", ""},
		"range":   {"[limits]\nmax_steps = -1\n", ":2: limits.max_steps must be a whole number", ""},
		"syntax":  {"model = \n", ":1: ", ""},
		"twice":   {"model = \"a/b\"\nmodel = \"c/d\"\n", ":2: ", ""},
		"profile": {"[profiles.fast]\nmodell = \"a/b\"\n", `:2: unknown key "modell"`, `"model"`},
	} {
		path := write(t, filepath.Join(t.TempDir(), "c.toml"), c.doc)
		_, err := Load(Sources{UserFile: path})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), path+c.message) || !strings.Contains(e.Hint, c.hint) {
			t.Errorf("%s: %v, hint %q", name, err, e)
		}
	}
}

func TestByteOrderMarkIsAccepted(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "c.toml"), "\ufeffmodel = \"a/b\"\n")
	if c := load(t, Sources{UserFile: path}); c.String("model") != "a/b" {
		t.Errorf("model is %q", c.String("model"))
	}
}

func TestProfileLiesOverTheFile(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "c.toml"), "model = \"a/b\"\neffort = \"low\"\n[profiles.fast]\nmodel = \"c/d\"\n[profiles.fast.limits]\nmax_steps = 3\n")
	c := load(t, Sources{UserFile: path, Profile: "fast"})
	if c.String("model") != "c/d" || c.String("effort") != "low" || c.Int("limits.max_steps") != 3 {
		t.Errorf("%v %v %v", c.String("model"), c.String("effort"), c.Int("limits.max_steps"))
	}
	if _, err := Load(Sources{UserFile: path, Profile: "slow"}); err == nil {
		t.Error("a profile that is not there was taken")
	}
}

// Every key that could redirect traffic, run a program, or widen what a run may do is out of a
// repository's reach, also when the repository is trusted.
func TestProjectCannotWeakenAnything(t *testing.T) {
	for _, doc := range []string{
		`provider_url = "http://evil/v1"`, `api_key_cmd = "cat /etc/passwd"`, `server = "http://evil"`, `allow = ["shell(*)"]`,
		`net = "allow=evil"`, `env = ["OPENAI_API_KEY"]`, `add_dirs = ["/:rw"]`, `include = [".env"]`, `image = "evil"`,
		`approve = "edits"`, `approve = "all"`, `sandbox = "none"`, `on_no_answer = "wait"`, `min_tier = "L0"`, `approval_timeout = "6m"`,
		"[limits]\nmax_steps = 41", "[limits]\ntimeout = \"21m\"", "[limits]\nmax_cost = 2.0", "[limits]\nmax_cost = 0",
		"[providers.openai]\nurl = \"http://evil/v1\"", "[providers.x]\nkey_cmd = \"sh\"", `allowed_paths = ["other/**"]`,
	} {
		dir := t.TempDir()
		user := write(t, filepath.Join(dir, "user.toml"), "min_tier = \"L3\"\nallowed_paths = [\"src/**\"]\n[limits]\nmax_cost = 1.0\n")
		root := filepath.Join(dir, "repo")
		write(t, ProjectFile(root), doc+"\n")
		trust := Trust{path: filepath.Join(dir, "trust.json"), Roots: map[string]string{}}
		if err := trust.Add(root, []byte(doc+"\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(Sources{UserFile: user, Root: root, Trust: trust}); err == nil {
			t.Errorf("accepted from a repository: %s", doc)
		}
		if _, err := Load(Sources{UserFile: user, Root: root, Trust: trust, NoProject: true}); err != nil {
			t.Errorf("left out, %s still refuses: %v", doc, err)
		}
	}
}

func TestProjectMayBeStricter(t *testing.T) {
	doc := "approve = \"read-only\"\nsandbox = \"workspace-write\"\nallowed_paths = [\"src/**\"]\nchecks = [\"make test\"]\n[limits]\nmax_steps = 3\nmax_tokens = 1000\n"
	dir := t.TempDir()
	write(t, ProjectFile(dir), doc)
	trust := Trust{path: filepath.Join(dir, "trust.json"), Roots: map[string]string{}}
	if err := trust.Add(dir, []byte(doc)); err != nil {
		t.Fatal(err)
	}
	c := load(t, Sources{Root: dir, Trust: trust})
	if c.String("approve") != "read-only" || c.Int("limits.max_tokens") != 1000 || c.List("checks")[0] != "make test" {
		t.Errorf("%v", c.chains)
	}
}

func TestTrustIsOfTheContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "trust.json")
	trust, err := OpenTrust(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := trust.Add("/r", []byte("a")); err != nil {
		t.Fatal(err)
	}
	again, err := OpenTrust(path)
	if err != nil {
		t.Fatal(err)
	}
	if !again.Holds("/r", []byte("a")) || again.Holds("/r", []byte("b")) || again.Holds("/s", []byte("a")) {
		t.Error("trust does not follow root and content")
	}
	if err := again.Remove("/r"); err != nil || again.Holds("/r", []byte("a")) {
		t.Errorf("still trusted, %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestDenyRulesAddUp(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "c.toml"), "deny = [\"shell(git push:*)\"]\nallow = [\"shell(ls)\"]\n")
	c := load(t, Sources{UserFile: path})
	c.SetList("deny", []string{"shell(rm:*)"}, "--deny")
	c.SetList("allow", []string{"shell(cat)"}, "--allow")
	if got := c.All("deny"); len(got) != 2 {
		t.Errorf("deny is %v", got)
	}
	if got := c.List("allow"); len(got) != 1 {
		t.Errorf("allow is %v", got)
	}
}

func TestUnknownVariableIsWarnedOf(t *testing.T) {
	c := load(t, Sources{Environ: []string{"RIVUMI_MAX_STEPS=3", "RIVUMI_STATE_DIR=/x", "PATH=/bin"}})
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "RIVUMI_MAX_STEPS") {
		t.Errorf("warnings: %v", c.Warnings)
	}
}

func TestWriteUserKeepsTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "c.toml")
	for _, set := range [][2]string{{"model", "a/b"}, {"limits.max_steps", "7"}, {"limits.timeout", "5m"}, {"checks", "go test ./...\nmake lint"}, {"model", "c/d"}, {"limits.max_steps", ""}} {
		if err := WriteUser(path, set[0], set[1]); err != nil {
			t.Fatalf("%v: %v", set, err)
		}
	}
	c := load(t, Sources{UserFile: path})
	if c.String("model") != "c/d" || c.Int("limits.max_steps") != 40 || c.String("limits.timeout") != "5m" || len(c.List("checks")) != 2 {
		raw, _ := os.ReadFile(path)
		t.Errorf("file is now:\n%s", raw)
	}
	write(t, path, "# mine\nmodel = \"a/b\" # why\n\n[limits]\nmax_steps = 3\n")
	if err := WriteUser(path, "effort", "high"); err != nil {
		t.Fatal(err)
	}
	raw, _ := os.ReadFile(path)
	if !strings.Contains(string(raw), "# mine") || !strings.Contains(string(raw), "# why") {
		t.Errorf("a comment is gone:\n%s", raw)
	}
	if err := WriteUser(path, "modle", "x"); err == nil {
		t.Error("an unknown key was written")
	}
}

func TestEveryKeyHasItsPlace(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys() {
		if seen[k.Name] || k.Doc == "" || k.Project == "" {
			t.Errorf("key %+v", k)
		}
		seen[k.Name] = true
		if k.Default != nil {
			if _, err := k.check(k.Default); err != nil {
				t.Errorf("default of %s: %v", k.Name, err)
			}
		}
	}
	props := Schema()["properties"].(map[string]any)
	if _, ok := props["limits"].(map[string]any)["properties"].(map[string]any)["max_steps"]; !ok {
		t.Error("the schema does not have limits.max_steps")
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add("model = \"a/b\"\n[limits]\nmax_steps = 3\n")
	f.Add("[profiles.a.limits]\n\"max_steps\"=1")
	f.Fuzz(func(t *testing.T, doc string) {
		file, err := parseFile("f", []byte(doc), "a")
		if err != nil {
			return
		}
		for name, v := range file.values {
			k, ok := Find(name)
			if !ok {
				t.Fatalf("unknown key %q was taken", name)
			}
			if _, err := k.check(v); err != nil {
				t.Fatal(err)
			}
		}
	})
}
