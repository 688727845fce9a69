package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// How long piped text is waited for when a prompt was given too: the first byte, and then every
// further piece. A writer that is slower than this is not appended; the end of input is never
// waited for.
const (
	pipeFirst = 40 * time.Millisecond
	pipeMore  = 20 * time.Millisecond
	pipeTotal = 500 * time.Millisecond
)

// maxPrompt bounds what is read from stdin, in bytes: every instruction fits.
const maxPrompt = 4*contract.MaxInstructionRunes + 1

// readPrompt joins the words of the command line and stdin into the instruction. Without a prompt
// stdin is the prompt and is read to its end; with one, piped text is appended as a block if it is
// there at once or stdin is a file.
func readPrompt(s *IO, words []string, haveFile bool) (string, error) {
	prompt := strings.TrimSpace(strings.Join(words, " "))
	switch {
	case prompt == "-":
		return readAll(s)
	case prompt == "" && haveFile:
		return "", nil
	case prompt == "" && s.InTTY:
		return "", usagef(`rivumi run "what to do"`, "there is no prompt")
	case prompt == "":
		text, err := readAll(s)
		if err == nil && text == "" {
			err = usagef(`rivumi run "what to do", or pipe it in`, "there is no prompt")
		}
		return text, err
	}
	piped, err := readPiped(s)
	if err != nil || piped == "" {
		return prompt, err
	}
	return prompt + "\n\n<stdin>\n" + piped + "\n</stdin>", nil
}

func readAll(s *IO) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(s.In, maxPrompt+1))
	if err != nil {
		return "", fmt.Errorf("read the prompt from stdin: %w", err)
	}
	return bounded(raw)
}

func bounded(raw []byte) (string, error) {
	if len(raw) > maxPrompt {
		return "", usagef("put it in a file of the repository and name the file", "stdin is longer than an instruction may be (%d characters)", contract.MaxInstructionRunes)
	}
	return strings.TrimSpace(string(bytes.TrimPrefix(raw, []byte("\ufeff")))), nil
}

// readPiped reads what is on stdin beside a prompt.
func readPiped(s *IO) (string, error) {
	if s.InTTY || s.InFile == nil {
		return "", nil
	}
	info, err := s.InFile.Stat()
	if err != nil {
		return "", nil // stdin is closed: there is nothing to append
	}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return readAll(s)
	case mode&(os.ModeNamedPipe|os.ModeSocket) != 0:
		raw := drain(s.InFile)
		return bounded(raw)
	}
	return "", nil
}

// drain reads what a pipe has at once. The deadline works on pipes that the runtime can poll; on
// others poll(2) says whether a read would wait.
func drain(f *os.File) []byte {
	var buf bytes.Buffer
	end := time.Now().Add(pipeTotal)
	wait := pipeFirst
	chunk := make([]byte, 64<<10)
	for buf.Len() <= maxPrompt && time.Now().Before(end) && readable(f, wait) {
		n, err := f.Read(chunk)
		buf.Write(chunk[:n])
		if err != nil || n == 0 {
			break
		}
		wait = pipeMore
	}
	return buf.Bytes()
}
