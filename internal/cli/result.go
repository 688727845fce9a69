package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// maxPatch bounds a patch that is read whole.
const maxPatch = 512 << 20

// kept is what a run left: a run of this machine, or a bundle that was imported or is named as a
// file.
type kept struct {
	Run   contract.Run
	Files fs.FS
	File  string // the bundle file, "" for a run or an import
	local *Local // nil for a bundle
	done  func() error
}

// result finds what RUN|BUNDLE names. The caller closes it.
func (f *Factory) result(ctx context.Context, runs *Runs, ref string) (*kept, error) {
	if looksLikeFile(ref) {
		return f.openBundle(ref)
	}
	r, err := f.findRun(ctx, runs, ref)
	if err != nil {
		if k := f.imported(ref); k != nil {
			return k, nil
		}
		return nil, err
	}
	list, err := runs.Artifacts(ctx, r.ID)
	if err == nil && r.Status.Terminal() && len(list) > 0 {
		list, err = wholeBundle(ctx, runs, r.ID)
	}
	if err != nil {
		return nil, err
	}
	k := &kept{Run: r, Files: artifactFS{ctx: ctx, runs: runs, id: r.ID, list: list}, local: runs.Local, done: func() error { return nil }}
	if runs.isRemote(r.ID) {
		k.local = nil
	}
	return k, nil
}

func looksLikeFile(ref string) bool {
	if !strings.ContainsAny(ref, "./") {
		return false
	}
	info, err := os.Stat(ref)
	return err == nil && info.Mode().IsRegular()
}

// openBundle unpacks a bundle file into a folder that is removed again.
func (f *Factory) openBundle(path string) (*kept, error) {
	tmp, err := os.MkdirTemp("", "rivumi-bundle-*")
	if err != nil {
		return nil, fmt.Errorf("unpack bundle: %w", err)
	}
	dir := filepath.Join(tmp, "bundle")
	k := &kept{Files: os.DirFS(dir), File: path, done: func() error { return os.RemoveAll(tmp) }}
	if err := unpackFile(path, dir); err != nil {
		_ = k.done()
		return nil, err
	}
	if k.Run, err = readBundleRun(k.Files); err != nil {
		_ = k.done()
		return nil, usagef("give a file that rivumi export wrote", "%w", err)
	}
	return k, nil
}

// imported finds a bundle that was taken in, nil for none.
func (f *Factory) imported(ref string) *kept {
	dir, err := f.importsDir()
	if err != nil {
		return nil
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	prefix := strings.TrimPrefix(ref, "run_")
	if len(prefix) < minPrefix {
		return nil
	}
	for _, n := range names {
		if !strings.HasPrefix(strings.TrimPrefix(n.Name(), "run_"), prefix) {
			continue
		}
		b := os.DirFS(filepath.Join(dir, n.Name()))
		if r, err := readBundleRun(b); err == nil {
			return &kept{Run: r, Files: b, done: func() error { return nil }}
		}
	}
	return nil
}

// read gives a whole artifact of at most limit bytes.
func (k *kept) read(name string, limit int64) ([]byte, error) {
	file, err := k.Files.Open(name)
	if err != nil {
		return nil, usagef("rivumi artifacts "+short(k.Run)+" lists what there is", "run %s left no %s", short(k.Run), name)
	}
	defer file.Close()
	return readAllBounded(file, name, limit)
}

// patch gives the patch of the run and checks it against the digest of its result.
func (k *kept) patch() ([]byte, error) {
	if k.Run.Result == nil || k.Run.Result.Patch == nil {
		if !k.Run.Status.Terminal() {
			return nil, usagef("rivumi attach "+short(k.Run)+" watches it", "run %s is %s and has no patch yet", short(k.Run), k.Run.Status)
		}
		return nil, usagef("rivumi show "+short(k.Run), "run %s left no patch", short(k.Run))
	}
	raw, err := k.read(k.Run.Result.Patch.Artifact, maxPatch)
	if err != nil {
		return nil, err
	}
	if got := sha256Hex(raw); got != k.Run.Result.Patch.SHA256 {
		return nil, fmt.Errorf("the patch of run %s does not match its recorded digest", short(k.Run))
	}
	return raw, nil
}

// task reads the task from the first event of the log.
func (k *kept) task() (contract.Task, error) {
	raw, err := k.read(contract.ArtifactEvents, 1<<30)
	if err != nil {
		return contract.Task{}, err
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	var e contract.Event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		return contract.Task{}, fmt.Errorf("read the log: %w", err)
	}
	d, ok := contract.As[contract.RunQueued](e)
	if !ok {
		return contract.Task{}, fmt.Errorf("read the log: it does not begin with %s", contract.TypeRunQueued)
	}
	return d.Task, nil
}

// withResult opens the runs, finds RUN|BUNDLE and hands both over.
func (f *Factory) withResult(ctx context.Context, ref string, do func(context.Context, *kept) error) error {
	return f.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		k, err := f.result(ctx, runs, ref)
		if err != nil {
			return err
		}
		err = do(ctx, k)
		if cerr := k.done(); err == nil {
			err = cerr
		}
		return err
	})
}
