package client

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/rivumi/rivumi/internal/contract"
)

// Source is a packed checkout on its way to a server.
type Source struct {
	Path   string // a git bundle
	SHA256 string // hex
	Bytes  int64
	// Progress hears how much has been sent, from the goroutine that sends. Nil hears nothing.
	Progress func(sent, total int64)
}

// Upload sends a source unless the server has it already, and gives its id. The call is not bounded
// in time but by ctx.
func (c *Client) Upload(ctx context.Context, s Source) (id string, err error) {
	if id, err = c.known(ctx, s.SHA256); err != nil || id != "" {
		return id, err
	}
	sum, err := hex.DecodeString(s.SHA256)
	if err != nil {
		return "", contract.Errorf(contract.KindInvalid, "digest of the source: %w", err)
	}
	f, err := os.Open(s.Path)
	if err != nil {
		return "", fmt.Errorf("open the packed source: %w", err)
	}
	defer f.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/uploads", &counted{r: f, s: s})
	if err != nil {
		return "", contract.Errorf(contract.KindInvalid, "make request: %w", err)
	}
	req.ContentLength = s.Bytes
	req.Header.Set("Content-Type", "application/x-git-bundle")
	req.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	for name, value := range c.headers() {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", c.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return "", problemOf(resp)
	}
	var out struct {
		ID string `json:"id"`
	}
	if err := decodeAnswer(resp.Body, &out); err != nil {
		return "", err
	}
	return out.ID, nil
}

// known gives the id of an upload that the server has already, "" where it has none.
func (c *Client) known(ctx context.Context, digest string) (string, error) {
	resp, err := c.send(ctx, call{method: http.MethodHead, path: "/v1/uploads/by-digest/" + digest})
	switch contract.KindOf(err) {
	case "":
	case contract.KindNotFound:
		return "", nil
	default:
		return "", err
	}
	defer resp.Body.Close()
	return resp.Header.Get("Upload-Id"), nil
}

// counted tells how much of a source was read.
type counted struct {
	r io.Reader
	s Source
	n int64
}

// Read implements [io.Reader].
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if c.s.Progress != nil && n > 0 {
		c.s.Progress(c.n, c.s.Bytes)
	}
	return n, err
}
