package sandbox_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox"
)

func TestSE01BaseEnvPassesOnOnlyWhatIsAllowed(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-test-000111222333")
	t.Setenv("EDITOR", "vim")
	t.Setenv("PAGER", "less")
	t.Setenv("WANTED", "yes")
	env := sandbox.BaseEnv("/s", []string{"WANTED", "HOME", "UNSET_NAME", "", "A=B"})
	all := strings.Join(env, "\n")
	for _, bad := range []string{"sk-test", "vim", "less", "UNSET_NAME", "A=B"} {
		if strings.Contains(all, bad) {
			t.Errorf("%q is in the environment", bad)
		}
	}
	for _, want := range []string{"WANTED=yes", "HOME=/s/home", "PAGER=cat", "GIT_EDITOR=false", "GIT_TERMINAL_PROMPT=0"} {
		if !slices.Contains(env, want) {
			t.Errorf("%q is missing in %q", want, env)
		}
	}
}

func TestMergeEnvLastOneStands(t *testing.T) {
	got := sandbox.MergeEnv([]string{"A=1", "B=2", "junk", "=x", "N=a\x00b"}, []string{"A=3", "C=4"})
	if want := []string{"A=3", "B=2", "C=4"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
