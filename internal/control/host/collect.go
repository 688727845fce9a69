package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/store"
)

// artifactDir is the folder of a run's artifacts in its own folder.
const artifactDir = "artifacts"

// Artifacts implements [contract.Collector].
func (s *Service) Artifacts(ctx context.Context, id contract.RunID) (list []contract.Artifact, err error) {
	if err := s.genuine(id); err != nil {
		return nil, err
	}
	err = s.store.View(ctx, id, func(tx control.Tx) error {
		list, err = s.core.Artifacts(tx)
		return err
	})
	return list, err
}

// Artifact implements [contract.Collector].
func (s *Service) Artifact(ctx context.Context, id contract.RunID, name string) (io.ReadCloser, error) {
	if err := s.genuine(id); err != nil {
		return nil, err
	}
	err := s.store.View(ctx, id, func(tx control.Tx) error {
		if _, err := s.core.Read(tx); err != nil {
			return err
		}
		_, err := s.core.Artifact(tx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.openArtifact(id, name)
}

// openArtifact opens the file of an artifact whose record stands.
func (s *Service) openArtifact(id contract.RunID, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.dir(id), artifactDir, name), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open artifact %s of run %s: %w", name, id, err)
	}
	return f, nil
}

// artifactIn is an artifact on its way in.
type artifactIn struct {
	run       contract.RunID
	attempt   int
	name      string
	mediaType string
	body      io.Reader
}

// putArtifact stores an artifact of an attempt in this process.
func (s *Service) putArtifact(ctx context.Context, in artifactIn) (contract.Artifact, error) {
	return s.storeArtifact(ctx, in, func(tx control.Tx, env control.Env, a contract.Artifact) (contract.Artifact, error) {
		return s.core.PutArtifact(tx, env, in.attempt, a)
	})
}

// recorder makes the record of an artifact whose bytes stand.
type recorder func(control.Tx, control.Env, contract.Artifact) (contract.Artifact, error)

// storeArtifact stores the bytes durably, then the record: a record always has its file.
func (s *Service) storeArtifact(ctx context.Context, in artifactIn, record recorder) (a contract.Artifact, err error) {
	if !control.ArtifactName(in.name) {
		return a, contract.Errorf(contract.KindInvalid, "artifact name %q must match [a-z0-9][a-z0-9._-]{0,127}", in.name)
	}
	dir := filepath.Join(s.dir(in.run), artifactDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return a, fmt.Errorf("make artifact folder: %w", err)
	}
	temp, a, err := s.spool(dir, in)
	if err != nil {
		return a, fmt.Errorf("store artifact %s of run %s: %w", in.name, in.run, diskFull(err))
	}
	path := filepath.Join(dir, in.name)
	if err := os.Rename(temp, path); err != nil {
		return a, errors.Join(err, os.Remove(temp))
	}
	if err := syncDir(dir); err != nil {
		return a, err
	}
	err = s.update(ctx, in.run, func(tx control.Tx, env control.Env) error {
		a, err = record(tx, env, a)
		return err
	})
	return a, err
}

// spool writes the body to a synced temporary file beside its place, bounded and hashed.
func (s *Service) spool(dir string, in artifactIn) (temp string, a contract.Artifact, err error) {
	f, err := os.CreateTemp(dir, ".new-*") // 0600
	if err != nil {
		return "", a, err
	}
	sum := sha256.New()
	most := s.core.Profile().ArtifactBytes
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(in.body, most+1))
	if err == nil && n > most {
		err = contract.Errorf(contract.KindTooLarge, "artifact is longer than %d bytes", most)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", a, errors.Join(err, os.Remove(f.Name()))
	}
	a = contract.Artifact{Name: in.name, MediaType: in.mediaType, Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))}
	return f.Name(), a, nil
}

// diskFull gives a file's ENOSPC the kind that the store's has.
func diskFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return contract.Errorf(contract.KindUnavailable, "%w: %s", store.ErrDiskFull, err.Error())
	}
	return err
}

// keepEvents writes the whole log of an ended run as an artifact. Called again it does nothing.
func (s *Service) keepEvents(ctx context.Context, id contract.RunID) error {
	var run contract.Run
	err := s.store.View(ctx, id, func(tx control.Tx) (err error) {
		if _, err = s.core.Artifact(tx, contract.ArtifactEvents); err == nil {
			return nil
		}
		run, err = s.core.Read(tx)
		return err
	})
	if err != nil || !run.Status.Terminal() {
		return err
	}
	pr, pw := io.Pipe()
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		_ = pw.CloseWithError(s.writeLog(ctx, id, pw)) // always nil
	}()
	_, err = s.putArtifact(ctx, artifactIn{
		run: id, attempt: run.Attempt, name: contract.ArtifactEvents, mediaType: "application/x-ndjson", body: pr,
	})
	_ = pr.CloseWithError(io.ErrClosedPipe) // always nil; lets the writer go where the reader stopped early
	<-wrote
	return err
}

// writeLog writes the stored lines, one a line.
func (s *Service) writeLog(ctx context.Context, id contract.RunID, w io.Writer) error {
	for lines, err := range s.follow(ctx, following{run: id}) {
		if err != nil {
			return err
		}
		for _, line := range lines {
			if _, err := w.Write(append(line[:len(line):len(line)], '\n')); err != nil {
				return err
			}
		}
	}
	return nil
}
