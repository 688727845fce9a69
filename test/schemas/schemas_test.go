// Package schemas holds the published JSON Schemas to the Go types they are made from.
package schemas

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
)

var update = flag.Bool("update", false, "write docs/schemas anew")

const (
	folder  = "../../docs/schemas"
	dialect = "https://json-schema.org/draft/2020-12/schema"
)

func TestPublishedSchemasAreThoseOfTheTypes(t *testing.T) {
	for name, s := range map[string]any{
		"task.schema.json": taskSchema(t), "event.schema.json": eventSchema(t), "run.schema.json": runSchema(t), "config.schema.json": config.Schema(),
	} {
		want, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, '\n')
		path := filepath.Join(folder, name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the types say (go test ./test/schemas -update writes it): %v", name, err)
		}
	}
}

// A task file that the schema takes is one that the decoder takes, and the other way round.
func TestTaskSchemaAgreesWithTheDecoder(t *testing.T) {
	s, err := taskSchema(t).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for doc, good := range map[string]bool{
		`{"instruction":"x"}`: true,
		`{"instruction":"x","checks":[["go","test"]],"network":"none","limits":{"maxSteps":3},"approval":{"policy":"ask"}}`: true,
		`{"network":["example.com"],"sandbox":{"mode":"auto","minTier":"L3"},"repository":{"path":"/r","dirty":"include"}}`: true,
		`{"instruction":5}`:                 false,
		`{"allowedPath":["a"]}`:             false,
		`{"limits":{"maxStep":3}}`:          false,
		`{"checks":["go test"]}`:            false,
		`{"network":"all"}`:                 false,
		`{"checks":null}`:                   false,
		`{"labels":{"a":1}}`:                false,
		`{"limits":{"maxSteps":1.5}}`:       false,
		`{"files":[{"path":"a","x":true}]}`: false,
	} {
		var v any
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(err)
		}
		_, derr := contract.DecodeTask([]byte(doc))
		if serr := s.Validate(v); (serr == nil) != good || (derr == nil) != good {
			t.Errorf("%s: schema says %v, decoder says %v, want good %v", doc, serr, derr, good)
		}
	}
}

func TestEventSchemaTakesWhatIsStored(t *testing.T) {
	s, err := eventSchema(t).Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range payloads() {
		e := contract.NewEvent(1, p)
		e.Seq, e.RunID = 1, "run_x"
		line, err := e.Seal(nil)
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", e.Type, err)
		}
		v["seq"] = "one"
		if s.Validate(v) == nil {
			t.Errorf("%s: a seq of text is taken", e.Type)
		}
	}
}

// payloads has one value of every stored event type.
func payloads() []contract.Payload {
	return []contract.Payload{
		contract.RunQueued{},
		contract.RunStarted{},
		contract.RunResumed{},
		contract.RunCancelRequested{},
		contract.RunLateResult{},
		contract.WorkspaceReady{},
		contract.StepStarted{},
		contract.ModelDelta{},
		contract.ModelMessage{},
		contract.ModelRetry{},
		contract.ModelDiscarded{},
		contract.ToolStarted{},
		contract.ToolOutput{},
		contract.ToolResult{},
		contract.ApprovalRequested{},
		contract.ApprovalDecided{},
		contract.ApprovalClosed{},
		contract.DiffUpdated{},
		contract.CheckStarted{},
		contract.CheckFinished{},
		contract.UsageUpdated{},
		contract.MessageUser{},
		contract.Compacted{},
		contract.Notice{},
		contract.LogGap{},
		contract.RunEnded{State: contract.Completed},
		contract.RunEnded{State: contract.Failed},
		contract.RunEnded{State: contract.Cancelled},
	}
}

func options() *jsonschema.ForOptions {
	enum := func(values ...any) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Enum: values} }
	text := &jsonschema.Schema{Type: "string"}
	return &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[contract.Network](): {OneOf: []*jsonschema.Schema{
			{Const: jsonschema.Ptr[any]("none")}, {Type: "array", Items: text},
		}},
		reflect.TypeFor[contract.Time]():         {Type: "string", Format: "date-time"},
		reflect.TypeFor[json.RawMessage]():       {},
		reflect.TypeFor[contract.Policy]():       enum("deny-all", "read-only", "ask", "edits", "allow-all", ""),
		reflect.TypeFor[contract.Unattended]():   enum("wait", "deny", "stop", ""),
		reflect.TypeFor[contract.Dirty]():        enum("include", "exclude", "refuse", ""),
		reflect.TypeFor[contract.SandboxMode]():  enum("auto", "read-only", "workspace-write", "docker", "none", ""),
		reflect.TypeFor[contract.RunID]():        text,
		reflect.TypeFor[contract.Verdict]():      enum("allow_once", "allow_session", "deny", "cancel", ""),
		reflect.TypeFor[contract.EventType]():    text,
		reflect.TypeFor[contract.FailureCode]():  text,
		reflect.TypeFor[contract.ApprovalKind](): text,
	}}
}

func schemaOf(t *testing.T, typ reflect.Type) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.ForType(typ, options())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// taskSchema is strict like the decoder: no unknown key, no null. What the command line fills in
// where a file leaves it out is not required.
func taskSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s := schemaOf(t, reflect.TypeFor[contract.Task]())
	walk(s, func(s *jsonschema.Schema) {
		s.Required = nil
		if i := slices.Index(s.Types, "null"); i >= 0 && len(s.Types) == 2 {
			s.Type, s.Types = s.Types[1-i], nil
		}
	})
	s.Schema, s.Title = dialect, "rivumi task"
	return s
}

// eventSchema is open: a reader must accept what a newer program adds.
func eventSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s := schemaOf(t, reflect.TypeFor[contract.Event]())
	for _, p := range payloads() {
		name := any(string(p.EventType()))
		s.OneOf = append(s.OneOf, &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{
			"type": {Const: &name}, "data": schemaOf(t, reflect.TypeOf(p)),
		}})
	}
	walk(s, open)
	s.Schema, s.Title = dialect, "rivumi event, one line of a run's log"
	return s
}

func runSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s := schemaOf(t, reflect.TypeFor[contract.Run]())
	walk(s, open)
	s.Schema, s.Title = dialect, "rivumi run"
	return s
}

func open(s *jsonschema.Schema) {
	if s.Properties != nil {
		s.AdditionalProperties = nil
	}
}

// walk visits a schema and all below it.
func walk(s *jsonschema.Schema, visit func(*jsonschema.Schema)) {
	if s == nil {
		return
	}
	visit(s)
	for _, p := range s.Properties {
		walk(p, visit)
	}
	for _, p := range s.OneOf {
		walk(p, visit)
	}
	walk(s.Items, visit)
	walk(s.AdditionalProperties, visit)
}
