package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/sandbox/docker"
	"github.com/rivumi/rivumi/internal/sandbox/proc"
)

type doctorOptions struct {
	*Factory
	JSON    bool
	JQ      string
	Sandbox bool
}

func newDoctorCmd(f *Factory, do func(context.Context, *doctorOptions) error) *cobra.Command {
	o := &doctorOptions{Factory: f}
	if do == nil {
		do = runDoctor
	}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Look whether this machine has what runs need", Args: args(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return do(c.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.Sandbox, "sandbox", false, "attack the sandbox with fresh canaries and tell what stopped what")
	addOutputFlags(cmd.Flags(), &o.JSON, &o.JQ)
	return cmd
}

// finding is one thing the doctor looked at.
type finding struct {
	Name   string `json:"name"`
	Level  string `json:"level"` // ok, warning, error; missing for a tier that is not there
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// diagnosis is the JSON of `doctor`.
type diagnosis struct {
	OK       bool      `json:"ok"`
	Findings []finding `json:"findings"`
}

func runDoctor(ctx context.Context, o *doctorOptions) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	if o.Sandbox {
		return o.runAttacks(ctx)
	}
	d := diagnosis{OK: true, Findings: []finding{checkGit(ctx), o.checkState(), o.checkConfig(), o.checkModels()}}
	d.Findings = append(d.Findings, checkSandbox(ctx)...)
	d.Findings = append(d.Findings, o.checkDocker(ctx))
	for _, f := range d.Findings {
		d.OK = d.OK && f.Level != "error"
	}
	if o.JSON || o.JQ != "" {
		if err := writeJSON(o.IO.Out, d, o.JQ); err != nil {
			return err
		}
	} else {
		for _, f := range d.Findings {
			fmt.Fprintf(o.IO.Out, "%-8s %-8s %s\n", f.Level, f.Name, oneLine(f.Detail))
			if f.Hint != "" {
				fmt.Fprintf(o.IO.Out, "                  %s\n", oneLine(f.Hint))
			}
		}
		o.IO.Next("rivumi demo", "rivumi models")
	}
	if !d.OK {
		return ended(contract.ExitFailed)
	}
	return nil
}

func checkGit(ctx context.Context) finding {
	path, err := exec.LookPath("git")
	if err != nil {
		return finding{"git", "error", "git is not in PATH", "install git 2.30 or newer"}
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return finding{"git", "error", "git does not start: " + err.Error(), "install git 2.30 or newer"}
	}
	return finding{Name: "git", Level: "ok", Detail: oneLine(string(out)) + " at " + path}
}

func (o *doctorOptions) checkState() finding {
	dir, err := o.StateDir()
	if err != nil {
		return finding{"state", "error", err.Error(), "set HOME or RIVUMI_STATE_DIR"}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return finding{"state", "error", err.Error(), "set RIVUMI_STATE_DIR to a folder of yours"}
	}
	probe := filepath.Join(dir, ".doctor")
	if err := os.WriteFile(probe, []byte("x"), 0o600); err != nil {
		return finding{"state", "error", "not writable: " + err.Error(), "set RIVUMI_STATE_DIR to a folder of yours"}
	}
	_ = os.Remove(probe)
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o077 != 0 {
		return finding{"state", "warning", dir + " can be read by others", "chmod 700 " + dir}
	}
	return finding{Name: "state", Level: "ok", Detail: dir}
}

func (o *doctorOptions) checkConfig() finding {
	c, err := o.Config()
	if err != nil {
		text, hint := describe(err)
		return finding{"config", "error", text, hint}
	}
	if c.Untrusted != "" {
		return finding{"config", "warning", c.Untrusted + " is not trusted and not used", "rivumi config trust shows it"}
	}
	return finding{Name: "config", Level: "ok", Detail: o.UserConfigFile() + missing(o.UserConfigFile())}
}

// checkSandbox tries every local tier for real: one that runs commands is enough, the strongest
// counts. Without one a run is refused unless it asks for none.
func checkSandbox(ctx context.Context) []finding {
	report := proc.Detect(ctx)
	best := finding{Name: "sandbox", Level: "ok", Detail: "runs are held by tier " + string(report.Best)}
	if report.Best == "" {
		best = finding{"sandbox", "warning", "no tier can be had here: runs are refused with exit code 7", "-s none runs without one; rivumi help sandbox"}
	}
	out := []finding{best}
	for _, t := range report.Tiers {
		if t.Available {
			out = append(out, finding{Name: "tier " + string(t.Tier), Level: "ok", Detail: layersText(t.Layers)})
			continue
		}
		out = append(out, finding{"tier " + string(t.Tier), "missing", t.Missing, t.Hint})
	}
	return out
}

func layersText(layers map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(layers)) {
		parts = append(parts, name+" "+layers[name])
	}
	return firstOf(strings.Join(parts, ", "), "no layers")
}

// checkDocker asks for a container engine. None is no fault: containers are used where they are asked for.
func (o *doctorOptions) checkDocker(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, dockerPatience)
	defer cancel()
	name := docker.DefaultImage
	if c, err := o.Config(); err == nil {
		name = firstOf(c.String("image"), name)
	}
	a, err := docker.New(docker.Options{Image: name}).About(ctx)
	if err != nil {
		return finding{Name: "docker", Level: "ok", Detail: "not to be had (-s docker only): " + err.Error()}
	}
	out := finding{Name: "docker", Level: "ok", Detail: "engine " + a.Version + ", runtime " + a.Runtime + ", image " + name}
	if !a.Images {
		out.Detail += " is not there"
		out.Hint = "deploy/docker makes the default image; --image names another"
	}
	return out
}

// dockerPatience is how long an engine may take to answer the doctor.
const dockerPatience = 10 * time.Second
