package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
	"github.com/rivumi/rivumi/internal/workspace"
)

// hold holds what a box reports against its source: the patch is read and applied here, not believed.
// What breaks a rule ends the run as failed, and the raw patch stays as patch.rejected.diff.
func (p placing) hold(ctx context.Context, j host.Job, e contract.Ending) contract.Ending {
	if e.Result == nil {
		return e
	}
	patch, err := readPatch(j.Dir)
	if errors.Is(err, os.ErrNotExist) && e.Result.Patch == nil && len(e.Result.ChangedFiles) == 0 {
		return e
	}
	code, why := contract.FailResult, ""
	if err != nil {
		why = "the patch cannot be read"
	} else {
		code, why = p.judgePatch(ctx, j, *e.Result, patch)
	}
	if why == "" || ctx.Err() != nil {
		return e
	}
	if len(patch) > 0 {
		if _, err := j.Session.PutArtifact(ctx, contract.ArtifactRejected, "text/x-diff", bytes.NewReader(patch)); err != nil {
			why += "; the patch could not be kept"
		}
	}
	r := *e.Result
	r.Outcome = ""
	out := contract.Ending{State: contract.Failed, Result: &r, Error: &contract.Failure{Code: code, Message: oneLine(why)}}
	if e.State == contract.Cancelled {
		out.State = contract.Cancelled
	}
	return out
}

// maxHeldPatch bounds a patch that is read into memory.
const maxHeldPatch = 128 << 20

func readPatch(runDir string) ([]byte, error) {
	return readBounded(filepath.Join(runDir, "artifacts", contract.ArtifactPatch), maxHeldPatch)
}

// judgePatch says which rule a patch breaks, "" for none.
func (p placing) judgePatch(ctx context.Context, j host.Job, r contract.Result, patch []byte) (contract.FailureCode, string) {
	sum := sha256.Sum256(patch)
	if r.Patch == nil && len(patch) > 0 || r.Patch != nil && r.Patch.SHA256 != hex.EncodeToString(sum[:]) {
		return contract.FailResult, "the result names another patch than was sent"
	}
	files, refusals := workspace.CheckPatch(patch, j.Task.AllowedPaths)
	if len(refusals) > 0 {
		worst := refusals[0]
		if i := slices.IndexFunc(refusals, func(r contract.Refusal) bool { return r.Code == string(contract.FailPaths) }); i >= 0 {
			worst = refusals[i]
		}
		return contract.FailureCode(worst.Code), worst.Field + ": " + worst.Detail
	}
	if why := sameFiles(files, r.ChangedFiles); why != "" {
		return contract.FailResult, why
	}
	if len(files) == 0 {
		return "", ""
	}
	if err := applies(ctx, j, patch); err != nil {
		return contract.FailResult, "the patch does not apply to the source: " + err.Error()
	}
	return "", ""
}

// sameFiles compares the files a patch changes with those the result tells of.
func sameFiles(files []workspace.PatchFile, told []contract.FileChange) string {
	var real, claimed []string
	for _, f := range files {
		real = append(real, f.Paths()...)
	}
	for _, c := range told {
		claimed = append(claimed, c.Path)
		if c.OldPath != "" {
			claimed = append(claimed, c.OldPath)
		}
	}
	for _, l := range []*[]string{&real, &claimed} {
		slices.Sort(*l)
		*l = slices.Compact(*l)
	}
	if !slices.Equal(real, claimed) {
		return fmt.Sprintf("the result tells of %d changed files, the patch changes %d others or more", len(claimed), len(real))
	}
	return ""
}

// applies lays the source anew and looks whether the patch applies to it.
func applies(ctx context.Context, j host.Job, patch []byte) (err error) {
	dir := filepath.Join(j.Dir, "held")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	rep, err := laySource(ctx, j, filepath.Join(dir, "checkout"))
	if err != nil {
		return err
	}
	repo, err := workspace.Discover(ctx, rep.Path)
	if err != nil {
		return err
	}
	_, err = workspace.Apply(ctx, workspace.ApplyOptions{Repo: repo, Patch: patch, Check: true, Dir: filepath.Join(dir, "receipt")})
	return err
}
