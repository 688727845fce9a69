// Package redact takes known secrets out of text. A secret is found as it is, in its base64 forms
// (standard and URL alphabet, at all three alignments), in hexadecimal, in its URL-escaped and in
// its JSON-escaped form. The package knows only the secrets it was given; it guesses nothing.
package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/url"
	"sort"
	"strings"
)

// MinSecret is the shortest secret, in bytes, that is looked for: shorter ones would
// take common words out of every text.
const MinSecret = 6

// minEncoded is the shortest base64 core that is looked for, for the same reason.
const minEncoded = 8

// Set is a fixed set of secrets. It is immutable and safe for concurrent use. The nil set and the
// set without secrets leave every text as it is.
type Set struct {
	byFirst [256][]form // the forms by their first byte, longest first
	longest int
	names   []string
}

type form struct{ text, mark string }

// New makes a set of secrets by their names. Secrets shorter than [MinSecret] are left out;
// [Set.Names] tells which are in. White space around a secret is not part of it. A secret of several
// lines is looked for as a whole and line by line.
func New(secrets map[string]string) *Set {
	s := &Set{}
	names := make([]string, 0, len(secrets))
	for name := range secrets {
		names = append(names, name)
	}
	sort.Strings(names)
	seen := map[string]bool{}
	for _, name := range names {
		secret := strings.TrimSpace(secrets[name])
		if len(secret) < MinSecret {
			continue
		}
		s.names = append(s.names, name)
		parts := []string{secret}
		if lines := strings.Split(secret, "\n"); len(lines) > 1 {
			parts = append(parts, longLines(lines)...)
		}
		for _, part := range parts {
			for _, f := range forms(part) {
				if seen[f] {
					continue
				}
				seen[f] = true
				s.byFirst[f[0]] = append(s.byFirst[f[0]], form{text: f, mark: "[redacted:" + name + "]"})
				s.longest = max(s.longest, len(f))
			}
		}
	}
	for i := range s.byFirst {
		sort.SliceStable(s.byFirst[i], func(a, b int) bool {
			return len(s.byFirst[i][a].text) > len(s.byFirst[i][b].text)
		})
	}
	return s
}

// Names gives the names of the secrets that are looked for, sorted.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	return append([]string(nil), s.names...)
}

// longLines keeps the lines of a multi-line secret that are worth a search of their own; the
// armour lines of keys are public text.
func longLines(lines []string) []string {
	var out []string
	for _, l := range lines {
		if l = strings.TrimSpace(l); len(l) >= 16 && !strings.HasPrefix(l, "-----") {
			out = append(out, l)
		}
	}
	return out
}

// forms are the spellings of one secret.
func forms(secret string) []string {
	out := []string{secret}
	for _, escaped := range []string{url.QueryEscape(secret), url.PathEscape(secret), jsonEscape(secret), hex.EncodeToString([]byte(secret))} {
		out = append(out, escaped, lowerEscapes(escaped))
	}
	out = append(out, strings.ToUpper(hex.EncodeToString([]byte(secret))))
	for shift := range 3 {
		std := base64Core(base64.RawStdEncoding, secret, shift)
		if len(std) >= minEncoded {
			out = append(out, std, base64Core(base64.RawURLEncoding, secret, shift))
		}
	}
	return out
}

// base64Core is the part of the encoding of secret that does not depend on its neighbours when
// shift bytes stand before it in its group of three.
func base64Core(enc *base64.Encoding, secret string, shift int) string {
	coded := enc.EncodeToString([]byte(strings.Repeat("\x00", shift) + secret))
	from := (shift*8 + 5) / 6           // the first characters mix in the bytes before
	to := (shift + len(secret)) * 8 / 6 // the last one mixes in the bytes after
	return coded[from:to]
}

func jsonEscape(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // a string always marshals
		return s
	}
	return string(b[1 : len(b)-1])
}

// lowerEscapes spells %2F as %2f, as some encoders do.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(string(b[i+1:i+3])))
		}
	}
	return string(b)
}

// String gives text with every secret replaced by `[redacted:NAME]`. Text without any comes back
// without a copy.
func (s *Set) String(text string) string {
	if s == nil || s.longest == 0 {
		return text
	}
	var b strings.Builder
	done, changed := 0, false
	for i := 0; i < len(text); {
		f, ok := s.at(text[i:])
		if !ok {
			i++
			continue
		}
		b.WriteString(text[done:i])
		b.WriteString(f.mark)
		i += len(f.text)
		done, changed = i, true
	}
	if !changed {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}

// Bytes is [Set.String] for bytes. The result may share memory with the input.
func (s *Set) Bytes(text []byte) []byte {
	out := s.String(string(text))
	if len(out) == len(text) && out == string(text) {
		return text
	}
	return []byte(out)
}

func (s *Set) at(text string) (form, bool) {
	for _, f := range s.byFirst[text[0]] {
		if strings.HasPrefix(text, f.text) {
			return f, true
		}
	}
	return form{}, false
}

// Stream redacts a text that arrives in pieces: it keeps back a tail that may be the beginning of
// a secret. It is for one goroutine.
type Stream struct {
	set  *Set
	tail string
}

// Stream starts a stream.
func (s *Set) Stream() *Stream { return &Stream{set: s} }

// Next takes a piece and gives what is safe to show by now; it may be "".
func (r *Stream) Next(piece string) string {
	if r.set == nil || r.set.longest == 0 {
		return piece
	}
	text := r.tail + piece
	var b strings.Builder
	done := 0
	for i := 0; i < len(text); {
		// A longer secret may still begin here: a whole shorter one is only taken when it cannot.
		if r.open(text[i:]) {
			b.WriteString(text[done:i])
			r.tail = text[i:]
			return b.String()
		}
		f, ok := r.set.at(text[i:])
		if !ok {
			i++
			continue
		}
		b.WriteString(text[done:i])
		b.WriteString(f.mark)
		i += len(f.text)
		done = i
	}
	b.WriteString(text[done:])
	r.tail = ""
	return b.String()
}

// open reports whether rest is a proper beginning of a form.
func (r *Stream) open(rest string) bool {
	if len(rest) >= r.set.longest {
		return false
	}
	for _, f := range r.set.byFirst[rest[0]] {
		if len(f.text) > len(rest) && strings.HasPrefix(f.text, rest) {
			return true
		}
	}
	return false
}

// Close gives what was kept back. The stream may be used again.
func (r *Stream) Close() string {
	tail := r.tail
	r.tail = ""
	if r.set == nil {
		return tail
	}
	return r.set.String(tail)
}

// Writer gives a writer that passes redacted bytes on to w. Close writes what was kept back and
// does not close w. A write reports the length of its input, or w's error.
func (s *Set) Writer(w io.Writer) io.WriteCloser { return &writer{stream: s.Stream(), to: w} }

type writer struct {
	stream *Stream
	to     io.Writer
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if out := w.stream.Next(string(p)); out != "" {
		if _, err := io.WriteString(w.to, out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close implements io.Closer.
func (w *writer) Close() error {
	if out := w.stream.Close(); out != "" {
		_, err := io.WriteString(w.to, out)
		return err
	}
	return nil
}
