package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a request.
const maxDepth = 64

// Decode reads one JSON value of type T strictly: keys match exactly, letter case included,
// unknown and duplicate keys are refused, and so are trailing data, null where the type has no
// place for it, invalid UTF-8 and nesting deeper than 64. All refusals come together, at most
// [MaxRefusals]. A leading byte-order mark is accepted.
func Decode[T any](data []byte) (T, error) {
	var v T
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if err := checkSyntax(data); err != nil {
		return v, err
	}
	w := &walker{dec: json.NewDecoder(bytes.NewReader(data))}
	w.dec.UseNumber()
	w.value(reflect.TypeFor[T](), "", 0)
	if err := Refuse(w.refusals); err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, Refuse([]Refusal{{Field: "", Code: "invalid_value", Detail: err.Error()}})
	}
	return v, nil
}

// DecodeTask reads a task as [Decode] does. It is not validated yet; see [Validate].
func DecodeTask(data []byte) (Task, error) { return Decode[Task](data) }

func checkSyntax(data []byte) error {
	if !utf8.Valid(data) {
		return Refuse([]Refusal{{Code: "invalid_utf8", Detail: "the text is not valid UTF-8"}})
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return Refuse([]Refusal{{Code: "invalid_json", Detail: "empty, a JSON object is expected"}})
	}
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	if err == nil {
		return nil
	}
	code := "invalid_json"
	if strings.Contains(err.Error(), "after top-level value") {
		code = "trailing_data"
	}
	detail := err.Error()
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := data[:min(int(s.Offset), len(data))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
		detail = fmt.Sprintf("line %d, column %d: %s", line, column, s.Error())
	}
	return Refuse([]Refusal{{Code: code, Detail: detail}})
}

// walker compares a syntactically valid document with a Go type, token by token.
type walker struct {
	dec      *json.Decoder
	refusals []Refusal
}

func (w *walker) refuse(field, code, detail string) {
	if field == "" {
		field = "(document)"
	}
	w.refusals = append(w.refusals, Refusal{Field: field, Code: code, Detail: detail})
}

// token cannot fail: the syntax was checked before.
func (w *walker) token() json.Token {
	t, err := w.dec.Token()
	if err != nil {
		return nil
	}
	return t
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

func (w *walker) value(t reflect.Type, path string, depth int) {
	if depth > maxDepth {
		w.refuse(path, "too_deep", "nested deeper than "+strconv.Itoa(maxDepth))
		w.skip()
		return
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		w.custom(t, path)
		return
	}
	optional := t.Kind() == reflect.Pointer
	if optional {
		if t.Implements(unmarshaler) {
			w.custom(t.Elem(), path)
			return
		}
		t = t.Elem()
	}
	switch tok := w.token().(type) {
	case json.Delim:
		if tok == '{' {
			w.object(t, path, depth)
		} else {
			w.array(t, path, depth)
		}
	case nil:
		if !optional && t.Kind() != reflect.Interface { // free-form parts may hold null
			w.refuse(path, "wrong_type", "must be "+describe(t)+", not null")
		}
	default:
		w.scalar(t, path, tok)
	}
}

// custom lets a type with its own UnmarshalJSON judge the value; only duplicate keys are looked for.
func (w *walker) custom(t reflect.Type, path string) {
	var raw json.RawMessage
	if err := w.dec.Decode(&raw); err != nil {
		w.refuse(path, "invalid_value", err.Error())
		return
	}
	inner := &walker{dec: json.NewDecoder(bytes.NewReader(raw))}
	inner.dec.UseNumber()
	inner.value(reflect.TypeFor[any](), path, 0)
	w.refusals = append(w.refusals, inner.refusals...)
	if u, ok := reflect.New(t).Interface().(json.Unmarshaler); ok {
		if err := u.UnmarshalJSON(raw); err != nil {
			w.refuse(path, "invalid_value", err.Error())
		}
	}
}

func (w *walker) object(t reflect.Type, path string, depth int) {
	fields, open := fieldsOf(t)
	if fields == nil && !open {
		w.refuse(path, "wrong_type", "must be "+describe(t)+", not an object")
	}
	seen := map[string]bool{}
	for w.dec.More() {
		key, _ := w.token().(string)
		at := join(path, key)
		if seen[key] {
			w.refuse(at, "duplicate_key", "the key appears twice")
		}
		seen[key] = true
		ft, known := fields[key]
		switch {
		case known:
			w.value(ft, at, depth+1)
		case open:
			w.value(elemOf(t), at, depth+1)
		default:
			if fields != nil {
				w.refuse(at, string(KindUnknownField), "unknown field"+suggest(key, fields))
			}
			w.value(reflect.TypeFor[any](), at, depth+1)
		}
	}
	w.token() // the closing brace
}

func (w *walker) array(t reflect.Type, path string, depth int) {
	elem := reflect.TypeFor[any]()
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		elem = t.Elem()
	case reflect.Interface:
	default:
		w.refuse(path, "wrong_type", "must be "+describe(t)+", not an array")
	}
	for i := 0; w.dec.More(); i++ {
		w.value(elem, path+"["+strconv.Itoa(i)+"]", depth+1)
	}
	w.token() // the closing bracket
}

func (w *walker) scalar(t reflect.Type, path string, tok json.Token) {
	if t.Kind() == reflect.Interface {
		return
	}
	ok := false
	switch v := tok.(type) {
	case string:
		ok = t.Kind() == reflect.String
	case bool:
		ok = t.Kind() == reflect.Bool
	case json.Number:
		ok = fits(t, v)
	}
	if !ok {
		w.refuse(path, "wrong_type", "must be "+describe(t))
	}
}

func fits(t reflect.Type, n json.Number) bool {
	switch t.Kind() {
	case reflect.Float64:
		_, err := n.Float64()
		return err == nil
	case reflect.Int, reflect.Int64, reflect.Int32:
		_, err := strconv.ParseInt(n.String(), 10, t.Bits())
		return err == nil
	default:
		return false
	}
}

// skip passes over one value.
func (w *walker) skip() {
	var raw json.RawMessage
	if err := w.dec.Decode(&raw); err != nil {
		w.refuse("", "invalid_json", err.Error())
	}
}

// fieldsOf gives the JSON keys of a struct type; open is true for a map or an interface, whose
// keys are free.
func fieldsOf(t reflect.Type) (fields map[string]reflect.Type, open bool) {
	switch t.Kind() {
	case reflect.Map, reflect.Interface:
		return nil, true
	case reflect.Struct:
	default:
		return nil, false
	}
	fields = map[string]reflect.Type{}
	for f := range t.Fields() {
		if f.Anonymous && f.Tag.Get("json") == "" {
			inner, _ := fieldsOf(f.Type)
			for k, v := range inner {
				fields[k] = v
			}
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" && name != "" {
			fields[name] = f.Type
		}
	}
	return fields, false
}

func elemOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	return t
}

func join(path, key string) string {
	key = CleanText(key)
	if len(key) > 64 {
		key = key[:64] + "…"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	default:
		return "an object"
	}
}

// suggest names the known key nearest to an unknown one, when it is near enough to be a slip.
func suggest(key string, known map[string]reflect.Type) string {
	names := make([]string, 0, len(known))
	for k := range known {
		names = append(names, k)
	}
	if near := Nearest(key, names); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
