// Package token makes and checks the capability tokens of a run: what a sandbox shows to reach
// the model route, the event routes or the approval routes of its own run, and nothing else.
//
// A token is base64url(JSON) "." base64url(HMAC-SHA-256(key, base64url(JSON))) without padding.
// There is one key for each audience, derived with HKDF-SHA-256 from a secret, the audience and
// the key id, so that a token of another audience already fails its MAC. The package is pure: the
// caller passes the moment and the nonce.
package token

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// Audience is what a token opens.
type Audience string

// The audiences. The set is closed.
const (
	Model     Audience = "model"
	Events    Audience = "events"
	Approvals Audience = "approvals"
)

// Audiences lists the closed set.
func Audiences() []Audience { return []Audience{Model, Events, Approvals} }

// Version is the version of the claims this package writes and accepts.
const Version = 1

// Bounds of secrets, tokens and clocks.
const (
	MinSecretBytes = 32
	MaxTokenBytes  = 2048
	Leeway         = 30 * time.Second // how far iat may lie in the future
	keyPurpose     = "rivumi/v1/"
)

// Claims is all that a token says. It never holds a key, a prompt, a source or an artifact.
type Claims struct {
	V        int            `json:"v"`
	KeyID    string         `json:"kid"`
	Audience Audience       `json:"aud"`
	Run      contract.RunID `json:"runId"`
	Attempt  int            `json:"attempt"`
	Model    string         `json:"model"`
	IssuedAt int64          `json:"iat"` // Unix seconds
	Expires  int64          `json:"exp"` // Unix seconds; the token is dead from this second on
	Nonce    string         `json:"nonce"`
}

// Secret is a signing secret with its id.
type Secret struct {
	ID    string // 1 to 32 characters of [a-z0-9-]
	Bytes []byte // at least MinSecretBytes
}

// Keys signs with one secret and accepts the tokens of all it was made from. It is immutable and
// safe for concurrent use.
type Keys struct {
	current string
	keys    map[string]map[Audience][]byte
}

// NewKeys derives the keys. The first secret signs; the others are accepted while rotating.
// A short secret, a bad or repeated id is refused.
func NewKeys(current Secret, older ...Secret) (*Keys, error) {
	k := &Keys{current: current.ID, keys: map[string]map[Audience][]byte{}}
	for _, s := range append([]Secret{current}, older...) {
		if len(s.Bytes) < MinSecretBytes {
			return nil, contract.Errorf(contract.KindInvalid, "token secret %q is %d bytes, at least %d are needed", s.ID, len(s.Bytes), MinSecretBytes)
		}
		if !validKeyID(s.ID) {
			return nil, contract.Errorf(contract.KindInvalid, "token key id %q is not 1 to 32 characters of [a-z0-9-]", s.ID)
		}
		if _, twice := k.keys[s.ID]; twice {
			return nil, contract.Errorf(contract.KindInvalid, "token key id %q is given twice", s.ID)
		}
		k.keys[s.ID] = map[Audience][]byte{}
		for _, a := range Audiences() {
			key, err := hkdf.Key(sha256.New, s.Bytes, nil, keyPurpose+string(a)+"/"+s.ID, sha256.Size)
			if err != nil {
				return nil, contract.Errorf(contract.KindInternal, "derive token key: %w", err)
			}
			k.keys[s.ID][a] = key
		}
	}
	return k, nil
}

// Mint signs the claims with the current key. V and KeyID are filled in; the rest is checked.
func (k *Keys) Mint(c Claims) (string, error) {
	c.V, c.KeyID = Version, k.current
	key, ok := k.keys[k.current][c.Audience]
	if !ok {
		return "", contract.Errorf(contract.KindInvalid, "token audience %q is unknown", c.Audience)
	}
	if !c.Run.WellFormed() || c.Attempt < 1 || c.Nonce == "" || c.Expires <= c.IssuedAt {
		return "", contract.Errorf(contract.KindInvalid, "token needs a run, an attempt, a nonce and a life")
	}
	payload := base64.RawURLEncoding.EncodeToString(contract.MarshalJSON(c))
	tok := payload + "." + base64.RawURLEncoding.EncodeToString(sign(key, payload))
	if len(tok) > MaxTokenBytes {
		return "", contract.Errorf(contract.KindInvalid, "token would be longer than %d bytes", MaxTokenBytes)
	}
	return tok, nil
}

// Verify checks a token for one audience at the moment now and gives its claims. Every refusal is
// of kind inactive_run_token and reads the same, whether the token is forged, malformed, of
// another audience or expired; only a token from the future, which tells of a wrong clock, is
// named as that. The caller compares run, attempt and model with what it knows.
func (k *Keys) Verify(tok string, want Audience, now time.Time) (Claims, error) {
	payload, mac, ok := strings.Cut(tok, ".")
	if !ok || len(tok) > MaxTokenBytes {
		return Claims{}, inactive()
	}
	got, err := base64.RawURLEncoding.Strict().DecodeString(mac)
	if err != nil || !k.signed(want, payload, got) {
		return Claims{}, inactive()
	}
	c, err := decode(payload)
	if err != nil || c.V != Version || c.Audience != want {
		return Claims{}, inactive()
	}
	if c.IssuedAt > now.Add(Leeway).Unix() {
		return Claims{}, contract.Errorf(contract.KindInactiveToken,
			"run token was issued %d s in the future: the clocks of control plane and signer differ", c.IssuedAt-now.Unix())
	}
	if now.Unix() >= c.Expires {
		return Claims{}, inactive()
	}
	return c, nil
}

// signed tries every accepted key, so that the time taken does not tell which key ids exist.
func (k *Keys) signed(want Audience, payload string, mac []byte) bool {
	found := false
	for id := range k.keys {
		key, ok := k.keys[id][want]
		if ok && hmac.Equal(mac, sign(key, payload)) {
			found = true
		}
	}
	return found
}

func sign(key []byte, payload string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(payload))
	return m.Sum(nil)
}

// decode reads a payload whose MAC was good; it is strict all the same.
func decode(payload string) (Claims, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	if err != nil {
		return Claims{}, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var c Claims
	if err := dec.Decode(&c); err != nil {
		return Claims{}, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return Claims{}, io.ErrUnexpectedEOF
	}
	return c, nil
}

func inactive() error {
	return contract.Errorf(contract.KindInactiveToken, "run token is not active")
}

func validKeyID(id string) bool {
	return len(id) >= 1 && len(id) <= 32 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
