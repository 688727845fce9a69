package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// plan is a change of one file, worked out and not made.
type plan struct {
	path   string
	hash   string // of the file before, or absent
	after  []byte
	diff   string
	note   string // for the model, beside the diff
	err    error  // why it cannot be made, in words for the model
	ranFor string
}

// result is what a change that cannot be made answers.
func (p plan) result() *contract.ToolResult {
	return &contract.ToolResult{Text: p.err.Error(), IsError: true, ExitCode: 1, Path: contract.CleanText(p.path)}
}

// plan works out what an edit or write would do to the file as it is now.
func (l *loop) plan(j *job) plan {
	p := plan{path: j.path, hash: absent, ranFor: j.tool.name}
	before, _, err := l.c.Files.Read(j.path)
	switch {
	case err == nil:
		p.hash = hashBytes(before)
	case errors.Is(err, fs.ErrNotExist) && j.tool.name == toolWrite:
	default:
		p.err = errors.New(fileError(j.path, err))
		return p
	}
	if j.tool.name == toolWrite {
		p.after, p.note = rewritten(before, []byte(j.args.text["content"]))
	} else {
		p.after, p.note, p.err = replaced(before, j.args.text["old"], j.args.text["new"], j.args.flags["replace_all"])
		if p.err != nil {
			p.err = fmt.Errorf("%s: %w", contract.CleanText(j.path), p.err)
			return p
		}
	}
	if p.hash != absent && bytes.Equal(before, p.after) {
		p.note = "the file was like this already; nothing changed"
	}
	p.diff = clip(contract.CleanText(unifiedDiff(j.path, before, p.after, p.hash == absent)), eventBounds(diffBytes))
	return p
}

// rewritten is the content of a whole file. A file whose lines all end with CRLF keeps them when the
// model wrote LF, so that lines it did not mean to change stay as they are.
func rewritten(before, content []byte) ([]byte, string) {
	lf := bytes.Count(before, []byte("\n"))
	if lf > 0 && bytes.Count(before, []byte("\r\n")) == lf && !bytes.Contains(content, []byte("\r")) {
		return bytes.ReplaceAll(content, []byte("\n"), []byte("\r\n")), "kept the CRLF line ends of the file"
	}
	return content, ""
}

// change makes a planned change.
func (l *loop) change(ctx context.Context, j *job, p plan) (contract.ToolResult, *Result, error) {
	if p.err != nil {
		return *p.result(), nil, nil
	}
	if err := l.start(ctx, j, p.hash); err != nil {
		return contract.ToolResult{}, nil, err
	}
	began := l.c.Now()
	r := contract.ToolResult{Path: contract.CleanText(j.path), Diff: p.diff}
	if err := l.c.Files.Write(j.path, p.after); err != nil {
		r.Text, r.IsError, r.ExitCode, r.Diff = fileError(j.path, err), true, 1, ""
	} else {
		r.Text = p.told()
	}
	r.DurationMS = l.c.Now().Sub(began).Milliseconds()
	return r, nil, nil
}

// told is what the model hears of a change that was made: an edit with its diff, a written file
// without, as the model has just sent all of it.
func (p plan) told() string {
	var b strings.Builder
	switch {
	case p.ranFor == toolEdit:
		b.WriteString("edited " + contract.CleanText(p.path))
	case p.hash == absent:
		fmt.Fprintf(&b, "created %s, %d bytes", contract.CleanText(p.path), len(p.after))
	default:
		fmt.Fprintf(&b, "replaced %s, %d bytes", contract.CleanText(p.path), len(p.after))
	}
	if p.note != "" {
		b.WriteString("; " + p.note)
	}
	b.WriteByte('\n')
	if p.ranFor == toolEdit {
		b.WriteString(clip(p.diff, eventBounds(4<<10)))
	}
	return b.String()
}
