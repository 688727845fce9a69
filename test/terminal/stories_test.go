package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/testkit/gitrepo"
)

const fixing = `
turns:
  - text: "I run the **test** first."
    calls: [{name: bash, arguments: {command: "sh test.sh"}}]
    usage: {input: 900, output: 30}
  - text: "It subtracts."
    calls: [{name: edit, arguments: {path: add.sh, old: "$1 - $2", new: "$1 + $2"}}]
    usage: {input: 70, output: 40, cacheRead: 1030}
  - text: "It adds now."
    usage: {input: 60, output: 30, cacheRead: 1220}
`

const silent = `
turns:
  - text: "Let me think."
    hang: true
`

func (p *pane) run(model, more string) {
	p.t.Helper()
	p.shell("clear; rivumi run 'fix the test' --sandbox none -m " + p.script(model) + " " + more)
}

func TestRunApproveReviewApply(t *testing.T) {
	p := open(t, "100", "30")
	before := gitrepo.Snapshot(t, p.repo.Root)
	p.run(fixing, "--check 'sh test.sh' --approve ask")
	p.shows("I run the test first.", "wants to run", "sh test.sh", "[a] once")
	settled()
	p.keys("a")
	p.shows("wants to change add.sh", "+echo $(($1 + $2))", "edit(add.sh)")
	settled()
	p.keys("s")
	p.shows("completed, verified", "M add.sh", "[a] apply")
	before.Same(t) // nothing touches the checkout before the apply
	p.keys("a")
	p.shows("applied 1 file")
	p.keys("q")
	p.shows("rivumi: completed, verified: 1 file changed", "rivumi: next: rivumi diff")
	p.prompt()
	p.shell("clear; sh add.sh 2 3")
	p.until("the applied program adds", func() bool { return strings.HasPrefix(p.screen(), "5\n") })
}

// Keys at typing speed while a question comes up, in a real terminal.
func TestAP01KeysUnderWayDecideNothing(t *testing.T) {
	p := open(t, "100", "30")
	p.run(strings.Replace(fixing, "turns:\n  - text", "turns:\n  - delayMs: 1500\n    text", 1), "--approve ask")
	p.shows("waiting for the model")
	for end := time.Now().Add(patience); !strings.Contains(p.screen(), "wants to run"); {
		if time.Now().After(end) {
			t.Fatal("no question")
		}
		p.write("as1d ")
	}
	p.write("dax")
	p.shows("wants to run", "dax", "[tab] answer", "waiting for your approval")
	p.keys("C-c")
	p.shows("✗ cancelled", "dax")
	p.keys("C-c")
	p.shows("your draft was not sent", "dax", "rivumi: cancelled")
}

// The stop key while the model is silent: an answer at once, an end with the work kept; twice leaves.
func TestCX03CancelAndLeave(t *testing.T) {
	p := open(t, "100", "30")
	p.run(silent, "")
	p.shows("Let me think.")
	p.keys("C-c")
	p.shows("✗ cancelled")
	p.keys("C-c")
	p.shows("rivumi: cancelled")
	p.prompt()
	p.shell("echo code=$?")
	p.shows("code=130")
	p.run("turns:\n  - calls: [{name: bash, arguments: {command: \"trap '' TERM INT; sleep 30\"}}]\n", "--approve all")
	p.shows("running")
	p.keys("C-c")
	p.keys("C-c")
	p.shows("left at once", "rivumi resume")
	p.prompt()
}

// The screen can be lost at any time: a detached run goes on, and the question is there for the next one.
func TestAP05AttachAfterTheScreenWasKilled(t *testing.T) {
	p := open(t, "100", "30")
	p.run(fixing, "--check 'sh test.sh' --approve ask --on-no-answer wait -d")
	p.shows("run_")
	p.shell("clear; rivumi attach @last")
	p.shows("sh test.sh", "[a] once")
	p.killProgram("attach")
	p.prompt()
	p.keys("-l", "stty sane; clear")
	p.keys("C-j") // nothing turns Enter into a line feed now
	p.hides("Killed")
	p.shell("rivumi attach @last")
	p.shows("fix the test", "sh test.sh", "[a] once")
	p.keys("q")
	p.shows("left; run", "goes on", "rivumi attach")
	p.shell("clear; rivumi attach @last")
	p.shows("[a] once")
	settled()
	p.keys("a")
	p.shows("wants to change add.sh")
	settled()
	p.keys("a")
	p.shows("completed, verified")
	p.keys("q")
	p.shows("rivumi: completed, verified")
	p.shell("clear; rivumi attach @last")
	p.shows("completed, verified", "M add.sh")
	p.keys("Escape")
	p.shows("fix the test", "exit 1")
	p.hides("[a] once")
}

// prompt waits until the shell has the terminal again.
func (p *pane) prompt() {
	p.t.Helper()
	p.until("the shell is back", func() bool { return strings.HasSuffix(strings.TrimSpace(p.screen()), "$") })
}

// killProgram kills the program that runs in the pane, as a crash would.
func (p *pane) killProgram(word string) {
	p.t.Helper()
	shell := strings.TrimSpace(p.tmux("display-message", "-p", "#{pane_pid}"))
	out, err := exec.Command("pgrep", "-P", shell, "-f", word).Output()
	if err != nil {
		p.t.Fatalf("find the program: %v", err)
	}
	for pid := range strings.FieldsSeq(string(out)) {
		if err := exec.Command("kill", "-9", pid).Run(); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *pane) signal(name string) {
	p.t.Helper()
	shell := strings.TrimSpace(p.tmux("display-message", "-p", "#{pane_pid}"))
	if out, err := exec.Command("pkill", "-"+name, "-P", shell).CombinedOutput(); err != nil {
		p.t.Fatalf("signal %s: %v: %s", name, err, out)
	}
}

// Whatever ends the screen, the terminal is as before.
func TestTU04TheTerminalIsRestored(t *testing.T) {
	p := open(t, "100", "30")
	want, modes := p.stty("before"), p.modes()
	ends := map[string]func(){
		"TERM": func() { p.signal("TERM") },
		"HUP":  func() { p.signal("HUP") },
		"INT":  func() { p.signal("INT"); p.shows("✗ cancelled"); p.keys("C-c") },
		"keys": func() { p.keys("C-c"); p.shows("✗ cancelled"); p.keys("C-c") },
	}
	for name, end := range ends {
		p.run(silent, "")
		p.shows("Let me think.", "waiting for the model")
		end()
		p.shows("rivumi: cancelled", "rivumi: next:")
		p.prompt()
		if got := p.stty(name); got != want {
			t.Errorf("%s: the terminal is set to %s, was %s", name, got, want)
		}
		if got := p.modes(); got != modes {
			t.Errorf("%s: modes %q, were %q", name, got, modes)
		}
		p.shell("clear")
	}
}

// Suspended, the shell has its terminal; resumed, the screen is drawn anew.
func TestSuspendAndResume(t *testing.T) {
	p := open(t, "100", "30")
	want := p.stty("before")
	p.shell("set -m; clear")
	p.run(silent, "")
	p.shows("Let me think.")
	p.keys("C-z")
	p.hides("Let me think.")
	if got := p.stty("suspended"); got != want {
		t.Errorf("while suspended the terminal is set to %s, was %s", got, want)
	}
	p.shell("fg")
	p.shows("Let me think.", "waiting for the model")
	p.keys("C-c")
	p.shows("✗ cancelled")
	p.keys("C-c")
	p.shows("rivumi: cancelled")
}

// Sizes change under a stream: no stale rows, no panic, and keys still work.
func TestTU05ResizeWhileStreaming(t *testing.T) {
	p := open(t, "80", "24")
	var long strings.Builder
	for i := range 120 {
		fmt.Fprintf(&long, "line %d of the answer is here. ", i)
	}
	p.run("turns:\n  - text: \""+long.String()+"\"\n    chunkMs: 20\n  - text: done\n", "")
	p.shows("line 3 of the answer")
	for _, size := range [][2]string{{"80", "24"}, {"20", "5"}, {"2", "2"}, {"200", "60"}, {"40", "10"}, {"90", "25"}} {
		p.tmux("resize-window", "-x", size[0], "-y", size[1])
		time.Sleep(120 * time.Millisecond)
	}
	p.shows("line 119 of the answer", "completed")
	screen := p.screen()
	if n := strings.Count(screen, "rivumi ·"); n != 1 {
		t.Errorf("%d headers on the screen", n)
	}
	if regexp.MustCompile(`panic|goroutine`).MatchString(screen) {
		t.Error("the screen broke down")
	}
}

// What is written in a pipe, with TERM=dumb, NO_COLOR or --accessible has no escape bytes.
func TestTU01PlainWhereNoScreenCanBe(t *testing.T) {
	p := open(t, "100", "30")
	model := p.script(fixing)
	for i, line := range []string{
		"rivumi run x -s none --approve all -m %s 2>&1 | cat > %s",
		"TERM=dumb rivumi run x -s none --approve all -m %s > %s 2>&1",
		"rivumi run x -s none --approve all -m %s </dev/null > %s 2>&1",
		"NO_COLOR=1 rivumi run x -s none --approve all -m %s -p > %s 2>&1",
	} {
		file := filepath.Join(p.state, fmt.Sprint("out", i))
		p.shell("clear; " + fmt.Sprintf(line, model, file) + fmt.Sprintf("; echo done-$((40+%d))", i))
		p.shows(fmt.Sprint("done-", 40+i))
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), "completed") || strings.ContainsRune(string(raw), 0x1b) {
			t.Errorf("%s wrote %q", line, raw)
		}
	}
	for i, line := range []string{"rivumi --accessible run x -s none --approve all -m ", "TERM=dumb rivumi run x -s none --approve all -m ", "CI=1 rivumi run x -s none --approve all -m "} {
		p.shell("clear; " + line + model + fmt.Sprintf("; echo done-$((60+%d))", i))
		p.shows(fmt.Sprint("done-", 60+i), "rivumi: completed")
		if p.modes()[0] != '0' {
			t.Errorf("%s drew a screen", line)
		}
	}
}

// NO_COLOR draws the same screen without colours; signs carry what colours would.
func TestNoColor(t *testing.T) {
	p := open(t, "100", "30")
	p.shell("export NO_COLOR=1; clear")
	p.run(fixing, "--check 'sh test.sh' --approve all")
	p.shows("✓ completed, verified", "M add.sh")
	if m := regexp.MustCompile(`\x1b\[[0-9;]*(3[0-7]|38|9[0-7])[0-9;]*m`).FindString(p.styled()); m != "" {
		t.Errorf("a colour is drawn: %q", m)
	}
}

// The list of runs opens one and goes back; the normal screen keeps what was there before.
func TestTheListOfRuns(t *testing.T) {
	p := open(t, "100", "30")
	p.run(fixing, "--approve all -p")
	p.shows("rivumi: completed")
	p.shell("clear; echo before-$((1+1)); rivumi ps")
	p.shows("runs", "completed", "fix the test", "enter open")
	p.keys("/")
	p.write("nothing like it")
	p.shows("no runs")
	p.keys("Escape")
	p.shows("fix the test")
	p.keys("Enter")
	p.shows("none was asked: nothing is verified", "M add.sh")
	p.keys("q")
	p.shows("enter open")
	p.keys("q")
	p.shows("before-2", "rivumi: next: rivumi show")
}

// Without a prompt the first message is the task.
func TestTheFirstMessageStartsARun(t *testing.T) {
	p := open(t, "100", "30")
	p.shell("clear; RIVUMI_MODEL=" + p.script(fixing) + " rivumi --set approve=all --set sandbox=none")
	p.shows("what should be done in this repository?")
	p.write("fix @ad")
	p.shows("add.sh")
	p.keys("Tab")
	p.shows("fix @add.sh")
	p.keys("Enter")
	p.shows("completed", "M add.sh")
}
