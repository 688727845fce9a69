package cli

import (
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

// OpenAPI gives the OpenAPI 3.1 document of every /v1 route, made from the core's own route table and
// the types of the contract.
func OpenAPI(version string) []byte {
	paths := map[string]any{}
	for _, r := range control.Routes() {
		if !strings.HasPrefix(r.Pattern, "/v1/") {
			continue
		}
		at, ok := paths[r.Pattern].(map[string]any)
		if !ok {
			at = map[string]any{}
			paths[r.Pattern] = at
		}
		at[strings.ToLower(r.Method)] = operation(r)
	}
	return contract.MarshalJSON(map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": "rivumi run API", "version": version},
		"security": []any{map[string]any{"token": []string{}}}, "paths": paths,
		"components": map[string]any{
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}},
			"schemas":         schemas(),
		},
	})
}

// schemas are the types of bodies, by name.
func schemas() map[string]any {
	clock := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[contract.Time]():    {Type: "string", Format: "date-time"},
		reflect.TypeFor[contract.Network](): {OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "array", Items: &jsonschema.Schema{Type: "string"}}}},
	}
	out := map[string]any{}
	for name, t := range map[string]reflect.Type{
		"Task": reflect.TypeFor[contract.Task](), "Run": reflect.TypeFor[contract.Run](), "Problem": reflect.TypeFor[contract.Problem](),
		"Approval": reflect.TypeFor[contract.Approval](), "Approvals": reflect.TypeFor[control.ApprovalList](),
		"Artifact": reflect.TypeFor[contract.Artifact](), "Message": reflect.TypeFor[contract.Message](),
	} {
		s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: clock})
		if err != nil {
			out[name] = map[string]any{"type": "object"} // a test holds that this does not happen
			continue
		}
		out[name] = s
	}
	return out
}

func ref(name string) map[string]any {
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

func content(media string, schema any) map[string]any {
	return map[string]any{media: map[string]any{"schema": schema}}
}

// shape is what a route takes and answers.
type shape struct {
	takes, media string // name of a schema, or a media type alone
	status       string
	gives        any
	as           string // media type of the answer, "" for JSON
	query        []string
}

// shapes says what the routes of the table take and give; a test holds it complete.
func shapes() map[control.Name]shape {
	object := map[string]any{"type": "object"}
	list := func(key, of string) any {
		return map[string]any{"type": "object", "properties": map[string]any{key: map[string]any{"type": "array", "items": ref(of)}}}
	}
	return map[control.Name]shape{
		control.RouteCreate:      {takes: "Task", status: "202", gives: ref("Run")},
		control.RouteList:        {status: "200", gives: list("runs", "Run"), query: []string{"status", "label", "limit", "cursor", "search"}},
		control.RouteGet:         {status: "200", gives: ref("Run")},
		control.RouteDelete:      {status: "204"},
		control.RouteEvents:      {status: "200", gives: map[string]any{"type": "string"}, as: "application/x-ndjson", query: []string{"after", "stream"}},
		control.RouteApprovals:   {status: "200", gives: ref("Approvals")},
		control.RouteDecide:      {takes: "object", status: "200", gives: ref("Approval")},
		control.RouteCancel:      {takes: "object", status: "202", gives: ref("Run")},
		control.RouteSend:        {takes: "object", status: "202", gives: ref("Message")},
		control.RouteArtifacts:   {status: "200", gives: list("artifacts", "Artifact")},
		control.RouteArtifact:    {status: "200", gives: map[string]any{"type": "string"}, as: "application/octet-stream"},
		control.RouteUpload:      {media: "application/x-git-bundle", status: "201", gives: object},
		control.RouteUploadKnown: {status: "204"},
	}
}

// operation describes one route.
func operation(r control.RouteInfo) map[string]any {
	s := shapes()[r.Name]
	good := map[string]any{"description": r.Summary}
	if s.gives != nil {
		good["content"] = content(firstOf(s.as, "application/json"), s.gives)
	}
	op := map[string]any{
		"operationId": string(r.Name), "summary": r.Summary,
		"responses": map[string]any{
			s.status:  good,
			"default": map[string]any{"description": "A problem document", "content": content(contract.ProblemType, ref("Problem"))},
		},
	}
	var params []any
	for segment := range strings.SplitSeq(r.Pattern, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			params = append(params, param(strings.TrimSuffix(name, "}"), "path"))
		}
	}
	for _, q := range s.query {
		params = append(params, param(q, "query"))
	}
	if params != nil {
		op["parameters"] = params
	}
	switch {
	case s.takes == "object":
		op["requestBody"] = map[string]any{"content": content("application/json", map[string]any{"type": "object"})}
	case s.takes != "":
		op["requestBody"] = map[string]any{"required": true, "content": content("application/json", ref(s.takes))}
	case s.media != "":
		op["requestBody"] = map[string]any{"required": true, "content": content(s.media, map[string]any{"type": "string"})}
	}
	return op
}

func param(name, in string) map[string]any {
	return map[string]any{"name": name, "in": in, "required": in == "path", "schema": map[string]any{"type": "string"}}
}
