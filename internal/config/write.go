package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// WriteUser sets one key in the user's file, keeping every other line as it is. An unset text
// ("") removes the key. The result is read back strictly before it replaces the file.
func WriteUser(path, name, text string) error {
	k, ok := Find(name)
	if !ok {
		hint := ""
		if near := Nearest(name); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return &Error{Message: fmt.Sprintf("unknown key %q", name), Hint: hint}
	}
	line := ""
	if text != "" {
		v, err := k.Parse(text)
		if err != nil {
			return &Error{Message: err.Error()}
		}
		line = tomlLine(name, v)
	}
	raw, err := readBounded(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read config: %w", err)
	}
	next := []byte(editLine(string(raw), name, line))
	if _, err := parseFile(path, next, ""); err != nil {
		return err
	}
	return replaceFile(path, next)
}

// tomlLine writes a key and its value; dotted names stay dotted, so no table header is needed.
func tomlLine(name string, v any) string {
	text := Text(v)
	if s, ok := v.(string); ok {
		text = strconv.Quote(s)
	}
	last := name[strings.LastIndex(name, ".")+1:]
	return last + " = " + text
}

// editLine replaces, adds or removes (line "") the line of a key.
func editLine(doc, name, line string) string {
	tableName := ""
	if i := strings.LastIndex(name, "."); i >= 0 {
		tableName = name[:i]
	}
	lines := strings.Split(strings.TrimSuffix(doc, "\n"), "\n")
	if doc == "" {
		lines = nil
	}
	if at := keyLines([]byte(doc))[name]; at > 0 {
		indent := lines[at-1][:len(lines[at-1])-len(strings.TrimLeft(lines[at-1], " \t"))]
		if line == "" {
			lines = append(lines[:at-1], lines[at:]...)
		} else if head := strings.TrimSpace(lines[at-1]); strings.HasPrefix(head, tableName+".") && tableName != "" {
			lines[at-1] = indent + tableName + "." + line
		} else {
			lines[at-1] = indent + line
		}
		return strings.Join(lines, "\n") + "\n"
	}
	if line == "" {
		return doc
	}
	return strings.Join(insertKey(lines, tableName, line), "\n") + "\n"
}

// insertKey puts a new key under its table's header, or before the first header when it has none.
func insertKey(lines []string, tableName, line string) []string {
	first := len(lines)
	for i, l := range lines {
		l = strings.TrimSpace(l)
		if !strings.HasPrefix(l, "[") {
			continue
		}
		first = min(first, i)
		if tableName != "" && bareName(strings.Trim(l, "[]")) == tableName {
			return splice(lines, i+1, line)
		}
	}
	if tableName != "" {
		return append(lines, "["+tableName+"]", line)
	}
	return splice(lines, first, line)
}

func splice(lines []string, at int, line string) []string {
	out := append([]string{}, lines[:at]...)
	return append(append(out, line), lines[at:]...)
}
