package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/config"
	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/model/providers"
	"github.com/rivumi/rivumi/internal/model/redact"
	"github.com/rivumi/rivumi/internal/model/scripted"
	"github.com/rivumi/rivumi/internal/runner"
)

// demoModel is the name of the model of `rivumi demo`.
const demoModel = "demo"

// keyCommandTime bounds the command that prints a key.
const keyCommandTime = 30 * time.Second

// modelSource finds models by the names of tasks. It holds the provider keys of this process and
// hands them to adapters only: they are in no argument, no event and no child's environment.
type modelSource struct {
	f    *Factory
	c    *config.Config
	keys map[string]string // those that were read, by name
}

// models reads the keys that a command gives, if one is configured.
func (f *Factory) models(ctx context.Context, c *config.Config) (*modelSource, error) {
	m := &modelSource{f: f, c: c, keys: map[string]string{}}
	if line := c.String("api_key_cmd"); line != "" {
		key, err := runKeyCommand(ctx, line)
		if err != nil {
			return nil, &failure{contract.ExitCredentials, err, "rivumi config explain api_key_cmd"}
		}
		m.keys["api_key_cmd"] = key
	}
	for _, name := range c.Names() {
		provider, isCmd := strings.CutSuffix(strings.TrimPrefix(name, "providers."), ".key_cmd")
		if !isCmd || !strings.HasPrefix(name, "providers.") {
			continue
		}
		key, err := runKeyCommand(ctx, c.String(name))
		if err != nil {
			return nil, &failure{contract.ExitCredentials, err, "rivumi config explain " + name}
		}
		m.keys[provider] = key
	}
	return m, nil
}

// runKeyCommand runs a command of the user's own settings, without a shell, and gives its first line.
func runKeyCommand(ctx context.Context, line string) (string, error) {
	argv, err := splitCheck(line)
	if err != nil {
		return "", fmt.Errorf("key command: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, keyCommandTime)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, os.Stderr, time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("key command %q: %w", argv[0], err)
	}
	key, _, _ := strings.Cut(strings.TrimSpace(out.String()), "\n")
	if key == "" {
		return "", fmt.Errorf("key command %q printed nothing", argv[0])
	}
	return key, nil
}

// settings are what a provider needs beside the model's name.
func (m *modelSource) settings(name string, dir string) providers.Settings {
	provider, _ := providers.Split(name)
	s := providers.Settings{BaseURL: m.c.String("provider_url"), Workdir: dir}
	at := "providers." + provider + "."
	if url := m.c.String(at + "url"); url != "" && s.BaseURL == "" {
		s.BaseURL = url
	}
	s.Wire, s.KeyName = m.c.String(at+"api"), m.c.String(at+"key_env")
	s.Key = func(env string) string {
		return firstOf(m.keys[provider], m.keys["api_key_cmd"], m.f.Getenv(env))
	}
	return s
}

// open opens a model without asking it anything.
func (m *modelSource) open(name, dir string) (runner.ModelSetup, error) {
	if name == demoModel {
		p, err := scripted.Parse([]byte(demoScript))
		return runner.ModelSetup{Model: p, Name: demoModel}, err
	}
	opened, info, err := providers.Open(name, m.settings(name, dir))
	if err != nil {
		return runner.ModelSetup{}, err
	}
	set := runner.ModelSetup{Model: opened, Name: info.Model, Context: info.Facts.Context}
	if price := info.Facts.Price; price != nil {
		set.Price = price.Cost
	}
	return set, nil
}

// setup gives the model of a task.
func (m *modelSource) setup(_ context.Context, t contract.Task) (runner.ModelSetup, error) {
	dir := ""
	if t.Repository != nil {
		dir = t.Repository.Path
	}
	set, err := m.open(t.Model, dir)
	if err != nil || t.FallbackModel == "" {
		return set, err
	}
	second, err := m.open(t.FallbackModel, dir)
	if err != nil {
		return set, err
	}
	set.Model = &fallback{first: set.Model, second: second.Model, name: second.Name}
	set.Price = nil // one price cannot stand for two models: the cost is unknown
	return set, nil
}

// absoluteModel makes the file of a scripted model absolute, so that the task means the same
// wherever it is resumed.
func absoluteModel(name, dir string) string {
	kind, file := providers.Split(name)
	if (kind == providers.WireScript || kind == providers.WireReplay) && file != "" && !filepath.IsAbs(file) {
		return kind + ":" + filepath.Join(dir, file)
	}
	return name
}

// secretEnds are the ends of names of variables whose values are hidden wherever they turn up.
func secretEnds() []string {
	return []string{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_PASSWD", "_CREDENTIALS"}
}

// secrets are the keys that were read and the values of this process's environment that look like
// secrets by their names.
func (m *modelSource) secrets() *redact.Set {
	found := map[string]string{}
	for name, key := range m.keys {
		found[name] = key
	}
	for _, kv := range m.f.Environ {
		name, value, _ := strings.Cut(kv, "=")
		for _, end := range secretEnds() {
			if strings.HasSuffix("_"+strings.ToUpper(name), end) {
				found[name] = value
			}
		}
	}
	return redact.New(found)
}
