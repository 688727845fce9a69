package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// IO is the streams of one call of the program. Terminal or not is a field, so that a test can say so.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	InFile   *os.File // stdin as a file, nil in tests that give a reader

	InTTY, OutTTY, ErrTTY bool
	Color                 bool // escape sequences may be written to Err and Out where they are terminals
	Quiet                 bool // no progress on Err; errors and results stay
}

// SystemIO takes the process's own streams. Colour follows NO_COLOR, CLICOLOR_FORCE, CI and TERM.
func SystemIO(getenv func(string) string) *IO {
	s := &IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, InFile: os.Stdin}
	s.InTTY = term.IsTerminal(int(os.Stdin.Fd()))
	s.OutTTY = term.IsTerminal(int(os.Stdout.Fd()))
	s.ErrTTY = term.IsTerminal(int(os.Stderr.Fd()))
	s.setColor("auto", getenv)
	return s
}

// TestIO gives streams in memory; nothing is a terminal.
func TestIO() (s *IO, out, errOut *bytes.Buffer) {
	out, errOut = &bytes.Buffer{}, &bytes.Buffer{}
	return &IO{In: strings.NewReader(""), Out: out, Err: errOut}, out, errOut
}

// setColor resolves the colour setting.
func (s *IO) setColor(mode string, getenv func(string) string) {
	switch mode {
	case "always":
		s.Color = true
	case "never":
		s.Color = false
	default:
		plain := getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" || getenv("CI") != ""
		s.Color = !plain && s.ErrTTY
		if getenv("CLICOLOR_FORCE") != "" && getenv("CLICOLOR_FORCE") != "0" && getenv("NO_COLOR") == "" {
			s.Color = true
		}
	}
}

// Asks reports whether a person can be asked: both ends are a terminal.
func (s *IO) Asks() bool { return s.InTTY && s.ErrTTY }

// Note writes a line of progress for people.
func (s *IO) Note(format string, args ...any) {
	if !s.Quiet {
		fmt.Fprintf(s.Err, "rivumi: "+format+"\n", args...)
	}
}

// Warn writes a warning for people; --quiet does not silence it.
func (s *IO) Warn(format string, args ...any) {
	fmt.Fprintf(s.Err, "rivumi: warning: "+format+"\n", args...)
}

// Next names the commands that go on from here.
func (s *IO) Next(commands ...string) {
	if !s.Quiet && len(commands) > 0 {
		fmt.Fprintf(s.Err, "rivumi: next: %s\n", strings.Join(commands, " · "))
	}
}

// Dim and the functions below wrap text in one style, or leave it alone without colour.
func (s *IO) Dim(t string) string { return s.style("2", t) }

// Bold is for what asks for the person.
func (s *IO) Bold(t string) string { return s.style("1", t) }

// Good is for what passed.
func (s *IO) Good(t string) string { return s.style("32", t) }

// Bad is for what failed.
func (s *IO) Bad(t string) string { return s.style("31", t) }

func (s *IO) style(code, t string) string {
	if !s.Color || t == "" {
		return t
	}
	return "\x1b[" + code + "m" + t + "\x1b[0m"
}
