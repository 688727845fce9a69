package control

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// UploadLife is how long an upload waits for the run that uses it.
const UploadLife = 24 * time.Hour

func (v *visit) artifacts() (Response, []Effect, error) {
	list, err := v.c.Artifacts(v.tx)
	if err != nil {
		return Response{}, nil, err
	}
	return answer(200, struct {
		Artifacts []contract.Artifact `json:"artifacts"`
	}{list}), nil, nil
}

// artifact answers with the headers of an artifact. Its bytes are untrusted: a browser is told to
// store them, not to show them.
func (v *visit) artifact() (Response, []Effect, error) {
	a, err := v.c.Artifact(v.tx, v.m.Param)
	if err != nil {
		return Response{}, nil, err
	}
	etag := `"` + a.SHA256 + `"`
	resp := Response{Status: 200}
	resp.set("ETag", etag)
	resp.set("Cache-Control", "private, no-cache")
	if slices.Contains(strings.Split(strings.ReplaceAll(v.r.Header["if-none-match"], " ", ""), ","), etag) {
		resp.Status = 304
		return resp, nil, nil
	}
	resp.set("Content-Type", a.MediaType)
	resp.set("Accept-Ranges", "bytes")
	resp.set("X-Content-Type-Options", "nosniff")
	resp.set("Content-Disposition", `attachment; filename="`+a.Name+`"`)
	if sum, err := hex.DecodeString(a.SHA256); err == nil {
		resp.set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	return resp, []Effect{ServeArtifact{Run: v.m.Run, Artifact: a}}, nil
}

func (v *visit) putArtifact() (Response, []Effect, error) {
	if !ArtifactName(v.m.Param) {
		return Response{}, nil, contract.Errorf(contract.KindInvalid, "artifact name must match [a-z0-9][a-z0-9._-]{0,127}")
	}
	if v.m.Param == contract.ArtifactEvents {
		return Response{}, nil, contract.Errorf(contract.KindForbidden, "%s is the control plane's to write", v.m.Param)
	}
	sum, err := digest(v.r.Header)
	if err != nil {
		return Response{}, nil, err
	}
	en, err := v.c.open(v.tx, v.env)
	if err != nil {
		return Response{}, nil, err
	}
	return Response{}, []Effect{StoreArtifact{
		Run: v.m.Run, Attempt: v.claims.Attempt, Name: v.m.Param, MediaType: mediaType(media(v.r.Header["content-type"])),
		MaxBytes: max(0, v.c.cfg.Profile.ArtifactBytes-en.h.ArtifactBytes), SHA256: sum,
	}}, nil
}

// ArtifactStored records what a StoreArtifact stored and answers its sender. An attempt that has
// lost the run by then is refused, and the host removes the bytes.
func (c *Core) ArtifactStored(tx Tx, env Env, s StoreArtifact, a contract.Artifact, requestID string) (Response, []Effect) {
	en, err := c.open(tx, env)
	if err == nil {
		err = en.fence(s.Attempt)
	}
	if err == nil && s.SHA256 != "" && s.SHA256 != a.SHA256 {
		err = contract.Errorf(contract.KindInvalid, "the body does not have the SHA-256 that its sender gave")
	}
	if err != nil {
		return Refuse(err, requestID), nil
	}
	a.Name, a.MediaType = s.Name, s.MediaType
	if a, err = c.PutArtifact(tx, env, s.Attempt, a); err != nil {
		return Refuse(err, requestID), nil
	}
	return answer(201, a), []Effect{Notify{Run: s.Run, LastSeq: en.h.LastSeq}}
}

// digest reads the SHA-256 of a Content-Digest header as hex, "" where there is none.
func digest(header map[string]string) (string, error) {
	h := header["content-digest"]
	if h == "" {
		return "", nil
	}
	bad := contract.Errorf(contract.KindInvalid, "Content-Digest must be sha-256=:base64:")
	for part := range strings.SplitSeq(h, ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(part), "sha-256=:")
		if !ok {
			continue
		}
		sum, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(value, ":"))
		if err != nil || len(sum) != 32 || !strings.HasSuffix(value, ":") {
			return "", bad
		}
		return hex.EncodeToString(sum), nil
	}
	return "", bad
}

var uploadTypes = []string{"application/x-git-bundle", "application/zstd"}

func (v *visit) upload() (Response, []Effect, error) {
	p := v.c.cfg.Profile
	if p.UploadBytes == 0 {
		return Response{}, nil, contract.Errorf(contract.KindForbidden, "uploads are not accepted here")
	}
	kind := media(v.r.Header["content-type"])
	if !slices.Contains(uploadTypes, kind) {
		return Response{}, nil, contract.Errorf(contract.KindUnsupportedMedia, "an upload must be %s", strings.Join(uploadTypes, " or "))
	}
	sum, err := digest(v.r.Header)
	if err != nil {
		return Response{}, nil, err
	}
	return Response{}, []Effect{StoreUpload{
		ID: contract.RandomID("upl_", v.env.Entropy[:]), Principal: v.r.Principal, MediaType: kind,
		MaxBytes: p.UploadBytes, SHA256: sum, Expires: v.env.Now.Add(UploadLife),
	}}, nil
}

// uploaded is the body of the answer to an upload.
type uploaded struct {
	ID      string        `json:"id"`
	Bytes   int64         `json:"bytes"`
	SHA256  string        `json:"sha256"`
	Expires contract.Time `json:"expiresAt"`
}

// UploadStored answers the sender of an upload of which so many bytes with this SHA-256 (hex) came.
func (c *Core) UploadStored(s StoreUpload, bytes int64, sha256, requestID string) Response {
	switch {
	case bytes > s.MaxBytes:
		return Refuse(contract.Errorf(contract.KindUploadTooLarge, "the upload is more than %d bytes", s.MaxBytes), requestID)
	case s.SHA256 != "" && s.SHA256 != sha256:
		return Refuse(contract.Errorf(contract.KindInvalid, "the upload does not have the SHA-256 that its sender gave"), requestID)
	}
	return answer(201, uploaded{ID: s.ID, Bytes: bytes, SHA256: sha256, Expires: contract.At(s.Expires)})
}

func (v *visit) uploadKnown() (Response, []Effect, error) {
	if !isSHA256(v.m.Param) {
		return Response{}, nil, contract.Errorf(contract.KindInvalid, "digest must be a SHA-256 in lower-case hex")
	}
	return Response{}, []Effect{FindUpload{Principal: v.r.Principal, SHA256: v.m.Param}}, nil
}

// UploadFound answers a FindUpload.
func (c *Core) UploadFound(found bool, requestID string) Response {
	if found {
		return Response{Status: 204}
	}
	return Refuse(contract.Errorf(contract.KindNotFound, "no upload of that digest"), requestID)
}
