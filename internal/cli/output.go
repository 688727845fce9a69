package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/itchyny/gojq"
	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
)

// writeJSON writes one value as a line of JSON, or what the jq expression makes of it.
func writeJSON(w io.Writer, v any, jq string) error {
	if jq == "" {
		_, err := fmt.Fprintf(w, "%s\n", contract.MarshalJSON(v))
		return err
	}
	query, err := gojq.Parse(jq)
	if err != nil {
		return usagef("the expression language is that of jq", "--jq: %w", err)
	}
	var doc any
	if err := json.Unmarshal(contract.MarshalJSON(v), &doc); err != nil {
		return fmt.Errorf("filter output: %w", err)
	}
	for it := query.Run(doc); ; {
		out, ok := it.Next()
		if !ok {
			return nil
		}
		if err, bad := out.(error); bad {
			if h, halt := errors.AsType[*gojq.HaltError](err); halt && h.Value() == nil {
				return nil
			}
			return usagef("the expression language is that of jq", "--jq: %w", err)
		}
		if s, text := out.(string); text {
			fmt.Fprintln(w, contract.CleanText(s))
			continue
		}
		raw, err := gojq.Marshal(out)
		if err != nil {
			return fmt.Errorf("filter output: %w", err)
		}
		fmt.Fprintf(w, "%s\n", raw)
	}
}

// errorRecord is the last line of machine-readable output when there is no run to tell of.
type errorRecord struct {
	Type     string             `json:"type"` // "error"
	ExitCode int                `json:"exitCode"`
	Code     contract.Kind      `json:"code,omitempty"`
	Message  string             `json:"message"`
	Hint     string             `json:"hint,omitempty"`
	Errors   []contract.Refusal `json:"errors,omitempty"`
}

// lastRecord ends machine-readable output of a run with a record of the error, so that a reader
// never has to guess from silence. A run that ended has told of itself.
func lastRecord(f *Factory, cmd *cobra.Command, err error) {
	if fail, ok := errors.AsType[*failure](err); ok && fail.err == nil {
		return
	}
	if cmd == nil || !machine(cmd) {
		return
	}
	text, hint := describe(err)
	rec := errorRecord{Type: "error", ExitCode: exitCode(err), Message: oneLine(text), Hint: oneLine(hint), Errors: refusals(err)}
	if k := contract.KindOf(err); k != contract.KindInternal {
		rec.Code = k
	}
	fmt.Fprintf(f.IO.Out, "%s\n", contract.MarshalJSON(rec))
}

// machine reports whether the command line asked for machine-readable output of a run.
func machine(cmd *cobra.Command) bool {
	if cmd.Name() != "run" && cmd.Name() != "rivumi" && cmd.Name() != "resume" && cmd.Name() != "demo" {
		return false
	}
	for _, n := range []string{"json", "jq"} {
		if fl := cmd.Flags().Lookup(n); fl != nil && fl.Changed {
			return true
		}
	}
	for _, n := range []string{"output", "output-format"} {
		if fl := cmd.Flags().Lookup(n); fl != nil && fl.Changed && fl.Value.String() != "text" {
			return true
		}
	}
	return false
}

func indentJSON(raw []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return raw
	}
	return b.Bytes()
}
