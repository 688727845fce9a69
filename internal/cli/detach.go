package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
)

// order is what a detached process is told on its stdin: nothing of it stands on a command line.
type order struct {
	Task     contract.Task     `json:"task"`
	From     contract.RunID    `json:"from,omitempty"`
	Prompt   string            `json:"prompt,omitempty"`
	Bundle   string            `json:"bundle,omitempty"`
	Keep     bool              `json:"keep,omitempty"`
	Settings map[string]string `json:"settings,omitempty"` // provider settings that flags gave
}

// detach starts this program again in a session of its own, waits until the run is stored there
// and prints its id.
func detach(ctx context.Context, f *Factory, p *planned) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	dir, err := f.StateDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	logPath := filepath.Join(dir, "detached.log")
	log, err := os.OpenFile(logPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	defer log.Close()
	body := contract.MarshalJSON(p.order())
	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, "carry")
	cmd.Args[0] = "rivumi"
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(body)), log
	cmd.Env = append(os.Environ(), "RIVUMI_STATE_DIR="+dir)
	cmd.Dir = string(filepath.Separator)
	ownSession(cmd)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	line, err := bufio.NewReader(io.LimitReader(out, 1<<16)).ReadString('\n')
	if err != nil {
		return errors.Join(fmt.Errorf("the detached run did not start; see %s", logPath), cmd.Wait())
	}
	return detached(f, p, strings.TrimSpace(line), cmd)
}

// detached tells what the child said: the id of the run, or why there is none.
func detached(f *Factory, p *planned, line string, cmd *exec.Cmd) error {
	var rec errorRecord
	if json.Unmarshal([]byte(line), &rec) == nil && rec.Type == "error" {
		return errors.Join(&failure{rec.ExitCode, errors.New(rec.Message), rec.Hint}, ignoreExit(cmd.Wait()))
	}
	id := contract.RunID(line)
	if !id.WellFormed() {
		return fmt.Errorf("the detached run answered %q", clip(line, 80))
	}
	if p.Output == "text" {
		fmt.Fprintln(f.IO.Out, id)
	} else if err := writeJSON(f.IO.Out, map[string]any{"id": id}, p.JQ); err != nil {
		return err
	}
	f.IO.Next("rivumi attach "+id.Short(), "rivumi cancel "+id.Short())
	return cmd.Process.Release()
}

func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

func (p *planned) order() order {
	o := order{Task: p.Task, From: p.From, Prompt: p.Prompt, Bundle: p.Bundle, Keep: p.Keep, Settings: map[string]string{}}
	for _, name := range p.Config.Names() {
		if s := p.Config.Lookup(name); s.Layer == config.Flag && name == "provider_url" {
			o.Settings[name] = config.Text(s.Value)
		}
	}
	return o
}

// newCarryCmd is the entry of a detached process. It reads its order from stdin, prints the id of the
// run and then carries it out without a terminal.
func newCarryCmd(f *Factory) *cobra.Command {
	return &cobra.Command{
		Use: "carry", Short: "Carry out a detached run (internal)", Hidden: true, Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return runCarry(c.Context(), f) },
	}
}

func runCarry(ctx context.Context, f *Factory) error {
	told := false
	say := func(v any) {
		if !told {
			told = true
			fmt.Fprintf(f.IO.Out, "%s\n", v)
		}
	}
	err := carryOrder(ctx, f, func(r contract.Run) { say(r.ID) })
	if err != nil && !told {
		text, hint := describe(err)
		say(contract.MarshalJSON(errorRecord{Type: "error", ExitCode: exitCode(err), Message: oneLine(text), Hint: oneLine(hint)}))
	}
	return err
}

func carryOrder(ctx context.Context, f *Factory, started func(contract.Run)) error {
	raw, err := io.ReadAll(io.LimitReader(f.IO.In, maxTaskFile))
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	var o order
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	f.Globals.NoProjectConfig = true // what counts of it is in the task
	c, err := f.Config()
	if err != nil {
		return err
	}
	for name, text := range o.Settings {
		if err := c.Set(name, text, "--"+name); err != nil {
			return err
		}
	}
	quiet := *f.IO
	quiet.Quiet, quiet.Out = true, io.Discard
	inner := *f
	inner.IO = &quiet
	p := &planned{Task: o.Task, Config: c, Output: "text", From: o.From, Prompt: o.Prompt, Bundle: o.Bundle, Keep: o.Keep}
	return (&carried{f: &inner, p: p, begin: p.start, started: started}).run(ctx)
}
