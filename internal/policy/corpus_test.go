package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
)

// corpus reads testdata/corpus.txt: a class, a tab and a script in which \n stands for a line feed.
func corpus(t testing.TB) [][2]string {
	t.Helper()
	data, err := os.ReadFile("testdata/corpus.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out [][2]string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		class, script, ok := strings.Cut(line, "\t")
		if !ok {
			t.Fatalf("corpus line %q has no tab", line)
		}
		out = append(out, [2]string{class, strings.ReplaceAll(script, `\n`, "\n")})
	}
	return out
}

func TestCorpusHasTheClassItShould(t *testing.T) {
	list := corpus(t)
	if len(list) < 150 {
		t.Errorf("the corpus has %d commands, want at least 150", len(list))
	}
	for _, c := range list {
		a := analyze(c[1], "")
		if got := worst(a.parts).String(); got != c[0] {
			t.Errorf("%q is %s, want %s: %+v", c[1], got, c[0], (&Policy{}).Explain(c[1], ""))
		}
	}
}

func mustNew(t testing.TB, c Config) *Policy {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every script of the corpus that does not only read is denied by the strict policies and asked for
// by the others, without a sandbox.
func TestPoliciesOverTheCorpus(t *testing.T) {
	for _, c := range corpus(t) {
		for policy, other := range map[contract.Policy]contract.Action{
			contract.PolicyDenyAll: contract.ActionDeny, contract.PolicyReadOnly: contract.ActionDeny,
			contract.PolicyAsk: contract.ActionAsk, contract.PolicyEdits: contract.ActionAsk, contract.PolicyAllowAll: contract.ActionAllow,
		} {
			want := other
			if c[0] == "reads" {
				want = contract.ActionAllow
			}
			if j := mustNew(t, Config{Policy: policy}).Command(c[1], ""); j.Action != want || j.ReadOnly != (c[0] == "reads") {
				t.Errorf("%s: %q is %s (read-only %t), want %s", policy, c[1], j.Action, j.ReadOnly, want)
			}
		}
	}
}
