package story

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// noEscape FILE... fails when a file, or stdout or stderr of the last command, holds an escape byte.
func noEscape(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: noescape FILE...")
	}
	for _, name := range args {
		if text := ts.ReadFile(name); strings.Contains(text, "\x1b") || strings.Contains(text, "\xc2\x9b") {
			ts.Fatalf("%s holds an escape byte", name)
		}
	}
}

// jsonLines FILE [KEY=VALUE] wants every line to be one JSON object, and the last one to have the
// value, written as JSON, at a dotted key.
func jsonLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: jsonlines FILE [KEY=VALUE]")
	}
	var last map[string]any
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		last = nil
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			ts.Fatalf("not a JSON object: %q: %v", line, err)
		}
	}
	if len(args) == 1 {
		return
	}
	key, want, _ := strings.Cut(args[1], "=")
	var at any = last
	for part := range strings.SplitSeq(key, ".") {
		m, _ := at.(map[string]any)
		at = m[part]
	}
	got, err := json.Marshal(at)
	ts.Check(err)
	if !bytes.Equal(got, []byte(want)) {
		ts.Fatalf("%s is %s, want %s", key, got, want)
	}
}
