package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

const (
	uploadDir = "uploads"
	// SourceFile is the name of a run's uploaded source in the run's folder, pinned there when the run
	// is created, so that it does not expire under it.
	SourceFile = "source"
	sourceInfo = "source.json"
	// maxUploads bounds the uploads of one principal that wait for a run, and uploadShare their bytes
	// as a multiple of the largest upload.
	maxUploads  = 64
	uploadShare = 4
)

// UploadInfo is what is known of a finished upload.
type UploadInfo struct {
	ID        string        `json:"id"`
	MediaType string        `json:"mediaType"`
	Bytes     int64         `json:"bytes"`
	SHA256    string        `json:"sha256"`
	Expires   contract.Time `json:"expiresAt"`
}

// uploadsOf is the folder of a principal's uploads. Principals share nothing, not even equal bytes:
// otherwise a digest would tell what others work on.
func (s *Service) uploadsOf(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return filepath.Join(s.opt.Dir, uploadDir, hex.EncodeToString(sum[:16]))
}

// storeUpload reads the body of the request into an upload of its principal.
func (v *visit) storeUpload(ctx context.Context, e control.StoreUpload) {
	dir := v.s.uploadsOf(e.Principal)
	if err := v.s.roomForUpload(dir, e.MaxBytes); err != nil {
		v.refuse(err)
		return
	}
	body := &patientReader{r: http1(v, e.MaxBytes+1), v: v}
	temp, n, sum, err := spoolTo(ctx, dir, body)
	if err != nil {
		v.refuse(err)
		return
	}
	resp := v.s.core.UploadStored(e, n, sum, v.req.ID)
	if resp.Status < 400 {
		info := UploadInfo{ID: e.ID, MediaType: e.MediaType, Bytes: n, SHA256: sum, Expires: contract.At(e.Expires)}
		if err = publishUpload(dir, temp, info); err != nil {
			err = fmt.Errorf("keep upload: %w", diskFull(err))
		}
	}
	if rerr := os.Remove(temp); err == nil && !errors.Is(rerr, os.ErrNotExist) {
		err = rerr
	}
	if err != nil {
		v.refuse(err)
		return
	}
	v.answer(resp)
}

// http1 is the body of the request, cut one byte after what may come.
func http1(v *visit, most int64) io.Reader { return io.LimitReader(v.r.Body, most) }

// spoolTo writes a body to a synced temporary file in a 0700 folder.
func spoolTo(ctx context.Context, dir string, body io.Reader) (temp string, n int64, sum string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", 0, "", fmt.Errorf("make upload folder: %w", err)
	}
	f, err := os.CreateTemp(dir, ".new-*") // 0600
	if err != nil {
		return "", 0, "", fmt.Errorf("store upload: %w", diskFull(err))
	}
	h := sha256.New()
	n, err = io.Copy(io.MultiWriter(f, h), body)
	if err == nil {
		err = f.Sync()
	} else if _, disk := errors.AsType[*os.PathError](err); !disk {
		err = contract.Errorf(contract.KindInvalid, "the body could not be read")
	}
	if err == nil {
		err = ctx.Err()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", 0, "", errors.Join(diskFull(err), os.Remove(f.Name()))
	}
	return f.Name(), n, hex.EncodeToString(h.Sum(nil)), nil
}

// publishUpload links the bytes under the id, then writes what is known of them: an upload that can
// be found always has its bytes.
func publishUpload(dir, temp string, info UploadInfo) error {
	if err := os.Link(temp, filepath.Join(dir, info.ID)); err != nil {
		return err
	}
	meta, err := writeTemp(dir, contract.MarshalJSON(info))
	if err == nil {
		err = os.Rename(meta, filepath.Join(dir, info.ID+".json"))
	}
	if err == nil {
		err = syncDir(dir)
	}
	return err
}

// uploads lists what a folder holds and removes what has expired.
func (s *Service) uploads(dir string) ([]UploadInfo, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at uploads: %w", err)
	}
	var out []UploadInfo
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			s.sweepSpool(dir, e)
			continue
		}
		info, err := readUpload(dir, id)
		if err != nil || !s.opt.Now().Before(info.Expires.Time) {
			_ = os.Remove(filepath.Join(dir, e.Name())) // tidying; the record goes first
			_ = os.Remove(filepath.Join(dir, id))
			continue
		}
		out = append(out, info)
	}
	return out, nil
}

// sweepSpool removes a body that was never finished, and bytes whose record is gone.
func (s *Service) sweepSpool(dir string, e os.DirEntry) {
	info, err := e.Info()
	if err != nil || s.opt.Now().Sub(info.ModTime()) < control.UploadLife {
		return
	}
	_ = os.Remove(filepath.Join(dir, e.Name())) // tidying
}

func readUpload(dir, id string) (info UploadInfo, err error) {
	if !strings.HasPrefix(id, "upl_") || !control.ArtifactName(strings.TrimPrefix(id, "upl_")) {
		return info, os.ErrNotExist
	}
	b, err := os.ReadFile(filepath.Join(dir, id+".json"))
	if err == nil {
		err = json.Unmarshal(b, &info)
	}
	return info, err
}

// roomForUpload refuses a principal that has too much waiting.
func (s *Service) roomForUpload(dir string, most int64) error {
	list, err := s.uploads(dir)
	if err != nil {
		return err
	}
	var bytes int64
	for _, u := range list {
		bytes += u.Bytes
	}
	if len(list) >= maxUploads || bytes > uploadShare*most {
		return contract.Errorf(contract.KindTooManyRequests, "%d uploads wait for a run already; they expire after %s", len(list), control.UploadLife)
	}
	return nil
}

// findUpload answers whether the principal has an upload of a digest. The header Upload-Id names it,
// so that it can be used without being sent again.
func (v *visit) findUpload(e control.FindUpload) {
	list, err := v.s.uploads(v.s.uploadsOf(e.Principal))
	if err != nil {
		v.refuse(err)
		return
	}
	resp := v.s.core.UploadFound(false, v.req.ID)
	for _, u := range list {
		// One that is about to expire would be gone before the run is created.
		if u.SHA256 == e.SHA256 && u.Expires.Sub(v.env.Now) > 10*time.Minute {
			resp = v.s.core.UploadFound(true, v.req.ID)
			resp.Header = map[string]string{"Upload-Id": u.ID}
		}
	}
	v.answer(resp)
}

// pinUpload gives a new run its own link to the source that its task names. It is called inside the
// transaction that creates the run: a source that is not there refuses it.
func (s *Service) pinUpload(principal string, id contract.RunID, t contract.Task) error {
	if t.Upload == nil {
		return nil
	}
	dir := s.uploadsOf(principal)
	info, err := readUpload(dir, t.Upload.ID)
	if err != nil || !s.opt.Now().Before(info.Expires.Time) {
		return contract.Refuse([]contract.Refusal{{Field: "upload.id", Code: "unknown_upload", Detail: "must be the id of a finished upload that has not expired"}})
	}
	run := s.dir(id)
	if err := os.MkdirAll(run, 0o700); err != nil {
		return fmt.Errorf("make run folder: %w", diskFull(err))
	}
	temp, err := writeTemp(run, contract.MarshalJSON(info))
	if err == nil {
		err = os.Rename(temp, filepath.Join(run, sourceInfo))
	}
	if err == nil {
		err = ignoreExist(os.Link(filepath.Join(dir, info.ID), filepath.Join(run, SourceFile)))
	}
	if err != nil {
		return fmt.Errorf("pin upload: %w", diskFull(err))
	}
	return syncDir(run)
}

// Source opens the uploaded source of a run whose task names one. The caller closes the file.
func Source(runDir string) (*os.File, UploadInfo, error) {
	var info UploadInfo
	b, err := os.ReadFile(filepath.Join(runDir, sourceInfo))
	if err == nil {
		err = json.Unmarshal(b, &info)
	}
	if err != nil {
		return nil, info, fmt.Errorf("read uploaded source: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(runDir, SourceFile), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, info, fmt.Errorf("open uploaded source: %w", err)
	}
	return f, info, nil
}
