package bundle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Media types of the artifacts.
const (
	MediaPatch = "text/x-diff; charset=utf-8"
	MediaJSON  = "application/json"
	MediaLog   = "text/plain; charset=utf-8"
)

// ValidName reports whether name may be an artifact's: [a-z0-9][a-z0-9._-]{0,127}. Such a name is
// never a path.
func ValidName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for i, c := range []byte(name) {
		ok := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || i > 0 && strings.IndexByte("._-", c) >= 0
		if !ok {
			return false
		}
	}
	return true
}

// CheckLog names the artifact with the output of check n, counted from 1.
func CheckLog(n int) string { return fmt.Sprintf("check-%d.log", n) }

// Writer puts a run's artifacts into its depot and remembers their digests for the manifest.
type Writer struct {
	depot  contract.Depot
	signer *Signer
	done   []Digest
}

// NewWriter makes a writer for one run.
func NewWriter(d contract.Depot, s *Signer) *Writer { return &Writer{depot: d, signer: s} }

// Put stores one artifact, durable before it returns. A second Put of a name replaces the first.
func (w *Writer) Put(ctx context.Context, name, mediaType string, r io.Reader) (contract.Artifact, error) {
	if !ValidName(name) {
		return contract.Artifact{}, contract.Errorf(contract.KindInvalid, "artifact name %q", name)
	}
	a, err := w.depot.PutArtifact(ctx, name, mediaType, r)
	if err != nil {
		return contract.Artifact{}, fmt.Errorf("store artifact %s: %w", name, err)
	}
	w.done = slices.DeleteFunc(w.done, func(d Digest) bool { return d.Name == name })
	w.done = append(w.done, Digest{Name: name, SHA256: a.SHA256, Bytes: a.Bytes})
	return a, nil
}

// PutJSON stores v as indented JSON.
func (w *Writer) PutJSON(ctx context.Context, name string, v any) (contract.Artifact, error) {
	data, err := indent(contract.MarshalJSON(v))
	if err != nil {
		return contract.Artifact{}, fmt.Errorf("encode %s: %w", name, err)
	}
	return w.Put(ctx, name, MediaJSON, bytes.NewReader(data))
}

// Digests lists what was put so far, ordered by name.
func (w *Writer) Digests() []Digest {
	out := slices.Clone(w.done)
	slices.SortFunc(out, func(a, b Digest) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Seal completes m with the digests of all artifacts put so far, signs it and stores it.
func (w *Writer) Seal(ctx context.Context, m Manifest) error {
	m.Artifacts = w.Digests()
	data, err := m.Encode(w.signer)
	if err != nil {
		return err
	}
	if _, err := w.depot.PutArtifact(ctx, contract.ArtifactManifest, MediaJSON, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("store manifest: %w", err)
	}
	return nil
}
