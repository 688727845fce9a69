package docker_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/docker"
	"github.com/rivumi/rivumi/internal/sandbox/matrix"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

func runMatrix(t *testing.T, o docker.Options) matrix.Table {
	t.Helper()
	table, err := matrix.Run(t.Context(), matrix.Options{Control: proc.New(proc.Options{Want: sandbox.TierNone}), Inside: docker.New(o)})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := table.Write(&text); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	return table
}

// told are the attacks that work in a container, and why that is borne; docs/sandbox.md says so.
var told = map[string]string{
	"signal the supervisor": "pid 1 of the container is the commands' own parent: a command can end its own box, and nothing else",
	"take 4 GiB of memory":  "the row only reserves; the container's limit is on what is touched, which the tests of limits show",
}

// Every attack that works without a container must not in one.
func TestAttacksWorkOutsideAndNotInside(t *testing.T) {
	table := runMatrix(t, options(t))
	shown := 0
	for _, r := range table.Rows {
		switch r.Result {
		case matrix.Worked:
			if told[r.Name] == "" {
				t.Errorf("%s worked inside", r.Name)
			}
		case matrix.Stopped:
			shown++
		case matrix.Unshown:
		}
	}
	if shown < 20 {
		t.Errorf("only %d attacks worked outside", shown)
	}
}

// The engine's part is told apart from ours by running the probe as the box's first process, where
// our own filter is not yet in force.
func TestProfileDeniesWhatItMust(t *testing.T) {
	o := options(t)
	probe := filepath.Join(work, "probe")
	build := exec.Command("go", "build", "-o", probe, "./testdata/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	source := t.TempDir()
	if err := os.Chmod(source, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(probe)
	if err == nil {
		err = os.WriteFile(filepath.Join(source, "probe"), text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	try := func(o docker.Options) map[string]string {
		b := launch(t, o, sandbox.LaunchSpec{Run: t.Name(), Source: source, Argv: []string{sandbox.BoxSource + "/probe"}})
		if e := wait(t, b); e.Code != 0 {
			t.Fatalf("%+v %s", e, b.Tail())
		}
		got := make(map[string]string)
		if err := json.Unmarshal([]byte(b.Tail()), &got); err != nil {
			t.Fatalf("%v: %s", err, b.Tail())
		}
		return got
	}
	ours, open := try(o), try(docker.WithProfile(o, []byte(`{"defaultAction":"SCMP_ACT_ALLOW"}`)))
	for name, want := range map[string]string{
		"io_uring_setup": "operation not permitted", "vsock": "operation not permitted", "netlink": "operation not permitted", "userfaultfd": "operation not permitted",
		"keyctl": "operation not permitted", "bpf": "operation not permitted", "ptrace": "operation not permitted", "mount": "operation not permitted",
		"unshare": "operation not permitted", "clone namespace": "operation not permitted", "clone3": "function not implemented", "setns": "operation not permitted",
		"open_by_handle_at": "operation not permitted", "process_vm_readv": "operation not permitted", "pidfd_getfd": "operation not permitted",
		"perf_event_open": "operation not permitted", "chroot": "operation not permitted", "TIOCSTI": "operation not permitted",
		"TIOCSTI with a high bit": "operation not permitted", "TIOCLINUX": "operation not permitted", "personality": "operation not permitted",
		"packet socket": "operation not permitted", "add_key": "operation not permitted", "other ioctl": "inappropriate ioctl for device",
		"unix socket": "", "internet socket": "", "memfd_create": "", "landlock": "",
	} {
		if got, ok := ours[name]; !ok || got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// Without the profile the kernel itself answers, and lets some through.
	for _, name := range []string{"io_uring_setup", "netlink", "userfaultfd", "keyctl", "unshare", "clone namespace", "personality", "add_key"} {
		if open[name] != "" {
			t.Logf("%s shows nothing on this machine: %s", name, open[name])
		}
	}
	if open["io_uring_setup"] != "" && open["netlink"] != "" && open["unshare"] != "" {
		t.Errorf("the probe shows nothing without a profile: %v", open)
	}
}

func TestProfileIsDefaultDeny(t *testing.T) {
	var p struct {
		DefaultAction string
		Architectures []string
		Syscalls      []struct {
			Names  []string
			Action string
		}
	}
	if err := json.Unmarshal(docker.Profile(), &p); err != nil {
		t.Fatal(err)
	}
	if p.DefaultAction != "SCMP_ACT_ERRNO" || len(p.Architectures) != 1 {
		t.Errorf("%s %v", p.DefaultAction, p.Architectures)
	}
	never := []string{
		"io_uring_setup", "userfaultfd", "keyctl", "bpf", "ptrace", "mount", "unshare", "setns", "clone3", "process_vm_writev", "pidfd_getfd",
		"open_tree", "move_mount", "fsopen", "pivot_root", "chroot", "kexec_load", "init_module", "perf_event_open", "name_to_handle_at", "mknod",
	}
	for _, r := range p.Syscalls {
		for _, n := range r.Names {
			if r.Action == "SCMP_ACT_ALLOW" && slices.Contains(never, n) {
				t.Errorf("%s is let through", n)
			}
		}
	}
}
