package workspace

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/rivumi/rivumi/internal/contract"
)

// MaxPatchBytes bounds a patch that is looked at.
const MaxPatchBytes = 512 << 20

// PatchFile is one file of a patch as its text says.
type PatchFile struct {
	Old, New string // "" for an added, a deleted file
	Mode     string // after the change, where the patch tells it
	Text     []byte // its part of the patch
}

// Paths are the paths the file touches, both sides of a rename.
func (f PatchFile) Paths() []string {
	switch {
	case f.Old == "" || f.Old == f.New:
		return []string{f.New}
	case f.New == "":
		return []string{f.Old}
	}
	return []string{f.Old, f.New}
}

// PatchPaths lists every path a patch touches, both sides of renames, in its order.
func PatchPaths(patch []byte) ([]string, error) {
	files, err := splitPatch(patch)
	if err != nil {
		return nil, err
	}
	var paths []string
	seen := map[string]bool{}
	for _, f := range files {
		for _, p := range f.Paths() {
			if !seen[p] {
				seen[p] = true
				paths = append(paths, p)
			}
		}
	}
	return paths, nil
}

// CheckPatch reads a patch that is not trusted and gives its files and every rule it breaks:
// paths outside allowed (no pattern allows all), a .git at any depth and in any disguise, modes
// other than 100644, 100755 and 120000, links that lead out of the tree, submodules, copies. The
// code of a refusal is the failure code a run ends with: path_policy_violation or result_invalid.
func CheckPatch(patch []byte, allowed []string) ([]PatchFile, []contract.Refusal) {
	files, err := splitPatch(patch)
	if err != nil {
		return nil, []contract.Refusal{{Field: "patch", Code: string(contract.FailResult), Detail: contract.CleanText(err.Error())}}
	}
	var refusals []contract.Refusal
	refuse := func(code contract.FailureCode, p, format string, args ...any) {
		if len(refusals) < contract.MaxRefusals {
			refusals = append(refusals, contract.Refusal{Field: contract.CleanText(p), Code: string(code), Detail: contract.CleanText(fmt.Sprintf(format, args...))})
		}
	}
	for _, f := range files {
		for _, p := range f.Paths() {
			if why := goodPath(p); why != "" {
				refuse(contract.FailPaths, p, "the path %s", why)
			} else if !contract.Allowed(allowed, p) {
				refuse(contract.FailPaths, p, "the path is outside the allowed paths")
			}
		}
		if why := badChange(f.Text); why != "" {
			refuse(contract.FailResult, f.Paths()[0], "%s", why)
		}
	}
	return files, refusals
}

// splitPatch cuts a patch into its files, and reads each part on its own, so that no part can hold a second file.
func splitPatch(patch []byte) ([]PatchFile, error) {
	if len(patch) > MaxPatchBytes {
		return nil, contract.Errorf(contract.KindTooLarge, "the patch is %d bytes, more than %d", len(patch), MaxPatchBytes)
	}
	const head = "diff --git "
	if len(patch) > 0 && !bytes.HasPrefix(patch, []byte(head)) {
		return nil, contract.Errorf(contract.KindInvalid, "the patch does not begin with a file")
	}
	var files []PatchFile
	for len(patch) > 0 {
		end := bytes.Index(patch[1:], []byte("\n"+head))
		part := patch
		if end >= 0 {
			part = patch[:end+2]
		}
		patch = patch[len(part):]
		f, err := parsePart(part)
		if err != nil {
			return nil, err
		}
		files = append(files, PatchFile{Old: oldName(f), New: newName(f), Mode: modeText(f), Text: part})
	}
	return files, nil
}

// parsePart reads the patch of one file.
func parsePart(part []byte) (*gitdiff.File, error) {
	parsed, preamble, err := gitdiff.Parse(bytes.NewReader(part))
	if err != nil {
		return nil, contract.Errorf(contract.KindInvalid, "read the patch: %w", err)
	}
	if len(parsed) != 1 || strings.TrimSpace(preamble) != "" {
		return nil, contract.Errorf(contract.KindInvalid, "a part of the patch holds %d files", len(parsed))
	}
	return parsed[0], nil
}

func oldName(f *gitdiff.File) string {
	if f.IsNew {
		return ""
	}
	return f.OldName
}

func newName(f *gitdiff.File) string {
	if f.IsDelete {
		return ""
	}
	return f.NewName
}

func newMode(f *gitdiff.File) fs.FileMode {
	if f.NewMode != 0 {
		return f.NewMode
	}
	return f.OldMode
}

func modeText(f *gitdiff.File) string {
	if m := newMode(f); m != 0 && !f.IsDelete {
		return fmt.Sprintf("%o", uint32(m))
	}
	return ""
}

// badChange says what is wrong with the change of one file besides its path, "" for nothing.
func badChange(part []byte) string {
	f, err := parsePart(part)
	if err != nil {
		return err.Error()
	}
	if f.IsCopy {
		return "copies are not taken"
	}
	for _, m := range []fs.FileMode{f.OldMode, f.NewMode} {
		switch m {
		case 0, modeFile, modeExec, modeLink:
		case modeGit:
			return "submodule pointers are not taken"
		default:
			return fmt.Sprintf("mode %o is not taken", uint32(m))
		}
	}
	if f.OldMode != 0 && f.NewMode != 0 && (f.OldMode == modeLink) != (f.NewMode == modeLink) {
		return "a link and a file are not changed into each other in place"
	}
	if f.IsBinary && f.BinaryFragment == nil {
		return "a binary change carries no data"
	}
	if newMode(f) == modeLink && !f.IsDelete {
		return badLink(f)
	}
	return ""
}

// badLink looks at the target of an added or changed link.
func badLink(f *gitdiff.File) string {
	if f.IsBinary {
		return "the target of a link is not text"
	}
	var target strings.Builder
	for _, frag := range f.TextFragments {
		if frag.NewPosition > 1 {
			return "the target of a link is not shown whole"
		}
		for _, l := range frag.Lines {
			if l.New() {
				target.WriteString(l.Line)
			}
		}
	}
	if len(f.TextFragments) > 0 && !linkStays(f.NewName, target.String()) {
		return fmt.Sprintf("the link leads to %q, out of the tree", target.String())
	}
	return ""
}
