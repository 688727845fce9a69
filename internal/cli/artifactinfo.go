package cli

import (
	"io/fs"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// artifactInfo is an artifact as [fs.FileInfo].
type artifactInfo struct{ a contract.Artifact }

// Name implements [fs.FileInfo], as do the methods below.
func (i artifactInfo) Name() string       { return i.a.Name }
func (i artifactInfo) Size() int64        { return i.a.Bytes }
func (i artifactInfo) ModTime() time.Time { return i.a.CreatedAt.Time }
func (i artifactInfo) IsDir() bool        { return i.a.Name == "." }
func (i artifactInfo) Sys() any           { return nil }

// Mode implements [fs.FileInfo]: artifacts are plain files, "." is their folder.
func (i artifactInfo) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
