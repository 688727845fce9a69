package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check brings a value as TOML or a program gives it to the one form of the key's kind.
func (k Key) check(v any) (any, error) {
	switch k.Kind {
	case String:
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s must be text", k.Name)
		}
		if s == "" || k.Values == nil || slices.Contains(k.Values, s) {
			return s, nil
		}
		return nil, fmt.Errorf("%s must be one of %s, not %q", k.Name, strings.Join(k.Values, ", "), s)
	case Int:
		n, ok := v.(int64)
		if !ok || n < 0 {
			return nil, fmt.Errorf("%s must be a whole number of 0 or more", k.Name)
		}
		return n, nil
	case Float:
		if n, ok := v.(int64); ok {
			v = float64(n)
		}
		f, ok := v.(float64)
		if !ok || !(f >= 0) || f > 1e9 {
			return nil, fmt.Errorf("%s must be a number of 0 or more", k.Name)
		}
		return f, nil
	case Bool:
		b, ok := v.(bool)
		if !ok {
			return nil, fmt.Errorf("%s must be true or false", k.Name)
		}
		return b, nil
	case Duration:
		s, ok := v.(string)
		d, err := time.ParseDuration(s)
		if !ok || err != nil || d < time.Second {
			return nil, fmt.Errorf(`%s must be a duration of at least 1s, such as "20m"`, k.Name)
		}
		return s, nil
	case List:
		return k.checkList(v)
	}
	return nil, fmt.Errorf("%s has no known kind", k.Name)
}

func (k Key) checkList(v any) (any, error) {
	if l, ok := v.([]string); ok {
		return l, nil
	}
	items, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s must be a list of texts", k.Name)
	}
	out := make([]string, 0, len(items))
	for _, it := range items {
		s, ok := it.(string)
		if !ok {
			return nil, fmt.Errorf("%s must be a list of texts", k.Name)
		}
		out = append(out, s)
	}
	return out, nil
}

// Parse reads a value written as text: in an environment variable, in --set or in `config set`.
// A list is separated by commas, or by line breaks where there are any; checks by line breaks only.
func (k Key) Parse(text string) (any, error) {
	var v any = text
	switch k.Kind {
	case String, Duration:
	case Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s must be a whole number, not %q", k.Name, text)
		}
		v = n
	case Float:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s must be a number, not %q", k.Name, text)
		}
		v = f
	case Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%s must be true or false, not %q", k.Name, text)
		}
		v = b
	case List:
		v = splitList(k.Name, text)
	}
	return k.check(v)
}

func splitList(name, text string) []string {
	sep := ","
	if name == "checks" || strings.Contains(text, "\n") {
		sep = "\n"
	}
	var out []string
	for _, part := range strings.Split(text, sep) {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// weaker reports whether v gives a run more than floor does. It is asked only for keys that a
// project may make stricter.
func (k Key) weaker(v, floor any) bool {
	switch k.Kind {
	case String:
		if floor == nil || floor == "" {
			return false
		}
		return slices.Index(k.Values, v.(string)) > slices.Index(k.Values, floor.(string))
	case Int:
		n, m := v.(int64), asInt(floor)
		return m > 0 && (n == 0 || n > m)
	case Float:
		f, g := v.(float64), asFloat(floor)
		return g > 0 && (f == 0 || f > g)
	case Duration:
		s, ok := floor.(string)
		return ok && seconds(v.(string)) > seconds(s)
	case List: // allowed_paths: stricter than nothing said, or a choice among what the user allows
		have, _ := floor.([]string)
		if len(have) == 0 || slices.Contains(have, "**") {
			return false
		}
		for _, s := range v.([]string) {
			if !slices.Contains(have, s) {
				return true
			}
		}
		return len(v.([]string)) == 0
	case Bool:
	}
	return false
}

func asInt(v any) int64 {
	n, _ := v.(int64)
	return n
}

func asFloat(v any) float64 {
	f, _ := v.(float64)
	return f
}

func seconds(s string) time.Duration {
	d, _ := time.ParseDuration(s)
	return d
}

// Text writes a value as a person would in the file.
func Text(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case []string:
		quoted := make([]string, len(x))
		for i, s := range x {
			quoted[i] = strconv.Quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return fmt.Sprint(v)
}
