package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rivumi/rivumi/internal/model/redact"
)

const secret = "sk-proj/AbC+123==&xyz789"

func TestEveryFormIsReplaced(t *testing.T) {
	set := redact.New(map[string]string{"OPENAI_API_KEY": secret})
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"plain": secret, "query": url.QueryEscape(secret), "path": url.PathEscape(secret), "hex": hex.EncodeToString([]byte(secret)),
		"HEX": strings.ToUpper(hex.EncodeToString([]byte(secret))), "json": string(quoted[1 : len(quoted)-1]),
	}
	for name, f := range forms {
		if got := set.String("a " + f + " b"); got != "a [redacted:OPENAI_API_KEY] b" {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, before := range []string{"", "u", "us", "user:", "Bearer "} {
		for _, after := range []string{"", "\n", "::", "xyz"} {
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
				got := set.String(enc.EncodeToString([]byte(before + secret + after)))
				if !strings.Contains(got, "[redacted:OPENAI_API_KEY]") || strings.Count(got, "") > len(before)*2+len(after)*2+40 {
					t.Errorf("base64 of %q: %q", before+secret+after, got)
				}
			}
		}
	}
}

func TestShortSecretsAndCleanText(t *testing.T) {
	set := redact.New(map[string]string{"PIN": "1234", "EMPTY": "", "KEY": " longenough \n"})
	if got := set.String("1234 and longenough"); got != "1234 and [redacted:KEY]" {
		t.Errorf("%q", got)
	}
	if names := set.Names(); len(names) != 1 || names[0] != "KEY" {
		t.Errorf("names %v", names)
	}
	var none *redact.Set
	if none.String("x") != "x" || none.Stream().Next("x") != "x" {
		t.Error("the nil set changed text")
	}
}

func TestLongerSecretWins(t *testing.T) {
	set := redact.New(map[string]string{"SHORT": "abcdefgh", "LONG": "abcdefgh-ijkl"})
	if got := set.String("abcdefgh-ijkl abcdefgh-"); got != "[redacted:LONG] [redacted:SHORT]-" {
		t.Errorf("%q", got)
	}
}

func TestLinesOfAKeyFile(t *testing.T) {
	set := redact.New(map[string]string{"PEM": "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA1234\n-----END KEY-----"})
	if got := set.String("  MIIEpAIBAAKCAQEA1234"); got != "  [redacted:PEM]" {
		t.Errorf("%q", got)
	}
}

// However the text is cut into pieces, the stream says what String says of the whole.
func TestStreamEqualsString(t *testing.T) {
	set := redact.New(map[string]string{"A": secret, "B": "aabaab-aabaac", "C": "aabaab"})
	parts := []string{secret, "aabaab-aabaac", "aabaab", "aab", "sk-proj/", base64.StdEncoding.EncodeToString([]byte("x" + secret)), "ö", "\n", "text "}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom(parts)).Draw(t, "parts"), "")
		var out bytes.Buffer
		w := set.Writer(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			if strings.Contains(out.String(), secret) {
				t.Fatal("a secret came through")
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != set.String(text) {
			t.Fatalf("stream %q, whole %q", out.String(), set.String(text))
		}
	})
}
