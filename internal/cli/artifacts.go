package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
)

type artifactsOptions struct {
	*Factory
	Ref, Name string
	Out       string
	All       string
	JSON      bool
	JQ        string
}

func newArtifactsCmd(f *Factory) *cobra.Command {
	cmd := newArtifactsListCmd(f, "artifacts RUN", nil)
	cmd.Short = "List or fetch what a run left"
	cmd.AddCommand(newArtifactsListCmd(f, "list RUN", nil), newArtifactsGetCmd(f, nil))
	return cmd
}

func newArtifactsListCmd(f *Factory, use string, do func(context.Context, *artifactsOptions) error) *cobra.Command {
	o := &artifactsOptions{Factory: f}
	if do == nil {
		do = listArtifacts
	}
	cmd := &cobra.Command{
		Use: use, Short: "List what a run left", Args: args(0, 1),
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref = at(a, 0)
			return do(c.Context(), o)
		},
	}
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	return cmd
}

func newArtifactsGetCmd(f *Factory, do func(context.Context, *artifactsOptions) error) *cobra.Command {
	o := &artifactsOptions{Factory: f}
	if do == nil {
		do = getArtifacts
	}
	cmd := &cobra.Command{
		Use: "get RUN [NAME]", Short: "Fetch one artifact, or all into a folder", Args: args(1, 2),
		Example: "  rivumi artifacts get @last patch.diff -O -\n  rivumi artifacts get @last --all out",
		RunE: func(c *cobra.Command, a []string) error {
			o.Ref, o.Name = a[0], at(a, 1)
			return do(c.Context(), o)
		},
	}
	cmd.Flags().StringVarP(&o.Out, "output-file", "O", "", "write to `FILE`, - for stdout")
	cmd.Flags().StringVar(&o.All, "all", "", "write every artifact into folder `DIR`")
	return cmd
}

// artifactList is the JSON of `artifacts RUN`.
type artifactList struct {
	Artifacts []contract.Artifact `json:"artifacts"`
}

func listArtifacts(ctx context.Context, o *artifactsOptions) error {
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		r, err := o.findRun(ctx, runs, o.Ref)
		if err != nil {
			return err
		}
		list, err := runs.Artifacts(ctx, r.ID)
		if err != nil {
			return err
		}
		if o.JSON || o.JQ != "" {
			if list == nil {
				list = []contract.Artifact{}
			}
			return writeJSON(o.IO.Out, artifactList{list}, o.JQ)
		}
		w := tabwriter.NewWriter(o.IO.Out, 2, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tBYTES\tSHA256")
		for _, a := range list {
			fmt.Fprintf(w, "%s\t%d\t%s\n", clean(a.Name), a.Bytes, clip(a.SHA256, 16))
		}
		w.Flush()
		o.IO.Next("rivumi artifacts get "+short(r)+" "+contract.ArtifactPatch, "rivumi export "+short(r))
		return nil
	})
}

func getArtifacts(ctx context.Context, o *artifactsOptions) error {
	if (o.Name == "") == (o.All == "") {
		return usagef("rivumi artifacts get RUN NAME, or --all DIR", "give either a name or --all DIR")
	}
	return o.withRuns(ctx, func(ctx context.Context, runs *Runs) error {
		r, err := o.findRun(ctx, runs, o.Ref)
		if err != nil {
			return err
		}
		list, err := runs.Artifacts(ctx, r.ID)
		if err != nil {
			return err
		}
		if o.All != "" {
			return getAll(ctx, o, runs, r, list)
		}
		for _, a := range list {
			if a.Name == o.Name {
				return getOne(ctx, o, runs, r, a)
			}
		}
		return usagef("rivumi artifacts "+short(r)+" lists them", "run %s has no artifact %q", short(r), o.Name)
	})
}

func getOne(ctx context.Context, o *artifactsOptions, runs *Runs, r contract.Run, a contract.Artifact) error {
	if o.Out == "-" {
		return copyArtifact(ctx, runs, r, a, o.IO.Out)
	}
	path := firstOf(o.Out, filepath.Base(a.Name))
	if err := saveArtifact(ctx, runs, r, a, path); err != nil {
		return err
	}
	o.IO.Note("wrote %s (%d bytes)", path, a.Bytes)
	o.IO.Next("rivumi verify " + short(r))
	return nil
}

func getAll(ctx context.Context, o *artifactsOptions, runs *Runs, r contract.Run, list []contract.Artifact) error {
	if err := os.MkdirAll(o.All, 0o755); err != nil {
		return fmt.Errorf("write artifacts: %w", err)
	}
	for _, a := range list {
		if err := saveArtifact(ctx, runs, r, a, filepath.Join(o.All, filepath.Base(a.Name))); err != nil {
			return err
		}
	}
	o.IO.Note("wrote %d artifacts to %s", len(list), o.All)
	o.IO.Next("rivumi verify " + short(r))
	return nil
}

// copyArtifact streams an artifact and checks that what came is what is recorded.
func copyArtifact(ctx context.Context, runs contract.Collector, r contract.Run, a contract.Artifact, w io.Writer) error {
	body, err := runs.Artifact(ctx, r.ID, a.Name)
	if err != nil {
		return err
	}
	defer body.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, sum), body); err != nil {
		return fmt.Errorf("read artifact %s: %w", a.Name, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); a.SHA256 != "" && got != a.SHA256 {
		return fmt.Errorf("artifact %s does not match its recorded digest", a.Name)
	}
	return nil
}

func saveArtifact(ctx context.Context, runs contract.Collector, r contract.Run, a contract.Artifact, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write artifact: %w", err)
	}
	return errors.Join(copyArtifact(ctx, runs, r, a, f), f.Close())
}

// readAllBounded reads what is at most limit bytes long.
func readAllBounded(r io.Reader, name string, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read artifact %s: %w", name, err)
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("read artifact %s: larger than %d bytes", name, limit)
	}
	return raw, nil
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
