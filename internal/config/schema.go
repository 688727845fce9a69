package config

import "strings"

// Schema gives a JSON Schema (2020-12) of the settings files as a value ready to encode.
func Schema() map[string]any {
	root := object()
	for _, k := range table {
		at := root
		parts := strings.Split(k.Name, ".")
		for _, p := range parts[:len(parts)-1] {
			at = child(at, p)
		}
		put(at, parts[len(parts)-1], schemaOf(k))
	}
	body := root["properties"].(map[string]any)
	root["properties"] = withProfiles(body)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "rivumi settings (config.toml)"
	return root
}

func withProfiles(body map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range body {
		out[k] = v
	}
	out["profiles"] = map[string]any{
		"type": "object", "description": "named sets of settings, chosen by --profile",
		"additionalProperties": map[string]any{"type": "object", "properties": body, "additionalProperties": false},
	}
	return out
}

func object() map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
}

// child gives the object of a table, making it on first use; * is any name.
func child(at map[string]any, name string) map[string]any {
	if name == "*" {
		sub, ok := at["additionalProperties"].(map[string]any)
		if !ok {
			sub = object()
			at["additionalProperties"] = sub
		}
		return sub
	}
	props := at["properties"].(map[string]any)
	sub, ok := props[name].(map[string]any)
	if !ok {
		sub = object()
		props[name] = sub
	}
	return sub
}

func put(at map[string]any, name string, s map[string]any) {
	at["properties"].(map[string]any)[name] = s
}

func schemaOf(k Key) map[string]any {
	s := map[string]any{"description": k.Doc}
	switch k.Kind {
	case String:
		s["type"] = "string"
		if k.Values != nil {
			s["enum"] = k.Values
		}
	case Int:
		s["type"], s["minimum"] = "integer", 0
	case Float:
		s["type"], s["minimum"] = "number", 0
	case Bool:
		s["type"] = "boolean"
	case Duration:
		s["type"], s["pattern"] = "string", `^([0-9.]+(h|m|s|ms))+$`
	case List:
		s["type"], s["items"] = "array", map[string]any{"type": "string"}
	}
	if k.Default != nil {
		s["default"] = k.Default
	}
	return s
}
