package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// args are the arguments of a call that fit the tool's parameters.
type args struct {
	text  map[string]string
	num   map[string]int64
	flags map[string]bool
}

// parseArgs checks the arguments of a call against the tool's parameters, strictly: one object, no
// unknown and no repeated field, the right types, within bounds. The error is for the model.
func (t tool) parseArgs(raw json.RawMessage) (args, error) {
	a := args{text: map[string]string{}, num: map[string]int64{}, flags: map[string]bool{}}
	fields, err := objectFields(raw)
	if err != nil {
		return a, err
	}
	for _, p := range t.params {
		v, ok := fields[p.name]
		delete(fields, p.name)
		if !ok || !p.required && string(v) == "null" {
			if p.required {
				return a, fmt.Errorf("%s: %q is required", t.name, p.name)
			}
			continue
		}
		if err := a.set(p, v); err != nil {
			return a, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	for name := range fields {
		return a, fmt.Errorf("%s: unknown argument %q; it takes %s", t.name, contract.CleanText(name), t.names())
	}
	return a, nil
}

func (t tool) names() string {
	names := make([]string, len(t.params))
	for i, p := range t.params {
		names[i] = p.name
	}
	return strings.Join(names, ", ")
}

func (a args) set(p param, v json.RawMessage) error {
	switch p.kind {
	case "string":
		var s string
		if json.Unmarshal(v, &s) != nil || v[0] != '"' {
			return fmt.Errorf("%q must be a string", p.name)
		}
		a.text[p.name] = s
	case "boolean":
		switch string(v) {
		case "true", "false":
			a.flags[p.name] = string(v) == "true"
		default:
			return fmt.Errorf("%q must be true or false", p.name)
		}
	default:
		var n int64
		if json.Unmarshal(v, &n) != nil || n < p.min || n > p.max {
			return fmt.Errorf("%q must be a whole number from %d to %d", p.name, p.min, p.max)
		}
		a.num[p.name] = n
	}
	return nil
}

// objectFields splits one JSON object; a field given twice is an error, as readers differ on which counts.
func objectFields(raw json.RawMessage) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, fmt.Errorf("arguments must be one JSON object")
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("arguments must be one JSON object")
		}
		name, _ := tok.(string)
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("argument %q is given twice", contract.CleanText(name))
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, fmt.Errorf("arguments must be one JSON object")
		}
		fields[name] = v
	}
	if _, err := dec.Token(); err != nil || dec.More() {
		return nil, fmt.Errorf("arguments must be one JSON object")
	}
	return fields, nil
}
