package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
)

// Factory gives commands what they work with. The functions are for what is expensive or may
// fail; a test replaces the ones it needs.
type Factory struct {
	IO      *IO
	Version string
	Getenv  func(string) string
	Environ []string
	Now     func() time.Time
	Globals Globals

	// Runs opens the runs of this machine. The caller closes them.
	Runs func(ctx context.Context) (*Runs, error)
}

// Runs is the runs of this machine with what ends their use.
type Runs struct {
	contract.Runs
	Local *Local // nil in tests that bring their own runs
	Close func() error
}

// Globals are the flags every command has.
type Globals struct {
	Dir             string // -C
	Profile         string
	Sets            []string
	ConfigFile      string
	NoProjectConfig bool
	Debug           bool
	LogFile         string
	Color           string
	Quiet           bool
	Accessible      bool // plain lines and prompts, for screen readers
}

// NewFactory wires the real program.
func NewFactory(version string) *Factory {
	f := &Factory{
		IO: SystemIO(os.Getenv), Version: version, Getenv: os.Getenv, Environ: os.Environ(), Now: time.Now,
	}
	f.Runs = f.openRuns
	return f
}

// WorkDir is the folder the command works in: -C, or the current one.
func (f *Factory) WorkDir() (string, error) {
	dir := f.Globals.Dir
	if dir == "" {
		dir = "."
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the working folder: %w", err)
	}
	info, err := os.Stat(abs)
	if err != nil || !info.IsDir() {
		return "", usagef("give an existing folder", "-C %q is not a folder", dir)
	}
	return abs, nil
}

// StateDir is where runs are kept: RIVUMI_STATE_DIR, else rivumi in the XDG state folder. It is
// not made here.
func (f *Factory) StateDir() (string, error) {
	if d := f.Getenv("RIVUMI_STATE_DIR"); d != "" {
		return filepath.Abs(d)
	}
	base := f.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home := f.Getenv("HOME")
		if home == "" {
			return "", usagef("set HOME or RIVUMI_STATE_DIR", "there is no folder for the state of runs")
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "rivumi"), nil
}

// UserConfigFile is the user's settings file: --config, RIVUMI_CONFIG, or the XDG place.
func (f *Factory) UserConfigFile() string {
	if f.Globals.ConfigFile != "" {
		return f.Globals.ConfigFile
	}
	if p := f.Getenv("RIVUMI_CONFIG"); p != "" {
		return p
	}
	base := f.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home := f.Getenv("HOME")
		if home == "" {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "rivumi", "config.toml")
}

// Trust reads the trust store.
func (f *Factory) Trust() (config.Trust, error) {
	dir, err := f.StateDir()
	if err != nil {
		return config.Trust{}, err
	}
	return config.OpenTrust(filepath.Join(dir, "trust.json"))
}

// Config resolves the settings for the repository around the working folder, if there is one.
func (f *Factory) Config() (*config.Config, error) {
	root := ""
	if dir, err := f.WorkDir(); err != nil {
		return nil, err
	} else {
		root = repositoryRoot(dir)
	}
	trust, err := f.Trust()
	if err != nil {
		return nil, err
	}
	file := f.UserConfigFile()
	if f.Globals.ConfigFile != "" {
		if _, err := os.Stat(file); err != nil {
			return nil, usagef("give an existing file", "--config %q cannot be read", file)
		}
	}
	profile := f.Globals.Profile
	if profile == "" {
		profile = f.Getenv("RIVUMI_PROFILE")
	}
	return config.Load(config.Sources{
		UserFile: file, Root: root, Environ: f.Environ, Sets: f.Globals.Sets,
		Profile: profile, Trust: trust, NoProject: f.Globals.NoProjectConfig,
	})
}

// repositoryRoot finds the folder at or above dir that holds .git, without starting git: only the
// place of the project's settings depends on it.
func repositoryRoot(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}
