// Package terminal drives the whole program in a real terminal multiplexer, with real keys: what is
// on the screen is what a person would see. It needs tmux and is skipped without it.
package terminal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/cli"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
)

const asProgram = "TEST_AS_RIVUMI"

func TestMain(m *testing.M) {
	if handled, code := proc.Main(os.Args); handled {
		os.Exit(code)
	}
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(context.Background(), "test"))
	}
	os.Exit(m.Run())
}

const patience = 40 * time.Second

// pane is a shell in a terminal of its own server.
type pane struct {
	t      *testing.T
	server string
	repo   *gitrepo.Repo
	state  string
}

var files = gitrepo.Files{
	"add.sh":  "#!/bin/sh\necho $(($1 - $2))\n",
	"test.sh": "[ \"$(sh add.sh 2 3)\" = 5 ] && echo ok || { echo FAIL; exit 1; }\n",
}

// open starts a shell of the given size in a repository, with the program on its path.
func open(t *testing.T, width, height string) *pane {
	t.Helper()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(t.Name() + t.TempDir()))
	p := &pane{t: t, server: "rivumi-test-" + hex.EncodeToString(sum[:6]), repo: gitrepo.New(t, files), state: t.TempDir()}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "rivumi")); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"-i", "PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "RIVUMI_STATE_DIR=" + p.state, "LC_ALL=C.UTF-8",
		"TERM=screen-256color", "PS1=$ ", asProgram + "=1", "EDITOR=true", "GIT_CONFIG_NOSYSTEM=1",
	}
	args := append([]string{"-L", p.server, "-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-c", p.repo.Root, "env"}, append(env, "sh")...)
	if out, err := exec.Command(tmux, args...).CombinedOutput(); err != nil {
		t.Skipf("tmux does not start here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen at the end:\n%s", p.screen())
		}
		_ = exec.Command(tmux, "-L", p.server, "kill-server").Run()
	})
	p.shows("$")
	return p
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", p.server}, args...)...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		p.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (p *pane) screen() string { return p.tmux("capture-pane", "-p") }

// styled is the screen with its styles.
func (p *pane) styled() string { return p.tmux("capture-pane", "-p", "-e") }

func (p *pane) until(what string, done func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func (p *pane) shows(texts ...string) {
	p.t.Helper()
	for _, s := range texts {
		p.until("the screen shows "+s, func() bool { return strings.Contains(p.screen(), s) })
	}
}

func (p *pane) hides(s string) {
	p.t.Helper()
	p.until("the screen does not show "+s, func() bool { return !strings.Contains(p.screen(), s) })
}

// keys presses keys by their names of tmux.
func (p *pane) keys(names ...string) {
	p.t.Helper()
	p.tmux(append([]string{"send-keys"}, names...)...)
}

// write types text, each key for itself.
func (p *pane) write(text string) {
	p.t.Helper()
	for _, r := range text {
		p.tmux("send-keys", "-l", string(r))
	}
}

// shell runs a line in the shell.
func (p *pane) shell(line string) {
	p.t.Helper()
	p.tmux("send-keys", "-l", line)
	p.tmux("send-keys", "Enter")
}

// settled waits until keys are decisions again.
func settled() { time.Sleep(450 * time.Millisecond) }

// script writes a script of the model and gives its name.
func (p *pane) script(yaml string) string {
	p.t.Helper()
	name := filepath.Join(p.t.TempDir(), "model.yaml")
	if err := os.WriteFile(name, []byte(yaml), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return "script:" + name
}

// stty is how the terminal is set.
func (p *pane) stty(name string) string {
	p.t.Helper()
	file := filepath.Join(p.state, name)
	p.shell("stty -g > " + file + "; echo stty-$((1+1)) " + name)
	p.shows("stty-2 " + name)
	raw, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(raw)
}

// modes are what tmux says of the pane: alternate screen, mouse, cursor, paste.
func (p *pane) modes() string {
	p.t.Helper()
	return strings.TrimSpace(p.tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{mouse_button_flag} #{cursor_flag} #{keypad_cursor_flag}"))
}
