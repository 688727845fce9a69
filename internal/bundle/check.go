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
	"io"
	"io/fs"

	"github.com/rivumi/rivumi/internal/contract"
)

// The codes of findings.
const (
	CodeMissing   = "missing"
	CodeDigest    = "digest_mismatch"
	CodeExtra     = "not_in_manifest"
	CodeManifest  = "manifest_invalid"
	CodeSignature = "signature_invalid"
	CodeKey       = "key_not_trusted"
	CodeChain     = "chain_broken"
	CodeTorn      = "log_torn"
	CodeOpen      = "log_not_ended"
	CodeHead      = "log_head_differs"
	CodeResult    = "result_differs"
	CodeSanitized = "sanitized" // a note: left out on purpose
)

// Finding is one thing that is wrong with a bundle, or worth saying.
type Finding struct {
	Artifact string `json:"artifact"`
	Code     string `json:"code"`
	Detail   string `json:"detail"`
	Note     bool   `json:"note,omitempty"` // does not make the bundle invalid
}

// Report is what [Check] found.
type Report struct {
	Manifest  Manifest  `json:"-"`
	RunID     string    `json:"runId"`
	PublicKey string    `json:"publicKey,omitempty"` // base64 of the key that signed it
	Signed    bool      `json:"signed"`
	Trusted   bool      `json:"trusted"` // the key is one of the caller's
	Sanitized bool      `json:"sanitized,omitempty"`
	Chain     Chain     `json:"chain"`
	Findings  []Finding `json:"findings"`
}

// OK reports whether nothing but notes was found.
func (r *Report) OK() bool {
	for _, f := range r.Findings {
		if !f.Note {
			return false
		}
	}
	return true
}

func (r *Report) add(artifact, code, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Artifact: artifact, Code: code, Detail: fmt.Sprintf(format, args...)})
}

func (r *Report) note(artifact, code, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Artifact: artifact, Code: code, Detail: fmt.Sprintf(format, args...), Note: true})
}

// Check looks whether a bundle is whole: the manifest's signature, the digest of every artifact, the
// chain of the log and that result and manifest agree. keys are the public keys the caller trusts; a
// bundle of another key is noted, not refused. The error is for a bundle that cannot be read at all.
func Check(b fs.FS, keys ...ed25519.PublicKey) (*Report, error) {
	r := &Report{}
	data, err := readBounded(b, contract.ArtifactManifest, MaxManifestBytes)
	if err != nil {
		return nil, fmt.Errorf("read bundle: %w", err)
	}
	m, key, err := DecodeManifest(data)
	switch {
	case errors.Is(err, ErrSignature):
		r.add(contract.ArtifactManifest, CodeSignature, "%s", err)
	case err != nil:
		r.add(contract.ArtifactManifest, CodeManifest, "%s", err)
		return r, nil
	default:
		r.Signed, r.PublicKey = true, base64.StdEncoding.EncodeToString(key)
	}
	r.Manifest, r.RunID = m, string(m.RunID)
	r.trust(key, keys)
	gone := sanitizedNames(b)
	r.Sanitized = len(gone) > 0
	if err := r.digests(b, gone); err != nil {
		return nil, err
	}
	r.result(b)
	return r, r.log(b, gone)
}

func (r *Report) trust(key ed25519.PublicKey, keys []ed25519.PublicKey) {
	for _, k := range keys {
		if key != nil && k.Equal(key) {
			r.Trusted = true
		}
	}
	if r.Signed && !r.Trusted {
		r.note(contract.ArtifactManifest, CodeKey, "signed by a key that is not this installation's")
	}
}

func (r *Report) digests(b fs.FS, gone map[string]bool) error {
	listed := map[string]bool{contract.ArtifactManifest: true, contract.ArtifactEvents: true, SanitizedName: r.Sanitized}
	for _, d := range r.Manifest.Artifacts {
		listed[d.Name] = true
		if gone[d.Name] {
			r.note(d.Name, CodeSanitized, "left out or shortened on purpose")
			continue
		}
		if !ValidName(d.Name) {
			r.add(d.Name, CodeManifest, "artifact name %q", d.Name)
			continue
		}
		got, n, err := digest(b, d.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			r.add(d.Name, CodeMissing, "named in the manifest but not there")
		case err != nil:
			return fmt.Errorf("read bundle: %w", err)
		case got != d.SHA256 || n != d.Bytes:
			r.add(d.Name, CodeDigest, "%d bytes with SHA-256 %s, but the manifest says %d bytes with %s", n, got, d.Bytes, d.SHA256)
		}
	}
	entries, err := fs.ReadDir(b, ".")
	if err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			r.note(e.Name(), CodeExtra, "not bound by the manifest")
		}
	}
	return nil
}

// result compares the patch named by the result with the manifest's, and the trees.
func (r *Report) result(b fs.FS) {
	data, err := readBounded(b, contract.ArtifactResult, MaxManifestBytes)
	if err != nil {
		return // already reported as missing
	}
	var doc ResultDoc
	if err := json.Unmarshal(data, &doc); err != nil || doc.Result == nil {
		r.add(contract.ArtifactResult, CodeResult, "not a result")
		return
	}
	res, m := doc.Result, r.Manifest
	if res.BaseSHA != m.BaseSHA || res.BaseTree != m.BaseTree || res.FinalTree != m.FinalTree || doc.State != m.State {
		r.add(contract.ArtifactResult, CodeResult, "base, trees or state differ from the manifest")
	}
	if res.Patch == nil {
		return
	}
	for _, d := range m.Artifacts {
		if d.Name == res.Patch.Artifact && d.SHA256 != res.Patch.SHA256 {
			r.add(contract.ArtifactResult, CodeResult, "names another patch than the manifest")
		}
	}
}

func (r *Report) log(b fs.FS, gone map[string]bool) error {
	if gone[contract.ArtifactEvents] {
		r.note(contract.ArtifactEvents, CodeSanitized, "left out on purpose")
		return nil
	}
	f, err := b.Open(contract.ArtifactEvents)
	if errors.Is(err, fs.ErrNotExist) {
		r.add(contract.ArtifactEvents, CodeMissing, "the event log is not there")
		return nil
	}
	if err != nil {
		return fmt.Errorf("read bundle: %w", err)
	}
	defer f.Close()
	if r.Chain, err = ReadChain(f, r.Manifest.Log); err != nil {
		return err
	}
	c := r.Chain
	if c.Problem != "" {
		r.add(contract.ArtifactEvents, CodeChain, "%s", c.Problem)
	}
	if c.Torn {
		r.add(contract.ArtifactEvents, CodeTorn, "the last line is cut; the log is good up to event %d", c.Events)
	}
	if !c.HeadOK {
		r.add(contract.ArtifactEvents, CodeHead, "event %d is not the one the manifest names", r.Manifest.Log.Seq)
	}
	if c.RunID != "" && c.RunID != r.Manifest.RunID {
		r.add(contract.ArtifactEvents, CodeChain, "the log is of run %s", c.RunID)
	}
	if !c.Ended && c.Problem == "" && !c.Torn {
		r.note(contract.ArtifactEvents, CodeOpen, "the log has no terminal event")
	}
	return nil
}

// ResultDoc is the content of result.json.
type ResultDoc struct {
	RunID  contract.RunID    `json:"runId"`
	State  contract.State    `json:"state"`
	Result *contract.Result  `json:"result"`
	Error  *contract.Failure `json:"error"`
}

func digest(b fs.FS, name string) (string, int64, error) {
	f, err := b.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

func readBounded(b fs.FS, name string, limit int64) ([]byte, error) {
	f, err := b.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, contract.Errorf(contract.KindTooLarge, "%s is larger than %d bytes", name, limit)
	}
	return buf.Bytes(), nil
}

func indent(b []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
