package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/rivumi/rivumi/internal/contract"
)

// SanitizedName is the artifact that says what an export left out.
const SanitizedName = "sanitized.json"

// sanitized is its content.
type sanitized struct {
	Dropped   []string `json:"dropped"`   // not in the export
	Shortened []string `json:"shortened"` // in it with its free text removed
}

// PackOptions choose what [Pack] writes.
type PackOptions struct {
	// Sanitize leaves out the instruction and all text of the conversation: the log and the
	// transcript as a whole, and the summary of the result. Patch and check outputs stay.
	Sanitize bool
}

// Pack writes a bundle as one gzip'd tar. The same bundle gives the same bytes: names are in order, and
// times come from the manifest.
func Pack(w io.Writer, b fs.FS, o PackOptions) error {
	data, err := readBounded(b, contract.ArtifactManifest, MaxManifestBytes)
	if err != nil {
		return fmt.Errorf("pack bundle: %w", err)
	}
	m, _, err := DecodeManifest(data)
	if err != nil {
		return fmt.Errorf("pack bundle: %w", err)
	}
	zip, err := gzip.NewWriterLevel(w, gzip.DefaultCompression)
	if err != nil {
		return fmt.Errorf("pack bundle: %w", err)
	}
	p := packer{out: tar.NewWriter(zip), from: b, at: m.CreatedAt}
	err = p.all(m, o)
	if err = errors.Join(err, p.out.Close(), zip.Close()); err != nil {
		return fmt.Errorf("pack bundle: %w", err)
	}
	return nil
}

type packer struct {
	out  *tar.Writer
	from fs.FS
	at   contract.Time
}

func (p *packer) all(m Manifest, o PackOptions) error {
	names := []string{contract.ArtifactEvents, contract.ArtifactManifest}
	for _, d := range m.Artifacts {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	if !o.Sanitize {
		for _, name := range slices.Compact(names) {
			if err := p.file(name); err != nil {
				return err
			}
		}
		return nil
	}
	return p.sanitize(slices.Compact(names))
}

// sanitize writes the bundle without its conversation, and last what was left out.
func (p *packer) sanitize(names []string) error {
	var gone sanitized
	for _, name := range names {
		var err error
		switch {
		case name == contract.ArtifactEvents || name == contract.ArtifactTranscript || !evidence(name):
			gone.Dropped = append(gone.Dropped, name)
		case name == contract.ArtifactResult:
			gone.Shortened = append(gone.Shortened, name)
			err = p.shortResult()
		default:
			err = p.file(name)
		}
		if err != nil {
			return err
		}
	}
	data, err := indent(contract.MarshalJSON(gone))
	if err != nil {
		return err
	}
	return p.bytes(SanitizedName, data)
}

// evidence reports whether an artifact is one a sanitised bundle keeps: whole tool outputs, for
// one, are part of the conversation.
func evidence(name string) bool {
	switch name {
	case contract.ArtifactPatch, contract.ArtifactRejected, contract.ArtifactResult, contract.ArtifactManifest:
		return true
	}
	var n int
	_, err := fmt.Sscanf(name, "check-%d.log", &n)
	return err == nil && name == CheckLog(n)
}

func (p *packer) shortResult() error {
	data, err := readBounded(p.from, contract.ArtifactResult, MaxManifestBytes)
	if err != nil {
		return err
	}
	var doc ResultDoc
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("read %s: %w", contract.ArtifactResult, err)
	}
	if doc.Result != nil {
		doc.Result.Summary = ""
	}
	if doc.Error != nil {
		doc.Error.Message, doc.Error.Hint = "", ""
	}
	if data, err = indent(contract.MarshalJSON(doc)); err != nil {
		return err
	}
	return p.bytes(contract.ArtifactResult, data)
}

func (p *packer) bytes(name string, data []byte) error {
	return p.copy(name, int64(len(data)), bytes.NewReader(data))
}

// file copies one artifact; a log or artifact that is not there is left out, so that a broken bundle can
// be exported for a look, and Check names it afterwards.
func (p *packer) file(name string) error {
	f, err := p.from.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return p.copy(name, info.Size(), f)
}

func (p *packer) copy(name string, size int64, r io.Reader) error {
	if !ValidName(name) {
		return contract.Errorf(contract.KindInvalid, "artifact name %q", name)
	}
	err := p.out.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: p.at.Time, Format: tar.FormatPAX,
	})
	if err != nil {
		return err
	}
	_, err = io.CopyN(p.out, r, size)
	return err
}

// sanitizedNames gives the names a sanitised bundle left out or shortened; none for another bundle.
// The list is a claim of the file: it can hide an artifact's absence, never a changed patch.
func sanitizedNames(b fs.FS) map[string]bool {
	data, err := readBounded(b, SanitizedName, 1<<20)
	if err != nil {
		return nil
	}
	var s sanitized
	if json.Unmarshal(data, &s) != nil {
		return nil
	}
	names := map[string]bool{}
	for _, n := range append(s.Dropped, s.Shortened...) {
		if n != contract.ArtifactPatch && n != contract.ArtifactManifest {
			names[n] = true
		}
	}
	return names
}
