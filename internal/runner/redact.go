package runner

import (
	"bytes"
	"encoding/json"
)

// redactJSON gives raw with rewrite applied to every string in it, keys included. Everything else stays
// byte for byte, so that opaque provider blocks survive. It returns raw itself when nothing changed,
// and works on any bytes: what is not a closed string is left alone.
func redactJSON(raw []byte, rewrite func(string) string) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end, escaped := stringEnd(raw, i)
		if end < 0 {
			break
		}
		if text, ok := unquote(raw[i:end], escaped); ok {
			if clean := rewrite(text); clean != text {
				out = append(out, raw[done:i]...)
				out = append(out, quote(clean)...)
				done = end
			}
		}
		i = end - 1
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// stringEnd gives the index behind the string literal that begins at i, -1 for an open one.
func stringEnd(raw []byte, i int) (end int, escaped bool) {
	for j := i + 1; j < len(raw); j++ {
		switch raw[j] {
		case '\\':
			escaped = true
			j++
		case '"':
			return j + 1, escaped
		}
	}
	return -1, escaped
}

func unquote(lit []byte, escaped bool) (string, bool) {
	if !escaped {
		return string(lit[1 : len(lit)-1]), true
	}
	var s string
	err := json.Unmarshal(lit, &s)
	return s, err == nil
}

func quote(s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
