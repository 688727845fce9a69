package contract

import (
	"crypto/hmac"
	"crypto/sha256"
	"strings"
)

// RunID names a run: "run_", 20 random characters of lower-case Crockford base32, and 6 of a
// MAC over them, so that a made-up id is refused before any store is touched.
type RunID string

const (
	runPrefix  = "run_"
	randomLen  = 20
	macLen     = 6
	crockford  = "0123456789abcdefghjkmnpqrstvwxyz"
	macPurpose = "rivumi/run-id/v1"
)

// RunIDEntropy is how many random bytes [NewRunID] needs.
const RunIDEntropy = randomLen

// NewRunID makes a run id of at least [RunIDEntropy] random bytes, bound to secret.
func NewRunID(secret, entropy []byte) RunID {
	body := base32Of(entropy[:randomLen])
	return RunID(runPrefix + body + runMAC(secret, body))
}

// Genuine reports whether the id was made with this secret.
func (id RunID) Genuine(secret []byte) bool {
	if !id.WellFormed() {
		return false
	}
	body := string(id)[len(runPrefix):]
	want := runMAC(secret, body[:randomLen])
	return hmac.Equal([]byte(body[randomLen:]), []byte(want))
}

// WellFormed reports whether the id has the shape of a run id, whoever made it.
func (id RunID) WellFormed() bool {
	s, ok := strings.CutPrefix(string(id), runPrefix)
	return ok && len(s) == randomLen+macLen && strings.Trim(s, crockford) == ""
}

// Short is the id as shown to people: its first 8 random characters. A prefix of at
// least 4 is accepted wherever a run is named.
func (id RunID) Short() string {
	s := strings.TrimPrefix(string(id), runPrefix)
	return s[:min(8, len(s))]
}

func runMAC(secret []byte, body string) string {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(macPurpose))
	m.Write([]byte(body))
	return base32Of(m.Sum(nil)[:macLen])
}

// RandomID makes an id such as "apr_…" from at least 16 bytes of entropy.
func RandomID(prefix string, entropy []byte) string { return prefix + base32Of(entropy[:16]) }

// base32Of maps each byte to one character; the five low bits count.
func base32Of(b []byte) string {
	out := make([]byte, len(b))
	for i, c := range b {
		out[i] = crockford[c&31]
	}
	return string(out)
}
