package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
)

type exportOptions struct {
	*Factory
	Ref, Out string
	Sanitize bool
}

func newExportCmd(f *Factory, do func(context.Context, *exportOptions) error) *cobra.Command {
	o := &exportOptions{Factory: f}
	if do == nil {
		do = runExport
	}
	cmd := &cobra.Command{
		Use: "export RUN [FILE]", Short: "Write a run's bundle to a file", Args: args(0, 2),
		Example: "  rivumi export @last fix.tar.gz\n  rivumi export @last --sanitize -",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref, o.Out = at(a, 0), at(a, 1)
			return do(c.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.Sanitize, "sanitize", false, "leave the task and the conversation out")
	return cmd
}

func runExport(ctx context.Context, o *exportOptions) error {
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		r, err := o.findRun(ctx, runs, o.Ref)
		if err != nil {
			return err
		}
		if !r.Status.Terminal() {
			return usagef("rivumi attach "+short(r)+" watches it", "run %s is %s and has no bundle yet", short(r), r.Status)
		}
		out := firstOf(o.Out, "rivumi-"+short(r)+".tar.gz")
		if out == "-" {
			return packRun(ctx, runs, r, o.IO.Out, o.Sanitize)
		}
		if err := exportRun(ctx, runs, r, out, o.Sanitize); err != nil {
			return err
		}
		fmt.Fprintln(o.IO.Out, out)
		o.IO.Next("rivumi verify "+quoteWord(out), "rivumi import "+quoteWord(out))
		return nil
	})
}

// exportRun writes a run's bundle to a file, all or nothing.
func exportRun(ctx context.Context, runs contract.Collector, r contract.Run, path string, sanitize bool) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".rivumi-*")
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	err = packRun(ctx, runs, r, tmp, sanitize)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

func packRun(ctx context.Context, runs contract.Collector, r contract.Run, w io.Writer, sanitize bool) error {
	list, err := wholeBundle(ctx, runs, r.ID)
	if err != nil {
		return err
	}
	return bundle.Pack(w, artifactFS{ctx: ctx, runs: runs, id: r.ID, list: list}, bundle.PackOptions{Sanitize: sanitize})
}

// logWait bounds the wait for the stored log of a run that has just ended: its owner writes it
// right after the terminal event.
const logWait = 10 * time.Second

// wholeBundle lists a run's artifacts once the log is among them.
func wholeBundle(ctx context.Context, runs contract.Collector, id contract.RunID) ([]contract.Artifact, error) {
	end := time.NewTimer(logWait)
	defer end.Stop()
	for {
		list, err := runs.Artifacts(ctx, id)
		if err != nil || slices.ContainsFunc(list, func(a contract.Artifact) bool { return a.Name == contract.ArtifactEvents }) {
			return list, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-end.C:
			return list, nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// artifactFS shows a run's artifacts as files of one folder. It is for one call; the context ends
// the reads.
type artifactFS struct {
	ctx  context.Context
	runs contract.Collector
	id   contract.RunID
	list []contract.Artifact
}

// Open implements [fs.FS].
func (a artifactFS) Open(name string) (fs.File, error) {
	if name == "." {
		return &artifactDir{fs: a}, nil
	}
	for _, art := range a.list {
		if art.Name != name {
			continue
		}
		body, err := a.runs.Artifact(a.ctx, a.id, name)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return &artifactFile{ReadCloser: body, info: artifactInfo{art}}, nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

type artifactFile struct {
	io.ReadCloser
	info artifactInfo
}

// Stat implements [fs.File].
func (f *artifactFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// artifactDir is the folder itself.
type artifactDir struct {
	fs artifactFS
	at int
}

// Stat implements [fs.File].
func (d *artifactDir) Stat() (fs.FileInfo, error) {
	return artifactInfo{contract.Artifact{Name: "."}}, nil
}

// Read implements [fs.File].
func (d *artifactDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: ".", Err: errors.ErrUnsupported}
}

// Close implements [fs.File].
func (d *artifactDir) Close() error { return nil }

// ReadDir implements [fs.ReadDirFile].
func (d *artifactDir) ReadDir(n int) ([]fs.DirEntry, error) {
	rest := d.fs.list[d.at:]
	if n > 0 && len(rest) == 0 {
		return nil, io.EOF
	}
	if n > 0 && len(rest) > n {
		rest = rest[:n]
	}
	out := make([]fs.DirEntry, len(rest))
	for i, a := range rest {
		out[i] = fs.FileInfoToDirEntry(artifactInfo{a})
	}
	d.at += len(rest)
	return out, nil
}

// newImportCmd takes a bundle in, so that its run can be looked at and applied here.
type importOptions struct {
	*Factory
	File string
	JSON bool
	JQ   string
}

func newImportCmd(f *Factory, do func(context.Context, *importOptions) error) *cobra.Command {
	o := &importOptions{Factory: f}
	if do == nil {
		do = runImport
	}
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Take a bundle in, to look at and apply", Args: args(1, 1),
		RunE: func(c *cobra.Command, a []string) error {
			o.File = a[0]
			return do(c.Context(), o)
		},
	}
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	return cmd
}

func runImport(ctx context.Context, o *importOptions) error {
	dir, err := o.importsDir()
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+filepath.Base(o.File)+".new")
	if err := unpackFile(o.File, tmp); err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	report, err := bundle.Check(os.DirFS(tmp))
	if err != nil {
		return usagef("give a file that rivumi export wrote", "read bundle: %w", err)
	}
	if !report.OK() {
		return &failure{contract.ExitFailed, fmt.Errorf("the bundle is not whole: %s", findings(report)), "rivumi verify " + quoteWord(o.File)}
	}
	id := report.Manifest.RunID
	if !id.WellFormed() {
		return usagef("give a file that rivumi export wrote", "the bundle names no run")
	}
	to := filepath.Join(dir, string(id))
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("import bundle: %w", err)
	}
	if err := os.Rename(tmp, to); err != nil {
		return fmt.Errorf("import bundle: %w", err)
	}
	if o.JSON || o.JQ != "" {
		return writeJSON(o.IO.Out, report, o.JQ)
	}
	fmt.Fprintln(o.IO.Out, id)
	o.IO.Next("rivumi diff "+id.Short(), "rivumi apply "+id.Short(), "rivumi verify "+id.Short())
	return ctx.Err()
}

// importsDir is where bundles of other places are kept.
func (f *Factory) importsDir() (string, error) {
	state, err := f.StateDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(state, "imports")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of imports: %w", err)
	}
	return dir, nil
}

func unpackFile(path, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("unpack bundle: %w", err)
	}
	in, err := os.Open(path)
	if err != nil {
		return usagef("give a file that rivumi export wrote", "open bundle: %w", err)
	}
	defer in.Close()
	if err := bundle.Unpack(in, dir, bundle.DefaultLimits()); err != nil {
		return usagef("give a file that rivumi export wrote", "%w", err)
	}
	return nil
}

// findings joins what is wrong with a bundle.
func findings(r *bundle.Report) string {
	text := ""
	for _, f := range r.Findings {
		if !f.Note {
			text += suffix("; ", fmt.Sprintf("%s: %s", f.Artifact, f.Detail))
		}
	}
	if len(text) > 2 {
		text = text[2:]
	}
	return text
}

// readBundleRun rebuilds the run of an unpacked bundle from its result and its log.
func readBundleRun(b fs.FS) (contract.Run, error) {
	var doc bundle.ResultDoc
	raw, err := fs.ReadFile(b, contract.ArtifactResult)
	if err == nil {
		err = json.Unmarshal(raw, &doc)
	}
	if err != nil {
		return contract.Run{}, fmt.Errorf("read bundle: %w", err)
	}
	r := contract.Run{ID: doc.RunID, Status: doc.State, Result: doc.Result, Error: doc.Error}
	if doc.Result != nil {
		r.BaseSHA = doc.Result.BaseSHA
	}
	return r, nil
}
