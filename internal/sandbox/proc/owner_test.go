package proc_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

// ownerEnv makes the test binary an owner that holds a session with a running command, to be killed.
const ownerEnv = "RIVUMI_TEST_OWNER"

// ownerMain opens a session of the named tier in the given tree and runs a script that never ends.
func ownerMain(spec string) int {
	tier, rest, _ := strings.Cut(spec, "|")
	tree, mark, _ := strings.Cut(rest, "|")
	ctx := context.Background()
	s, err := proc.New(proc.Options{Want: sandbox.Tier(tier)}).Open(ctx, sandbox.Spec{Tree: tree, Env: sandbox.BaseEnv(tree, nil)})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = s.Run(ctx, sandbox.Command{Argv: []string{"sh", "-c", "setsid sleep " + mark + " & echo up; trap '' TERM HUP; sleep " + mark + "; sleep " + mark}},
		sandbox.Output{Stdout: os.Stdout})
	fmt.Println(err)
	return 1
}

func TestPlainOwnerKilledLeavesNothing(t *testing.T) { ownerKilled(t, sandbox.TierNone) }

func ownerKilled(t *testing.T, tier sandbox.Tier) {
	mark := "301." + strconv.Itoa(os.Getpid())
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), ownerEnv+"="+string(tier)+"|"+t.TempDir()+"|"+mark)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "up\n" {
		t.Fatalf("owner said %q", line)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left, _ := exec.Command("pgrep", "-f", "sleep "+mark).Output()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still alive: %s", left)
		}
	}
}
