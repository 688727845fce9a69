package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/rivumi/rivumi/internal/tui"
)

// editing is the person's editor over a draft in a file of its own.
type editing struct {
	*exec.Cmd
	path string
	err  error
}

// editor starts $VISUAL or $EDITOR, else vi, when it is run.
func (s *stage) editor(draft string) tui.Editor {
	e := &editing{}
	file, err := os.CreateTemp("", "rivumi-draft-*.md")
	if err != nil {
		e.err = fmt.Errorf("write the draft: %w", err)
		return e
	}
	e.path = file.Name()
	_, err = file.WriteString(draft)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		e.err = fmt.Errorf("write the draft: %w", err)
		return e
	}
	argv, err := splitCheck(firstOf(s.f.Getenv("VISUAL"), s.f.Getenv("EDITOR"), "vi"))
	if err != nil {
		e.err = fmt.Errorf("start the editor: %w", err)
		return e
	}
	e.Cmd = exec.Command(argv[0], append(argv[1:], e.path)...) //nolint:noctx // it lives as long as the person edits
	return e
}

// Run implements tui.Editor.
func (e *editing) Run() error {
	if e.err != nil {
		return e.err
	}
	return e.Cmd.Run()
}

// SetStdin, SetStdout and SetStderr give the editor the terminal.
func (e *editing) SetStdin(r io.Reader) {
	if e.Cmd != nil {
		e.Stdin = r
	}
}

// SetStdout implements tui.Editor.
func (e *editing) SetStdout(w io.Writer) {
	if e.Cmd != nil {
		e.Stdout = w
	}
}

// SetStderr implements tui.Editor.
func (e *editing) SetStderr(w io.Writer) {
	if e.Cmd != nil {
		e.Stderr = w
	}
}

// Text implements tui.Editor.
func (e *editing) Text() (string, error) {
	if e.path == "" {
		return "", e.err
	}
	raw, err := os.ReadFile(e.path)
	if rerr := os.Remove(e.path); err == nil {
		err = rerr
	}
	if err != nil {
		return "", fmt.Errorf("read the draft: %w", err)
	}
	return string(raw), nil
}
