package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rivumi/rivumi/internal/contract"
)

// maxTaskFile bounds a task file.
const maxTaskFile = 4 << 20

// readTaskFile reads `-F FILE`: a Markdown prompt, or a contract as YAML or JSON.
func readTaskFile(path string) (contract.Task, error) {
	raw, err := readBounded(path, maxTaskFile)
	if err != nil {
		return contract.Task{}, usagef("give a readable .md, .yaml or .json file", "read task: %w", err)
	}
	var t contract.Task
	switch strings.ToLower(filepath.Ext(path)) {
	case ".md", ".markdown", ".txt":
		t.Instruction = strings.TrimSpace(string(bytes.TrimPrefix(raw, []byte("\ufeff"))))
		return t, nil
	case ".json":
		t, err = contract.DecodeTask(raw)
	case ".yaml", ".yml":
		if raw, err = yamlToJSON(raw); err == nil {
			t, err = contract.DecodeTask(raw)
		}
	default:
		return t, usagef("use .md for a prompt, .yaml or .json for a contract", "%s is not a task file", path)
	}
	if err != nil {
		return t, &failure{contract.ExitUsage, fmt.Errorf("%s: %w", path, err), "rivumi help contract explains the fields"}
	}
	return t, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return raw, err
}

// yamlToJSON turns one YAML document into JSON. Duplicate keys, aliases, merge keys, tags of its
// own and a second document are refused with their line, so that what the strict decoder judges
// is all that was written.
func yamlToJSON(raw []byte) ([]byte, error) {
	dec := yaml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff"))))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty")
		}
		return nil, err
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file holds more than one document")
	}
	v, err := plain(&doc, 0)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// plain turns a node into what encoding/json writes.
func plain(n *yaml.Node, depth int) (any, error) {
	if depth > 64 {
		return nil, fmt.Errorf("line %d: nested deeper than 64", n.Line)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return plain(n.Content[0], depth+1)
	case yaml.MappingNode:
		return plainMap(n, depth)
	case yaml.SequenceNode:
		out := []any{}
		for _, c := range n.Content {
			v, err := plain(c, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.ScalarNode:
		return plainScalar(n)
	case yaml.AliasNode:
	}
	return nil, fmt.Errorf("line %d: aliases are not accepted", n.Line)
}

func plainMap(n *yaml.Node, depth int) (any, error) {
	out := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.ShortTag() == "!!merge" {
			return nil, fmt.Errorf("line %d: a key must be plain text", k.Line)
		}
		if _, twice := out[k.Value]; twice {
			return nil, fmt.Errorf("line %d: the key %q appears twice", k.Line, k.Value)
		}
		v, err := plain(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		out[k.Value] = v
	}
	return out, nil
}

func plainScalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int":
		i, err := strconv.ParseInt(n.Value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q is not a plain whole number; quote it if it is text", n.Line, n.Value)
		}
		return i, nil
	case "!!float":
		f, err := strconv.ParseFloat(n.Value, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, fmt.Errorf("line %d: %q is not a plain number", n.Line, n.Value)
		}
		return f, nil
	}
	return nil, fmt.Errorf("line %d: the tag %s is not accepted", n.Line, n.Tag)
}
