package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// maxFile bounds a settings file; a larger one is refused.
const maxFile = 1 << 20

// Error is a setting that cannot be used. File and Line are empty where it came from elsewhere.
type Error struct {
	File    string
	Line    int
	Message string
	Hint    string
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.File == "":
		return e.Message
	case e.Line == 0:
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

// file is one settings file as read.
type file struct {
	path   string
	values map[string]any // dotted name to value
	lines  map[string]int
	raw    []byte
}

// readFile reads a settings file strictly. A file that does not exist gives nil and no error.
func readFile(path string, profile string) (*file, error) {
	raw, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return parseFile(path, raw, profile)
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return raw, err
}

func parseFile(path string, raw []byte, profile string) (*file, error) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	var doc map[string]any
	if _, err := toml.Decode(string(raw), &doc); err != nil {
		if p, ok := errors.AsType[toml.ParseError](err); ok {
			return nil, &Error{File: path, Line: p.Position.Line, Message: p.Message}
		}
		return nil, &Error{File: path, Message: err.Error()}
	}
	f := &file{path: path, values: map[string]any{}, lines: keyLines(raw), raw: raw}
	profiles, _ := doc["profiles"].(map[string]any)
	delete(doc, "profiles")
	if err := f.take("", "", doc, f.values); err != nil {
		return nil, err
	}
	return f, f.takeProfiles(profiles, profile)
}

// takeProfiles checks every profile and lays the chosen one over the file's own values.
func (f *file) takeProfiles(profiles map[string]any, chosen string) error {
	names := make([]string, 0, len(profiles))
	for name := range profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at := "profiles." + name
		body, ok := profiles[name].(map[string]any)
		if !ok {
			return f.fail(at, at+" must be a table", "")
		}
		values := map[string]any{}
		if err := f.take(at+".", "", body, values); err != nil {
			return err
		}
		if name != chosen {
			continue
		}
		for k, v := range values {
			f.values[k] = v
			f.lines[k] = f.lines[at+"."+k]
		}
	}
	return nil
}

// take walks a table of the document. prefix is where its keys stand in the file, base their name.
func (f *file) take(prefix, base string, doc map[string]any, into map[string]any) error {
	names := make([]string, 0, len(doc))
	for name := range doc {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return f.lines[prefix+base+a] - f.lines[prefix+base+b] })
	for _, name := range names {
		full := base + name
		if k, ok := Find(full); ok {
			v, err := k.check(doc[name])
			if err != nil {
				return f.fail(prefix+full, err.Error(), "")
			}
			into[full] = v
			continue
		}
		if sub, ok := doc[name].(map[string]any); ok && isTable(full) {
			if err := f.take(prefix, full+".", sub, into); err != nil {
				return err
			}
			continue
		}
		hint := ""
		if near := Nearest(full); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return f.fail(prefix+full, fmt.Sprintf("unknown key %q", full), hint)
	}
	return nil
}

func (f *file) fail(at, message, hint string) error {
	return &Error{File: f.path, Line: f.lines[at], Message: message, Hint: hint}
}

// isTable reports whether name is the start of some key.
func isTable(name string) bool {
	n := strings.Count(name, ".") + 1
	return slices.ContainsFunc(table, func(k Key) bool {
		parts := strings.Split(k.Name, ".")
		return len(parts) > n && matches(strings.Join(parts[:n], "."), name)
	})
}

// keyLines finds the line of every key, since the decoder does not tell. Keys inside inline
// tables and multi-line texts are not found, and then reported without a line.
func keyLines(raw []byte) map[string]int {
	lines := map[string]int{}
	prefix := ""
	for i, line := range strings.Split(string(raw), "\n") {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "["); ok && !strings.Contains(line, "=") {
			head, _, _ = strings.Cut(strings.TrimLeft(head, "["), "]")
			name := bareName(head)
			prefix = name + "."
			mark(lines, name, i+1)
			continue
		}
		name, _, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		mark(lines, prefix+bareName(name), i+1)
	}
	return lines
}

// mark notes the line of a key and of the tables above it.
func mark(lines map[string]int, name string, line int) {
	for {
		if _, ok := lines[name]; !ok {
			lines[name] = line
		}
		i := strings.LastIndex(name, ".")
		if i < 0 {
			return
		}
		name = name[:i]
	}
}

func bareName(s string) string {
	parts := strings.Split(s, ".")
	for i, p := range parts {
		parts[i] = strings.Trim(strings.TrimSpace(p), `"'`)
	}
	return strings.Join(parts, ".")
}
