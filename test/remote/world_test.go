// Package remote tests runs in boxes from end to end: the real control plane, the real worker, real
// git, and boxes that are plain child processes.
package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/cli"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/remote/client"
	"github.com/rivumi/rivumi/internal/remote/worker"
	"github.com/rivumi/rivumi/internal/sandbox"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
	"github.com/rivumi/rivumi/internal/workspace"
)

func TestMain(m *testing.M) {
	if handled, code := proc.Main(os.Args); handled {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "worker" || os.Getenv("RIVUMI_TEST_CLI") != "" {
		os.Exit(cli.Main(context.Background(), "test"))
	}
	os.Exit(m.Run())
}

// children is a launcher whose boxes are child processes. They outlive a service, not the test.
type children struct {
	t    *testing.T
	argv []string // instead of the worker

	mu    sync.Mutex
	boxes map[string]*child
}

type child struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	done chan struct{}
	work string
}

func newChildren(t *testing.T) *children {
	c := &children{t: t, boxes: map[string]*child{}}
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for run, b := range c.boxes {
			t.Errorf("the box of %s is left: %s", run, b.out.String())
			_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
			<-b.done
		}
	})
	return c
}

func (c *children) Launch(_ context.Context, s sandbox.LaunchSpec) (sandbox.Box, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := append([]string{self}, s.Argv[1:]...)
	if c.argv != nil {
		argv = c.argv
	}
	b := &child{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), work: c.t.TempDir()}
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = bytes.NewReader(s.Stdin), &b.out, &b.out
	b.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), sandbox.EnvBoxSource + "=" + s.Source, sandbox.EnvBoxChannel + "=" + s.Channel, sandbox.EnvBoxWork + "=" + b.work,
	}, s.Env...)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(b.done)
		_ = b.cmd.Wait()
	}()
	c.mu.Lock()
	c.boxes[s.Run] = b
	c.mu.Unlock()
	return &held{c: c, run: s.Run, b: b}, nil
}

func (c *children) Boxes(context.Context) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var runs []string
	for run := range c.boxes {
		runs = append(runs, run)
	}
	return runs, nil
}

func (c *children) Adopt(_ context.Context, run string) (sandbox.Box, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.boxes[run]
	if b == nil {
		return nil, errors.New("no such box")
	}
	return &held{c: c, run: run, b: b}, nil
}

type held struct {
	c   *children
	run string
	b   *child
}

func (h *held) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-h.b.done:
		return sandbox.Exit{Code: h.b.cmd.ProcessState.ExitCode()}, nil
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	}
}

func (h *held) Tail() string {
	select {
	case <-h.b.done:
		return h.b.out.String()
	default:
		return ""
	}
}

func (h *held) Close(context.Context) error {
	_ = syscall.Kill(-h.b.cmd.Process.Pid, syscall.SIGKILL)
	<-h.b.done
	h.c.mu.Lock()
	delete(h.c.boxes, h.run)
	h.c.mu.Unlock()
	return nil
}

// brain is the model: it answers the n-th request of a run with the n-th turn. It serves as the
// forwarder of a control plane and as a provider of a local run.
type brain struct {
	turns []turn

	mu    sync.Mutex
	n     int
	seen  [][]byte
	gates map[int]chan struct{} // turn that waits for its gate
}

// turn is an answer: a command to run, or last words.
type turn struct{ bash, say string }

func (b *brain) answer(body []byte) []byte {
	b.mu.Lock()
	b.seen = append(b.seen, body)
	i := min(b.n, len(b.turns)-1)
	b.n++
	gate := b.gates[i]
	b.mu.Unlock()
	if gate != nil {
		<-gate
	}
	t := b.turns[i]
	message, why := map[string]any{"role": "assistant", "content": t.say}, "stop"
	if t.bash != "" {
		args := string(contract.MarshalJSON(map[string]string{"command": t.bash}))
		message["tool_calls"] = []any{map[string]any{"id": fmt.Sprintf("call_%d", i), "type": "function", "function": map[string]string{"name": "bash", "arguments": args}}}
		why = "tool_calls"
	}
	return contract.MarshalJSON(map[string]any{
		"id": "x", "object": "chat.completion", "model": "one", "choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": why}},
		"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 5},
	})
}

func (b *brain) Forward(_ context.Context, call control.ForwardModel, w host.Answer) (control.Outcome, error) {
	a := b.answer(call.Body)
	w.Begin(http.StatusOK, map[string]string{"Content-Type": "application/json"})
	_, err := w.Write(a)
	return control.Outcome{CallID: call.CallID, Usage: contract.ModelUsage{Input: 10, Output: 5, Known: true}, Answer: a}, err
}

func (b *brain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b.answer(body))
}

const apiToken = "rvm_the-API-token-of-the-test"

// plane is a control plane with boxes.
type plane struct {
	t    *testing.T
	opt  host.Options
	box  *children
	s    *host.Service
	http *httptest.Server
	addr string
}

func newPlane(t *testing.T, b *brain, box *children) *plane {
	t.Helper()
	boxes := func() *host.Boxes {
		return host.NewBoxes(host.BoxOptions{
			Launcher: box, Argv: []string{"rivumi", "worker", "--as-root"}, Tier: sandbox.TierDocker,
			Model: func(task contract.Task) (worker.Model, error) { return worker.Model{Name: task.Model}, nil },
		})
	}
	profile := contract.Server()
	profile.WholeTree, profile.AnyCheck, profile.AnyModel = true, true, true
	p := &plane{t: t, box: box, opt: host.Options{
		Dir: t.TempDir(), Executor: boxes(), Version: "test", Adopt: true, Forwarder: b, NoSocket: true,
		Core: control.Config{Profile: profile},
	}}
	p.start()
	t.Cleanup(p.stop)
	return p
}

func (p *plane) start() {
	p.t.Helper()
	boxes := *p.opt.Executor.(*host.Boxes)
	p.opt.Executor = &boxes
	s, err := host.Open(context.WithoutCancel(p.t.Context()), p.opt)
	if err != nil {
		p.t.Fatal(err)
	}
	p.s = s
	p.http = httptest.NewServer(s.Handler(func(r *http.Request) (string, error) {
		if r.Header.Get("Authorization") == "Bearer "+apiToken {
			return "somebody", nil
		}
		return "", nil
	}))
	p.addr = p.http.URL
}

func (p *plane) stop() {
	if p.s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), 40*time.Second)
	defer cancel()
	if err := p.s.Close(ctx); err != nil {
		p.t.Error(err)
	}
	p.http.Close()
	p.s = nil
}

func (p *plane) client() *client.Client {
	p.t.Helper()
	c, err := client.New(client.Options{URL: p.addr, Token: apiToken})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// upload packs a checkout and sends it.
func (p *plane) upload(root string) string {
	p.t.Helper()
	repo, err := workspace.Discover(p.t.Context(), root)
	if err != nil {
		p.t.Fatal(err)
	}
	pack, err := repo.Pack(p.t.Context(), workspace.PackOptions{Dir: filepath.Join(p.t.TempDir(), "pack")})
	if err != nil {
		p.t.Fatal(err)
	}
	defer pack.Close()
	id, err := p.client().Upload(p.t.Context(), client.Source{Path: pack.Path, SHA256: pack.SHA256, Bytes: pack.Bytes})
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

func task() contract.Task {
	return contract.Task{
		Instruction: "add a line", Model: "one", AllowedPaths: []string{"**"},
		Limits:   contract.Limits{MaxSteps: 6, WallTimeSeconds: 120},
		Approval: contract.ApprovalPolicy{Policy: contract.PolicyAllowAll, TimeoutSeconds: 60},
	}
}

func finished(t *testing.T, c contract.Runs, id contract.RunID) (contract.Run, []contract.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	var all []contract.Event
	for e, err := range c.Events(ctx, id, 0) {
		if err != nil {
			t.Fatalf("after %d events: %v", len(all), err)
		}
		all = append(all, e)
	}
	run, err := c.Run(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	return run, all
}

func artifact(t *testing.T, c contract.Runs, id contract.RunID, name string) string {
	t.Helper()
	r, err := c.Artifact(t.Context(), id, name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func dump(events []contract.Event) string {
	var b strings.Builder
	for _, e := range events {
		line, _ := e.Encode()
		fmt.Fprintf(&b, "%s\n", line)
	}
	return b.String()
}
