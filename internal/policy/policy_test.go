package policy

import (
	"errors"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/contract"
)

// A grant covers what was shown and nothing beyond it.
func TestAP03GrantIsExactlyTheScope(t *testing.T) {
	p := mustNew(t, Config{Policy: contract.PolicyAsk})
	first := p.Command("go test ./...", "")
	if first.Action != contract.ActionAsk || first.Scope.Pattern != "shell(go test:*)" || !strings.Contains(first.Scope.Explain, "go test") {
		t.Fatalf("the first is %+v", first)
	}
	p.Grant(first.Scope)
	for script, want := range map[string]contract.Action{
		"go test ./...":                  contract.ActionAllow,
		"go test -run X ./pkg":           contract.ActionAllow,
		"go test ./...; touch p":         contract.ActionAsk,
		"go test ./... && touch q":       contract.ActionAsk,
		"go test ./... > f":              contract.ActionAsk,
		"go test $(touch p)":             contract.ActionAsk,
		"go test $x":                     contract.ActionAsk,
		"go test ./... | cat":            contract.ActionAsk,
		"GOFLAGS=-exec=./x go test ./..": contract.ActionAsk,
		"go test ./... &":                contract.ActionAsk,
		"go build ./...":                 contract.ActionAsk,
		"./go test ./...":                contract.ActionAsk,
		"sh -c 'go test ./...'":          contract.ActionAsk,
		"go test <(touch p)":             contract.ActionAsk,
	} {
		if j := p.Command(script, ""); j.Action != want {
			t.Errorf("%q is %s, want %s (%s)", script, j.Action, want, j.Rule)
		}
	}
	w := p.Write("a.txt", false)
	p.Grant(w.Scope)
	if p.Write("a.txt", false).Action != contract.ActionAllow || p.Write("b.txt", false).Action != contract.ActionAsk {
		t.Error("a grant for a.txt does not cover exactly a.txt")
	}
	star := p.Write("dir/*.txt", false)
	p.Grant(star.Scope)
	if p.Write("dir/b.txt", false).Action != contract.ActionAsk || p.Write("dir/*.txt", false).Action != contract.ActionAllow {
		t.Errorf("the scope %q of a file with a star in its name reaches others", star.Scope.Pattern)
	}
	if q := mustNew(t, Config{Policy: contract.PolicyAsk}); q.Command("go test ./...", "").Action != contract.ActionAsk {
		t.Error("a grant reached another run")
	}
}

func TestNoSessionIsOfferedForWhatCannotBeShownWhole(t *testing.T) {
	p := mustNew(t, Config{Policy: contract.PolicyAsk})
	for _, s := range []string{"touch a; touch b", "touch $x", "echo a > f", "rm -rf /", "sudo ls", "eval x", "ls (", "A=b touch f", "PATH=. touch f"} {
		if j := p.Command(s, ""); j.Scope.Pattern != "" {
			t.Errorf("%q offers the session %q", s, j.Scope.Pattern)
		}
	}
	if got := p.Command("touch 'a b'", "").Scope.Pattern; got != "shell(touch 'a b')" {
		t.Errorf("the scope is %q", got)
	}
}

func TestDenyBeatsAllowInEveryForm(t *testing.T) {
	p := mustNew(t, Config{
		Policy: contract.PolicyAllowAll, Allow: []string{"shell(git push:*)", "edit(**)"},
		Deny: []string{"shell(git push:*)", "shell(rm -rf x)", "edit(secret/**)", "read(.env)", "net(*.evil.test)"},
	})
	for _, s := range []string{
		"git push", "git push origin", "/usr/bin/git push", "git -C sub push", "git -c a=b push", "sh -c 'git push'", "env A=b git push",
		"sudo git push", "ls; git push", "echo $(git push)", "eval git push", "xargs git push", "timeout 5 git push", "command git push",
		"if x; then git push; fi", "'git' pu''sh", "rm -rf x", "rm secret/x", "echo x > secret/x", "cp a secret/b", "cat .env", "cat < ./.env",
		"base64 .env", "curl https://a.evil.test/x",
		"$x push", "eval \"$x\"", "git $x", "bash -c \"$x\"", "f() { git push; }; f", "curl x | sh", "source x", "ls (",
	} {
		if j := p.Command(s, ""); j.Action != contract.ActionDeny || j.Reason == "" {
			t.Errorf("%q is %s", s, j.Action)
		}
	}
	for _, s := range []string{"git status", "git pull", "rm -rf y", "echo push", "curl https://evil.example"} {
		if j := p.Command(s, ""); j.Action != contract.ActionAllow {
			t.Errorf("%q is %s: %s", s, j.Action, j.Reason)
		}
	}
	if p.Write("secret/x", false).Action != contract.ActionDeny || p.Read(".env", false).Action != contract.ActionDeny {
		t.Error("a file tool passed a deny rule")
	}
}

func TestAllowRulesCoverEveryPart(t *testing.T) {
	c := Config{Policy: contract.PolicyReadOnly, Allow: []string{"shell(go test:*)", "shell(touch 'a b')", "edit(out/**)", "net(example.com)"}}
	for script, want := range map[string]contract.Action{
		"go test ./...": contract.ActionAllow, "go test ./... | tail -5": contract.ActionAllow,
		"go test ./... > out/log": contract.ActionAllow, "go test ./... > log": contract.ActionDeny,
		"touch 'a b'": contract.ActionAllow, "touch a b": contract.ActionDeny, "touch 'a b' c": contract.ActionDeny,
		"go test; touch p": contract.ActionDeny, "PATH=. go test": contract.ActionDeny, "go tests": contract.ActionDeny,
		"curl https://example.com/x": contract.ActionAllow, "curl https://example.com https://b.test": contract.ActionDeny, "curl $x": contract.ActionDeny,
	} {
		if j := mustNew(t, c).Command(script, ""); j.Action != want {
			t.Errorf("%q is %s, want %s", script, j.Action, want)
		}
		c := c
		c.Policy = contract.PolicyDenyAll
		if j := mustNew(t, c).Command(script, ""); j.Action != contract.ActionDeny {
			t.Errorf("deny-all lets %q pass", script)
		}
	}
}

func TestContainedAskAsksOnlyForWhatLeavesTheSandbox(t *testing.T) {
	p := mustNew(t, Config{Policy: contract.PolicyAsk, Contained: true})
	for script, want := range map[string]contract.Action{
		"make": contract.ActionAllow, "rm -rf build": contract.ActionAllow, "eval x": contract.ActionAllow,
		"curl https://x.test": contract.ActionAsk, "echo x > /etc/x": contract.ActionAsk, "touch ../x": contract.ActionAsk,
	} {
		if j := p.Command(script, ""); j.Action != want {
			t.Errorf("%q is %s, want %s", script, j.Action, want)
		}
	}
	if p.Command("curl https://x.test", "").Kind != contract.ApproveNetwork || p.Command("touch ../x", "").Kind != contract.ApproveWriteOutside {
		t.Error("the kind does not say what leaves the sandbox")
	}
	if p.Write("a", false).Action != contract.ActionAllow || p.Write("a", true).Action != contract.ActionAsk {
		t.Error("file tools inside are not free, or outside are")
	}
}

func TestFileToolsByPolicy(t *testing.T) {
	for policy, want := range map[contract.Policy][2]contract.Action{ // inside, outside
		contract.PolicyDenyAll: {contract.ActionDeny, contract.ActionDeny}, contract.PolicyReadOnly: {contract.ActionDeny, contract.ActionDeny},
		contract.PolicyAsk: {contract.ActionAsk, contract.ActionAsk}, contract.PolicyEdits: {contract.ActionAllow, contract.ActionAsk},
		contract.PolicyAllowAll: {contract.ActionAllow, contract.ActionAllow},
	} {
		p := mustNew(t, Config{Policy: policy, AllowedPaths: []string{"src/**"}})
		if in, out := p.Write("src/a", false).Action, p.Write("/x", true).Action; in != want[0] || out != want[1] {
			t.Errorf("%s: inside %s, outside %s, want %v", policy, in, out, want)
		}
		if j := p.Write("docs/a", false); j.Action != contract.ActionDeny || !strings.Contains(j.Reason, "allowed paths") {
			t.Errorf("%s: a path outside the allowed ones is %s", policy, j.Action)
		}
	}
}

func TestRuleErrorsNameTheRule(t *testing.T) {
	for _, r := range []string{"git status", "shell()", "shell(a; b)", "shell($x)", "shell(a > b)", "exec(a)", "edit([)", "net(http://x)", "net(*)", "shell(*)", "shell(:*)", "shell(a", "read()"} {
		_, err := New(Config{Policy: contract.PolicyAsk, Deny: []string{r}})
		if !errors.Is(err, &contract.Error{Kind: contract.KindInvalid}) || !strings.Contains(err.Error(), r) || !strings.Contains(err.Error(), "deny") {
			t.Errorf("rule %q gives %v", r, err)
		}
	}
	if _, err := New(Config{Policy: "yes"}); err == nil {
		t.Error("an unknown policy is taken")
	}
}

func TestExplainNamesEveryPart(t *testing.T) {
	parts := mustNew(t, Config{Policy: contract.PolicyAsk}).Explain("ls && touch p > out; curl x", "")
	var got []string
	for _, p := range parts {
		got = append(got, p.Class+" "+p.Text)
		if p.Rule == "" {
			t.Errorf("part %q has no reason", p.Text)
		}
	}
	want := "reads ls, writes touch p, writes > out, network curl x"
	for _, w := range strings.Split(want, ", ") {
		if !strings.Contains(strings.Join(got, ", "), w) {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}

// Adding a deny rule never lets anything pass that did not before.
func TestDenyRulesNeverWiden(t *testing.T) {
	list := corpus(t)
	policies := []contract.Policy{contract.PolicyDenyAll, contract.PolicyReadOnly, contract.PolicyAsk, contract.PolicyEdits, contract.PolicyAllowAll}
	rules := []string{"shell(git:*)", "shell(touch p)", "shell(ls:*)", "edit(**)", "read(a.txt)", "net(x)", "shell(sh -c:*)", "edit(f)", "shell(rm:*)"}
	rank := map[contract.Action]int{contract.ActionDeny: 0, contract.ActionAsk: 1, contract.ActionAllow: 2}
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Policy: rapid.SampledFrom(policies).Draw(t, "policy"), Contained: rapid.Bool().Draw(t, "contained"),
			Allow: rapid.SliceOfN(rapid.SampledFrom(rules), 0, 3).Draw(t, "allow"),
			Deny:  rapid.SliceOfN(rapid.SampledFrom(rules), 0, 3).Draw(t, "deny"),
		}
		script := rapid.SampledFrom(list).Draw(t, "script")[1]
		more := c
		more.Deny = append(append([]string(nil), c.Deny...), rapid.SampledFrom(rules).Draw(t, "more"))
		p, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		q, err := New(more)
		if err != nil {
			t.Fatal(err)
		}
		if rank[q.Command(script, "").Action] > rank[p.Command(script, "").Action] {
			t.Fatalf("%q passes further with %v than with %v", script, more.Deny, c.Deny)
		}
	})
}

// Whatever the script, judging it does not panic, and one that redirects to a file is not read-only.
func FuzzCommand(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add(c[1])
	}
	f.Fuzz(func(t *testing.T, script string) {
		p := mustNew(t, Config{Policy: contract.PolicyReadOnly, Deny: []string{"shell(git push:*)", "edit(x/**)"}})
		j := p.Command(script, "")
		p.Explain(script, "sub")
		if j.ReadOnly && redirectsToFile(script) {
			t.Errorf("%q is read-only and writes a file", script)
		}
		if j.Scope.Pattern != "" {
			if _, err := parseRule(j.Scope.Pattern); err != nil {
				t.Errorf("%q offers a scope that is no rule: %q", script, j.Scope.Pattern)
			}
		}
	})
}

func redirectsToFile(script string) bool {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return false
	}
	found := false
	syntax.Walk(file, func(n syntax.Node) bool {
		r, ok := n.(*syntax.Redirect)
		if !ok {
			return true
		}
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut:
			w := readWord(r.Word)
			found = found || !w.static || !isDevice(w.text)
		}
		return true
	})
	return found
}
