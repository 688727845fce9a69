package worker

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/token"
)

// PutArtifact implements [contract.Depot]. The bytes are spooled first, so that they can be sent again.
func (s *Session) PutArtifact(ctx context.Context, name, mediaType string, r io.Reader) (a contract.Artifact, err error) {
	f, err := os.CreateTemp("", ".artifact-*")
	if err != nil {
		return a, fmt.Errorf("spool artifact %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), r)
	if err != nil {
		return a, fmt.Errorf("spool artifact %s: %w", name, err)
	}
	err = s.line.patient(ctx, exchange{
		method: http.MethodPut, path: s.path("/artifacts/" + url.PathEscape(name)), token: s.tokens[token.Events], out: &a,
		header: http.Header{
			"Content-Type":   {mediaType},
			"Content-Digest": {"sha-256=:" + base64.StdEncoding.EncodeToString(h.Sum(nil)) + ":"},
		},
		body: func() io.Reader { return io.NewSectionReader(f, 0, n) },
	})
	return a, s.over(err)
}
