package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model"
)

// Names of the tools.
const (
	toolBash  = "bash"
	toolRead  = "read"
	toolEdit  = "edit"
	toolWrite = "write"
)

// param is one parameter of a tool. Its kind is a JSON Schema type: string, integer or boolean.
type param struct {
	name, kind, about string
	required          bool
	min, max          int64 // bounds of an integer
}

// tool is one row of the table that both the prompt and the tools array come from.
type tool struct {
	name   string
	about  string // for the tools array
	rule   string // for the prompt
	params []param
}

// Bounds of what a call may ask.
const (
	defaultTimeout = 120  // seconds
	maxTimeout     = 3600 // seconds
	defaultLines   = 400
	maxLines       = 2000
)

// specs is the table of all tools, in the order they are sent.
func specs() []tool {
	path := param{name: "path", kind: "string", about: "path of the file, relative to the root of the repository", required: true}
	return []tool{
		{
			name:  toolBash,
			about: "Run a shell script with bash in the root of the repository and return its exit code and output.",
			rule: "Each call is a new shell in the root of the repository: no state is kept but files. Stdin is empty and nobody can answer a prompt. " +
				"Everything the script started is ended with it. Long output is cut in the middle: filter with grep, head or tail. Use rg or grep to search, and set timeout_s for slow builds.",
			params: []param{
				{name: "command", kind: "string", about: "the script", required: true},
				{name: "timeout_s", kind: "integer", about: "seconds until it is ended, 120 by default", min: 1, max: maxTimeout},
			},
		},
		{
			name:  toolRead,
			about: "Read a text file with line numbers.",
			rule:  "Shows numbered lines. Read a file before you edit it. The number and the tab after it are not part of the file.",
			params: []param{
				path,
				{name: "offset", kind: "integer", about: "first line, 1 by default", min: 1, max: 1 << 40},
				{name: "limit", kind: "integer", about: "number of lines, 400 by default", min: 1, max: maxLines},
			},
		},
		{
			name:  toolEdit,
			about: "Replace an exact piece of text in a file. The piece must occur exactly once unless replace_all is true.",
			rule:  "old must match the file exactly, with its whitespace, and occur once: add lines around it until it does. Prefer it to rewriting a file.",
			params: []param{
				path,
				{name: "old", kind: "string", about: "the text to replace, not empty", required: true},
				{name: "new", kind: "string", about: "the text to put there", required: true},
				{name: "replace_all", kind: "boolean", about: "replace every occurrence"},
			},
		},
		{
			name:  toolWrite,
			about: "Create a file, or replace all of it, with the given content. Parent folders are made.",
			rule:  "For new files, or where nearly everything changes.",
			params: []param{
				path,
				{name: "content", kind: "string", about: "the whole content", required: true},
			},
		},
	}
}

// pick gives the tools named, in table order; no names means all.
func pick(names []string) []tool {
	all := specs()
	if len(names) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(t tool) bool { return !slices.Contains(names, t.name) })
}

// wireTools gives the tools array of a request. Its bytes depend on the table alone.
func wireTools(tools []tool) []model.Tool {
	out := make([]model.Tool, len(tools))
	for i, t := range tools {
		out[i] = model.Tool{Name: t.name, Description: t.about, Parameters: t.schema()}
	}
	return out
}

// schema writes the JSON Schema of the parameters, in table order.
func (t tool) schema() json.RawMessage {
	var props, required []string
	for _, p := range t.params {
		field := map[string]any{"type": p.kind, "description": p.about}
		if p.kind == "integer" {
			field["minimum"], field["maximum"] = p.min, p.max
		}
		props = append(props, `"`+p.name+`":`+string(contract.MarshalJSON(field)))
		if p.required {
			required = append(required, `"`+p.name+`"`)
		}
	}
	return json.RawMessage(`{"type":"object","properties":{` + strings.Join(props, ",") +
		`},"required":[` + strings.Join(required, ",") + `],"additionalProperties":false}`)
}
