package cli_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/remote/client"
)

// A control plane started from the command line takes a run with its first token, carries it out,
// and ends on a signal. The provider's key is in no event and no artifact (SE-01).
func TestSE01ServeCarriesARunOutWithoutShowingItsKey(t *testing.T) {
	const key = "sk-test-000111222333"
	n := 0
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			t.Errorf("the provider got %q", r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "application/json")
		if n++; n == 1 {
			_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"env; echo more >> a.txt\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	defer provider.Close()
	home := t.TempDir()
	settings := "[serve]\n[serve.models.m]\nurl = \"" + provider.URL + "/v1\"\nkey_env = \"THE_KEY\"\n"
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "rivumi")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../../cmd/rivumi").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.Command(bin, "serve", "--sandbox", "none", "--i-know", "--listen", "127.0.0.1:0", "--admin", "off")
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "RIVUMI_CONFIG=" + filepath.Join(home, "config.toml"), "RIVUMI_STATE_DIR=" + filepath.Join(home, "state"), "THE_KEY=" + key}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url, token := said(t, out)
	c, err := client.New(client.Options{URL: url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	text := "a\n"
	run, err := c.Start(t.Context(), contract.Task{
		Instruction: "add a line", Model: "m", Files: []contract.File{{Path: "a.txt", Content: &text}}, AllowedPaths: []string{"a.txt"},
		Limits: contract.Limits{MaxSteps: 5, WallTimeSeconds: 60}, Approval: contract.ApprovalPolicy{Policy: contract.PolicyAllowAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for e, err := range c.Events(ctx, run.ID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Data), key) {
			t.Errorf("event %d shows the key", e.Seq)
		}
	}
	if run, err = c.Run(t.Context(), run.ID); err != nil || run.Status != contract.Completed || len(run.Result.ChangedFiles) != 1 {
		t.Errorf("%s %+v %+v, %v", run.Status, run.Result, run.Error, err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("after the signal: %v", err)
	}
}

// said reads what serve prints until it has named address and token.
func said(t *testing.T, out io.Reader) (url, token string) {
	t.Helper()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if u := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text()); u != "" && url == "" {
			url = u
		}
		if token = regexp.MustCompile(`rvm_[0-9a-f]{72}`).FindString(lines.Text()); token != "" {
			return url, token
		}
	}
	t.Fatal("serve named no token")
	return "", ""
}
