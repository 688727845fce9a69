package cli_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/cli"
	"github.com/rivumi/rivumi/internal/control"
)

var update = flag.Bool("update", false, "write docs/openapi.json anew")

const openAPIFile = "../../docs/openapi.json"

// The published document has every /v1 route of the core, says what each takes and gives, and stands
// in docs as the types make it.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	b := append(cli.OpenAPI("1"), '\n')
	var doc struct {
		Paths map[string]map[string]struct {
			ID        string `json:"operationId"`
			Responses map[string]struct {
				Content map[string]any `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range control.Routes() {
		if !strings.HasPrefix(r.Pattern, "/v1/") {
			if _, there := doc.Paths[r.Pattern]; there {
				t.Errorf("%s is no route for callers", r.Pattern)
			}
			continue
		}
		n++
		op := doc.Paths[r.Pattern][strings.ToLower(r.Method)]
		if op.ID != string(r.Name) || len(op.Responses) != 2 || op.Responses[""].Content != nil {
			t.Errorf("%s %s: %+v", r.Method, r.Pattern, op)
		}
	}
	if n < 13 {
		t.Errorf("%d routes", n)
	}
	for name, s := range doc.Components.Schemas {
		if len(s.Properties) == 0 {
			t.Errorf("schema %s is empty", name)
		}
	}
	if *update {
		if err := os.WriteFile(openAPIFile, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(openAPIFile); err != nil || !slices.Equal(have, b) {
		t.Errorf("docs/openapi.json is not what the routes and types say (go test ./internal/cli -run OpenAPI -update writes it): %v", err)
	}
}
