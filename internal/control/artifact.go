package control

import (
	"encoding/json"

	"github.com/rivumi/rivumi/internal/contract"
)

// MaxArtifacts is how many artifacts a run keeps.
const MaxArtifacts = 4096

// ArtifactName reports whether a name may be an artifact's: [a-z0-9][a-z0-9._-]{0,127}.
func ArtifactName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		word := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !word && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// PutArtifact records an artifact whose bytes the host has stored durably, replacing an older one
// of that name. The last attempt may record after the end of the run too, because a bundle is
// closed then; any other is KindFenced. Beyond the profile's bytes it is KindTooLarge.
func (c *Core) PutArtifact(tx Tx, env Env, attempt int, a contract.Artifact) (contract.Artifact, error) {
	en, err := c.open(tx, env)
	if err != nil {
		return contract.Artifact{}, err
	}
	if attempt != en.h.Attempt {
		return contract.Artifact{}, contract.Errorf(contract.KindFenced, "attempt %d does not hold the run, attempt %d does", attempt, en.h.Attempt)
	}
	if !ArtifactName(a.Name) {
		return contract.Artifact{}, contract.Errorf(contract.KindInvalid, "artifact name must match [a-z0-9][a-z0-9._-]{0,127}")
	}
	if a.Bytes < 0 || !isSHA256(a.SHA256) {
		return contract.Artifact{}, contract.Errorf(contract.KindInvalid, "artifact needs its size and SHA-256")
	}
	var old contract.Artifact
	if _, err := get(tx, prefixArtifact+a.Name, &old); err != nil {
		return contract.Artifact{}, err
	}
	total := en.h.ArtifactBytes - old.Bytes + a.Bytes
	if total > c.cfg.Profile.ArtifactBytes || a.Bytes > c.cfg.Profile.ArtifactBytes {
		return contract.Artifact{}, contract.Errorf(contract.KindTooLarge, "artifacts of the run would be %d bytes, more than %d", total, c.cfg.Profile.ArtifactBytes)
	}
	a.CreatedAt, a.MediaType = en.now, mediaType(a.MediaType)
	en.h.ArtifactBytes = total
	if err := put(tx, prefixArtifact+a.Name, a); err != nil {
		return contract.Artifact{}, err
	}
	return a, en.save()
}

// mediaType keeps a plain type/subtype and turns everything else into bytes.
func mediaType(s string) string {
	slash := 0
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '-', c == '+':
		case c == '/' && i > 0 && i < len(s)-1:
			slash++
		default:
			slash = 2
		}
	}
	if slash != 1 || len(s) > 100 {
		return "application/octet-stream"
	}
	return s
}

// Artifacts lists the artifacts by name.
func (c *Core) Artifacts(tx Tx) ([]contract.Artifact, error) {
	if _, err := c.open(tx, Env{}); err != nil {
		return nil, err
	}
	out := []contract.Artifact{}
	err := each(tx, prefixArtifact, func(r Record) error {
		var a contract.Artifact
		if err := json.Unmarshal(r.Value, &a); err != nil {
			return contract.Errorf(contract.KindInternal, "read artifact: %w", err)
		}
		out = append(out, a)
		return nil
	})
	return out, err
}

// Artifact gives one artifact's record; an unknown name is KindNotFound.
func (c *Core) Artifact(tx Tx, name string) (contract.Artifact, error) {
	var a contract.Artifact
	if !ArtifactName(name) {
		return a, contract.Errorf(contract.KindNotFound, "no artifact of that name")
	}
	found, err := get(tx, prefixArtifact+name, &a)
	if err == nil && !found {
		err = contract.Errorf(contract.KindNotFound, "no artifact of that name")
	}
	return a, err
}
