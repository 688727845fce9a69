package bundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rivumi/rivumi/internal/contract"
)

// ManifestSchema names the layout of [Manifest].
const ManifestSchema = "rivumi-manifest/1"

// MaxManifestBytes bounds a stored manifest.
const MaxManifestBytes = 64 << 20

// Manifest binds a run to its artifacts and to the trees it started from and ended in.
type Manifest struct {
	Schema     string                 `json:"schema"`
	RunID      contract.RunID         `json:"runId"`
	CreatedAt  contract.Time          `json:"createdAt"`
	State      contract.State         `json:"state"`
	Outcome    contract.Outcome       `json:"outcome,omitempty"`
	TaskDigest string                 `json:"taskDigest"` // see [TaskDigest]
	BaseSHA    string                 `json:"baseSha"`    // commit the run started from
	BaseTree   string                 `json:"baseTree"`   // tree the patch starts from: commit plus overlay
	FinalTree  string                 `json:"finalTree"`
	Files      []FileState            `json:"files"` // every changed file, ordered by path
	Checks     []contract.CheckResult `json:"checks"`
	Artifacts  []Digest               `json:"artifacts"` // all but the log and this manifest
	Log        LogHead                `json:"log"`
	Sandbox    json.RawMessage        `json:"sandbox,omitempty"` // receipt of the sandbox session
}

// FileState is one changed file before and after the run; nil where it did not exist.
type FileState struct {
	Path   string    `json:"path"`
	Before *FileMeta `json:"before"`
	After  *FileMeta `json:"after"`
}

// FileMeta is content hash, git mode and size in bytes of one version of a file. Of a symbolic
// link the content is its target.
type FileMeta struct {
	SHA256 string `json:"sha256"`
	Mode   string `json:"mode"` // 100644, 100755, 120000
	Bytes  int64  `json:"bytes"`
}

// Digest is the SHA-256 and size in bytes of one artifact.
type Digest struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// LogHead is the last event that was in the log when the manifest was made. Later ones, such as the
// terminal event, are bound by the chain of the log itself.
type LogHead struct {
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"` // [contract.ChainHash] of its line
}

// TaskDigest is the SHA-256 in hex of a task's JSON.
func TaskDigest(t contract.Task) string { return sum(contract.MarshalJSON(t)) }

// envelope is how a manifest is stored. The signature covers the compacted bytes of the manifest as
// they stand in the file, so that a newer program's fields stay covered.
type envelope struct {
	Manifest  json.RawMessage `json:"manifest"`
	PublicKey string          `json:"publicKey"`
	Signature string          `json:"signature"`
}

// signingContext separates these signatures from any other use of the key.
const signingContext = "rivumi manifest v1\n"

// Encode signs the manifest and gives its stored form.
func (m Manifest) Encode(s *Signer) ([]byte, error) {
	m.Schema = ManifestSchema
	body, err := compact(contract.MarshalJSON(m))
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	e := envelope{
		Manifest:  body,
		PublicKey: base64.StdEncoding.EncodeToString(s.Public()),
		Signature: base64.StdEncoding.EncodeToString(s.sign(append([]byte(signingContext), body...))),
	}
	var out bytes.Buffer
	if err := json.Indent(&out, contract.MarshalJSON(e), "", "  "); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// ErrSignature says that a manifest's signature does not fit its content.
var ErrSignature = errors.New("signature does not fit the manifest")

// DecodeManifest reads a stored manifest and verifies its signature with the public key in it, which
// it returns: whether that key is to be trusted is the caller's question. With ErrSignature the
// manifest is returned all the same, for reporting.
func DecodeManifest(data []byte) (Manifest, ed25519.PublicKey, error) {
	if len(data) > MaxManifestBytes {
		return Manifest{}, nil, contract.Errorf(contract.KindTooLarge, "manifest is %d bytes", len(data))
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return Manifest{}, nil, contract.Errorf(contract.KindInvalid, "decode manifest: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(e.Manifest, &m); err != nil {
		return Manifest{}, nil, contract.Errorf(contract.KindInvalid, "decode manifest: %w", err)
	}
	if m.Schema != ManifestSchema {
		return Manifest{}, nil, contract.Errorf(contract.KindInvalid, "manifest has schema %q, not %q", m.Schema, ManifestSchema)
	}
	body, err := compact(e.Manifest)
	if err != nil {
		return Manifest{}, nil, contract.Errorf(contract.KindInvalid, "decode manifest: %w", err)
	}
	key, err1 := base64.StdEncoding.DecodeString(e.PublicKey)
	sig, err2 := base64.StdEncoding.DecodeString(e.Signature)
	if err1 != nil || err2 != nil || len(key) != ed25519.PublicKeySize ||
		!ed25519.Verify(key, append([]byte(signingContext), body...), sig) {
		return m, nil, ErrSignature
	}
	return m, key, nil
}

func compact(b []byte) ([]byte, error) {
	var out bytes.Buffer
	err := json.Compact(&out, b)
	return out.Bytes(), err
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}
