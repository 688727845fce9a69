// Package access keeps the API tokens of a control plane and says who a request is from. A token is
// 256 random bits that are stored as their SHA-256 only, one file each, so that creating and revoking
// one takes effect in a running server at once, whatever process does it.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// Prefix begins every API token, so that scanners of leaked secrets know it.
const Prefix = "rvm_"

const (
	secretBytes = 32
	tokenLen    = len(Prefix) + 2*secretBytes + 8 // the last 8 are a CRC-32 of what is before
	// usedEvery is how exact the time of the last use is.
	usedEvery = time.Minute
)

// Scope is what a token may do. Each includes the ones before.
type Scope string

// The scopes.
const (
	Read  Scope = "read"  // look at runs and artifacts
	Run   Scope = "run"   // start, steer and remove runs, and send sources
	Admin Scope = "admin" // whatever is to come for operators; today the same as run
)

// Scopes lists the closed set, the weakest first.
func Scopes() []Scope { return []Scope{Read, Run, Admin} }

// Covers reports whether a token of this scope may do what needs the other.
func (s Scope) Covers(need Scope) bool {
	return slices.Index(Scopes(), s) >= max(0, slices.Index(Scopes(), need))
}

// Token is what is known of an API token; the token itself is not kept.
type Token struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Principal string         `json:"principal"` // whose runs it sees
	Scope     Scope          `json:"scope"`
	Created   contract.Time  `json:"createdAt"`
	Expires   *contract.Time `json:"expiresAt"` // nil: never
	Used      *contract.Time `json:"lastUsedAt"`
	Hash      string         `json:"hash"` // SHA-256 of the token in hex
}

// Tokens is the folder of tokens of one control plane. It is safe for concurrent use, also by several
// processes.
type Tokens struct {
	dir     string
	now     func() time.Time
	entropy io.Reader
}

// Open opens the folder of tokens in a state directory, and makes it where it is missing.
func Open(stateDir string, now func() time.Time, entropy io.Reader) (*Tokens, error) {
	dir := filepath.Join(stateDir, "api-tokens")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of tokens: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of tokens: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return nil, contract.Errorf(contract.KindForbidden, "%s must be a folder that only its owner can read (mode 0700)", dir)
	}
	return &Tokens{dir: dir, now: now, entropy: entropy}, nil
}

// New asks for a token.
type New struct {
	Name      string
	Principal string // "": one of the token's own
	Scope     Scope
	Life      time.Duration // 0: it does not expire
}

var nameShape = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// reserved is the principal of the runs that need no token.
const reserved = "local"

// Create makes a token and gives it; it cannot be had again.
func (t *Tokens) Create(n New) (secret string, tok Token, err error) {
	if n.Scope == "" {
		n.Scope = Run
	}
	switch {
	case !nameShape.MatchString(n.Name):
		return "", tok, contract.Errorf(contract.KindInvalid, "token name must match [a-z0-9][a-z0-9._-]{0,63}")
	case n.Principal != "" && !nameShape.MatchString(n.Principal) || n.Principal == reserved:
		return "", tok, contract.Errorf(contract.KindInvalid, "principal must match [a-z0-9][a-z0-9._-]{0,63} and not be %q", reserved)
	case !slices.Contains(Scopes(), n.Scope):
		return "", tok, contract.Errorf(contract.KindInvalid, "scope must be read, run or admin")
	case n.Life < 0:
		return "", tok, contract.Errorf(contract.KindInvalid, "a token cannot have expired already")
	}
	random := make([]byte, secretBytes+16)
	if _, err := io.ReadFull(t.entropy, random); err != nil {
		return "", tok, fmt.Errorf("read entropy: %w", err)
	}
	secret = Prefix + hex.EncodeToString(random[:secretBytes])
	secret += fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(secret)))
	tok = Token{
		ID: contract.RandomID("tok_", random[secretBytes:]), Name: n.Name, Principal: n.Principal, Scope: n.Scope,
		Created: contract.At(t.now()), Hash: hashOf(secret),
	}
	if tok.Principal == "" {
		tok.Principal = tok.ID
	}
	if n.Life > 0 {
		at := contract.At(t.now().Add(n.Life))
		tok.Expires = &at
	}
	return secret, tok, t.write(tok)
}

// write publishes a token's file whole.
func (t *Tokens) write(tok Token) error {
	f, err := os.CreateTemp(t.dir, ".new-*") // 0600
	if err != nil {
		return fmt.Errorf("store token: %w", err)
	}
	_, err = f.Write(contract.MarshalJSON(tok))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), t.path(tok.Hash))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("store token: %w", err), os.Remove(f.Name()))
	}
	return nil
}

func (t *Tokens) path(hash string) string { return filepath.Join(t.dir, hash+".json") }

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// wellFormed reports whether a text is shaped like a token, so that most guesses cost no look-up.
func wellFormed(s string) bool {
	if len(s) != tokenLen || !strings.HasPrefix(s, Prefix) || strings.Trim(s[len(Prefix):], "0123456789abcdef") != "" {
		return false
	}
	body := s[:tokenLen-8]
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body))) == s[tokenLen-8:]
}

// Find gives the token that a secret is, false for one that is unknown, revoked or expired. What is
// looked up is the hash, from which a secret cannot be approached step by step.
func (t *Tokens) Find(secret string) (Token, bool) {
	if !wellFormed(secret) {
		return Token{}, false
	}
	hash := hashOf(secret)
	tok, used, err := t.read(hash)
	if err != nil || subtle.ConstantTimeCompare([]byte(tok.Hash), []byte(hash)) != 1 {
		return Token{}, false
	}
	now := t.now()
	if tok.Expires != nil && !now.Before(tok.Expires.Time) {
		return Token{}, false
	}
	if used.IsZero() || now.Sub(used) > usedEvery {
		_ = os.Chtimes(t.path(hash), now, now) // the time of the last use is a help, not a record
	}
	return tok, true
}

// read reads a token's file; used is when it was used last, zero for never.
func (t *Tokens) read(hash string) (tok Token, used time.Time, err error) {
	b, err := os.ReadFile(t.path(hash))
	if err == nil {
		err = json.Unmarshal(b, &tok)
	}
	if err != nil {
		return tok, used, err
	}
	info, err := os.Stat(t.path(hash))
	if err != nil {
		return tok, used, err
	}
	if info.ModTime().Sub(tok.Created.Time) > 2*time.Second { // the file's own time is that of its creation
		used = info.ModTime()
		at := contract.At(used)
		tok.Used = &at
	}
	return tok, used, nil
}

// List gives every token, the oldest first, expired ones included.
func (t *Tokens) List() ([]Token, error) {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	out := []Token{}
	for _, e := range entries {
		hash, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		tok, _, err := t.read(hash)
		if errors.Is(err, os.ErrNotExist) {
			continue // revoked meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read token: %w", err)
		}
		out = append(out, tok)
	}
	slices.SortFunc(out, func(a, b Token) int { return a.Created.Compare(b.Created.Time) })
	return out, nil
}

// Revoke removes the tokens of an id or a name and gives how many there were. Their runs go on.
func (t *Tokens) Revoke(which string) (int, error) {
	all, err := t.List()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, tok := range all {
		if tok.ID != which && tok.Name != which {
			continue
		}
		if err := os.Remove(t.path(tok.Hash)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return n, fmt.Errorf("revoke token: %w", err)
		}
		n++
	}
	return n, nil
}
