package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/rivumi/rivumi/internal/contract"
)

// absent is the hash of a file that is not there.
const absent = "absent"

// treePath cleans a path of a file tool. What leaves the tree is refused here, by its name alone;
// links that leave it are refused by [Files].
func (l *loop) treePath(p string, write bool) (string, error) {
	if p == "" || strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
		return "", errors.New("the path must be relative to the root of the repository")
	}
	clean := path.Clean(p)
	if clean == "." || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", errors.New("the path must name a file below the root of the repository")
	}
	if !write {
		return clean, nil
	}
	check := contract.CheckTreePath
	if l.c.StrictPaths {
		check = contract.CheckPath
	}
	if why := check(clean); why != "" {
		return "", fmt.Errorf("the path %s", why)
	}
	return clean, nil
}

func hashBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// hashOf gives the hash of a file of the tree as tool.started records it.
func (l *loop) hashOf(p string) (string, error) {
	clean, err := l.treePath(p, true)
	if err != nil {
		return "", err
	}
	data, _, err := l.c.Files.Read(clean)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent, nil
	case err != nil:
		return "", err
	}
	return hashBytes(data), nil
}

// fileError tells the model what is wrong with a path, without anything of the host.
func fileError(p string, err error) string {
	p = contract.CleanText(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("%s: there is no such file", p)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%s: not permitted, or a link that leaves the repository", p)
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Sprintf("%s: %s", p, contract.CleanText(err.Error()))
}

// read shows a part of a file with line numbers.
func (l *loop) read(ctx context.Context, j *job) (contract.ToolResult, *Result, error) {
	if err := l.start(ctx, j, ""); err != nil {
		return contract.ToolResult{}, nil, err
	}
	began := l.c.Now()
	r := contract.ToolResult{Path: contract.CleanText(j.path)}
	data, _, err := l.c.Files.Read(j.path)
	if err != nil {
		r.Text, r.IsError, r.ExitCode = fileError(j.path, err), true, 1
	} else {
		offset, limit := int(j.args.num["offset"]), int(j.args.num["limit"])
		r.Text = numbered(data, max(1, offset), orZero(limit, defaultLines))
	}
	r.DurationMS = l.c.Now().Sub(began).Milliseconds()
	return r, nil, nil
}

func orZero(n, other int) int {
	if n == 0 {
		return other
	}
	return n
}

// numbered shows up to limit lines from line offset on, within what the model may get.
func numbered(data []byte, offset, limit int) string {
	if bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
		return fmt.Sprintf("[binary file, %d bytes: use bash with xxd or file to look at it]", len(data))
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return "[empty file]"
	}
	if offset > len(lines) {
		return fmt.Sprintf("[the file has %d lines]", len(lines))
	}
	var b strings.Builder
	at := offset
	for ; at <= len(lines) && at < offset+limit && b.Len() < modelBytes; at++ {
		text := strings.TrimSuffix(strings.TrimSuffix(string(lines[at-1]), "\n"), "\r")
		fmt.Fprintf(&b, "%6d\t%s\n", at, cutLine(contract.CleanText(text), lineBytes))
	}
	notes := fileNotes(data)
	if at <= len(lines) || offset > 1 {
		notes = append([]string{fmt.Sprintf("lines %d to %d of %d", offset, at-1, len(lines))}, notes...)
	}
	if len(notes) > 0 {
		b.WriteString("[" + strings.Join(notes, "; ") + "]\n")
	}
	return b.String()
}

// fileNotes says what the numbered lines do not show.
func fileNotes(data []byte) []string {
	var notes []string
	if crlf, lf := bytes.Count(data, []byte("\r\n")), bytes.Count(data, []byte("\n")); crlf > 0 {
		what := "all lines end with CRLF"
		if crlf < lf {
			what = fmt.Sprintf("%d of %d lines end with CRLF", crlf, lf)
		}
		notes = append(notes, what+", edit keeps it")
	}
	if !utf8.Valid(data) {
		notes = append(notes, `bytes that are not UTF-8 are shown as \xNN; edit text without them, they stay as they are`)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		notes = append(notes, "no newline at the end")
	}
	return notes
}
