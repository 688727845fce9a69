package control

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rivumi/rivumi/internal/contract"
)

// opaque are the keys whose values go back to a model or a tool byte for byte; cleaning them would
// break signatures and edits. Who shows them cleans them.
var opaque = map[string]bool{"arguments": true, "reasoning": true, "extra": true}

// cleanData checks the data of an event and gives it with every string cleaned, other than those
// under opaque keys. Data that is clean already comes back as it is.
func cleanData(t contract.EventType, data json.RawMessage) (json.RawMessage, error) {
	if len(data) > contract.MaxEventBytes {
		return nil, contract.Errorf(contract.KindTooLarge, "event %s is more than %d bytes", t, contract.MaxEventBytes)
	}
	trimmed := bytes.TrimSpace(data)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return json.RawMessage("{}"), nil
	}
	if trimmed[0] != '{' || !json.Valid(trimmed) || !utf8.Valid(trimmed) {
		return nil, contract.Errorf(contract.KindInvalid, "data of event %s is not a JSON object in UTF-8", t)
	}
	if !suspicious(trimmed) {
		return trimmed, nil
	}
	dec := json.NewDecoder(bytes.NewReader(trimmed))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		return nil, contract.Errorf(contract.KindInvalid, "data of event %s: %w", t, err)
	}
	return contract.MarshalJSON(cleanValue(v)), nil
}

// suspicious reports whether a JSON text may hold a character that contract.CleanText escapes,
// as it is or as a \u escape.
func suspicious(data []byte) bool {
	if !contract.IsClean(string(data)) {
		return true
	}
	for rest := data; ; {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 || i+1 >= len(rest) {
			return false
		}
		switch rest[i+1] {
		case 'b', 'f', 'r':
			return true
		case 'u':
			if i+6 > len(rest) || suspiciousEscape(string(rest[i+2:i+6])) {
				return true
			}
		}
		rest = rest[i+2:]
	}
}

func suspiciousEscape(hex string) bool {
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || n >= 0xd800 && n < 0xe000 {
		return true // surrogates: the decoder judges them
	}
	return !contract.IsClean(string(rune(n)))
}

func cleanValue(v any) any {
	switch x := v.(type) {
	case string:
		return contract.CleanText(x)
	case []any:
		for i := range x {
			x[i] = cleanValue(x[i])
		}
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, inner := range x {
			if !opaque[k] {
				inner = cleanValue(inner)
			}
			out[contract.CleanText(k)] = inner
		}
		return out
	}
	return v
}

// short cleans a text and cuts it to n bytes, at a character.
func short(s string, n int) string {
	s = contract.CleanText(s)
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
