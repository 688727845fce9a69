package client

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/rivumi/rivumi/internal/contract"
)

// checked hashes what is read and compares at its end.
type checked struct {
	io.ReadCloser
	sum  hash.Hash
	want string
}

// verified checks r against a SHA-256 in hex; one that is none is not checked.
func verified(r io.ReadCloser, want string) io.ReadCloser {
	if b, err := hex.DecodeString(want); err != nil || len(b) != sha256.Size {
		return r
	}
	return &checked{ReadCloser: r, sum: sha256.New(), want: want}
}

// Read implements [io.Reader].
func (c *checked) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.sum.Write(b[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(c.sum.Sum(nil)) != c.want {
		return n, contract.Errorf(contract.KindUpstream, "the artifact arrived damaged: its SHA-256 is not the one the server named")
	}
	return n, err
}
