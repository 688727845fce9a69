package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Layer names where a value came from.
type Layer string

// The layers, weakest first.
const (
	Default Layer = "default"
	User    Layer = "user"
	Project Layer = "project"
	Env     Layer = "environment"
	Flag    Layer = "flag"
)

// Setting is a value with its origin.
type Setting struct {
	Value  any
	Layer  Layer
	Origin string // a file with its line, a variable or a flag
}

// Sources says where settings are read from.
type Sources struct {
	UserFile  string            // "" for none
	Root      string            // root of the repository, "" outside of one
	Environ   []string          // NAME=value; only RIVUMI_* is looked at
	Sets      []string          // key=value of --set
	Flags     map[string]string // key to the text given; the origin is its flag
	Profile   string
	Trust     Trust // zero: no project is trusted
	NoProject bool
}

// Config is the resolved settings. It does not change after [Load], except by [Config.Set].
type Config struct {
	chains    map[string][]Setting // weakest first
	Warnings  []string             // for stderr, one line each
	Untrusted string               // the project's file, where it is there and not trusted
}

// ProjectFile is the settings file of a repository.
func ProjectFile(root string) string { return filepath.Join(root, ".rivumi", "config.toml") }

// Load reads every layer. An error is an *Error wherever a file or a value is at fault.
func Load(s Sources) (*Config, error) {
	c := &Config{chains: map[string][]Setting{}}
	for _, k := range table {
		if k.Default != nil {
			c.chains[k.Name] = []Setting{{k.Default, Default, "built in"}}
		}
	}
	if err := c.loadUser(s); err != nil {
		return nil, err
	}
	if err := c.loadProject(s); err != nil {
		return nil, err
	}
	if err := c.loadEnv(s.Environ); err != nil {
		return nil, err
	}
	for _, set := range s.Sets {
		name, text, ok := strings.Cut(set, "=")
		if !ok {
			return nil, &Error{Message: fmt.Sprintf("--set %q is not key=value", set)}
		}
		if err := c.Set(strings.TrimSpace(name), text, "--set"); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Config) loadUser(s Sources) error {
	if s.UserFile == "" {
		return nil
	}
	f, err := readFile(s.UserFile, s.Profile)
	if err != nil || f == nil {
		return err
	}
	if s.Profile != "" && !strings.Contains(string(f.raw), "profiles."+s.Profile) {
		return &Error{File: s.UserFile, Message: fmt.Sprintf("there is no profile %q", s.Profile)}
	}
	for name, v := range f.values {
		c.push(name, Setting{v, User, origin(f, name)})
	}
	return nil
}

func (c *Config) loadProject(s Sources) error {
	if s.Root == "" || s.NoProject {
		return nil
	}
	path := ProjectFile(s.Root)
	raw, err := readBounded(path)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return fmt.Errorf("read config: %w", err)
	}
	if !s.Trust.Holds(s.Root, raw) {
		c.Untrusted = path
		return nil
	}
	f, err := parseFile(path, raw, "")
	if err != nil {
		return err
	}
	for name, v := range f.values {
		k, _ := Find(name)
		if err := c.mayProject(f, k, name, v); err != nil {
			return err
		}
		c.push(name, Setting{v, Project, origin(f, name)})
	}
	return nil
}

// mayProject refuses what a repository's file may not do, whether trusted or not.
func (c *Config) mayProject(f *file, k Key, name string, v any) error {
	hint := "remove the line, or run with --no-project-config"
	if k.Project == ProjectNever {
		return f.fail(name, fmt.Sprintf("a repository's settings may never set %q", name), hint)
	}
	if k.Project == ProjectStricter && k.weaker(v, c.Lookup(name).Value) {
		return f.fail(name, fmt.Sprintf("a repository's settings may not weaken %q from %s to %s",
			name, Text(c.Lookup(name).Value), Text(v)), hint)
	}
	return nil
}

func (c *Config) loadEnv(environ []string) error {
	byEnv := map[string]Key{}
	for _, k := range table {
		if k.Env() != "" {
			byEnv[k.Env()] = k
		}
	}
	for _, kv := range environ {
		name, text, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "RIVUMI_") || slices.Contains(OtherEnv(), name) || text == "" {
			continue
		}
		k, ok := byEnv[name]
		if !ok {
			c.Warnings = append(c.Warnings, fmt.Sprintf("environment variable %s is not known and not used", name))
			continue
		}
		v, err := k.Parse(text)
		if err != nil {
			return &Error{Message: name + ": " + err.Error()}
		}
		c.push(k.Name, Setting{v, Env, name})
	}
	return nil
}

// OtherEnv lists the RIVUMI_* variables that are not settings.
func OtherEnv() []string {
	return []string{"RIVUMI_STATE_DIR", "RIVUMI_CONFIG", "RIVUMI_PROFILE", "RIVUMI_RUN_ID"}
}

// Set puts a value given as text into the flag layer; origin names the flag.
func (c *Config) Set(name, text, origin string) error {
	k, ok := Find(name)
	if !ok {
		hint := ""
		if near := Nearest(name); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return &Error{Message: fmt.Sprintf("unknown key %q", name), Hint: hint}
	}
	v, err := k.Parse(text)
	if err != nil {
		return &Error{Message: err.Error()}
	}
	c.push(name, Setting{v, Flag, origin})
	return nil
}

// SetList puts a list into the flag layer.
func (c *Config) SetList(name string, list []string, origin string) {
	c.push(name, Setting{slices.Clone(list), Flag, origin})
}

func (c *Config) push(name string, s Setting) { c.chains[name] = append(c.chains[name], s) }

func origin(f *file, name string) string {
	if n := f.lines[name]; n > 0 {
		return fmt.Sprintf("%s:%d", f.path, n)
	}
	return f.path
}

// Only gives the settings of one layer alone.
func (c *Config) Only(l Layer) *Config {
	out := &Config{chains: map[string][]Setting{}}
	for name, chain := range c.chains {
		for _, s := range chain {
			if s.Layer == l {
				out.push(name, s)
			}
		}
	}
	return out
}

// Lookup gives the setting in force; the zero Setting when nothing sets it.
func (c *Config) Lookup(name string) Setting {
	chain := c.chains[name]
	if len(chain) == 0 {
		return Setting{}
	}
	return chain[len(chain)-1]
}

// Chain gives every layer's value of a key, strongest first.
func (c *Config) Chain(name string) []Setting {
	chain := slices.Clone(c.chains[name])
	slices.Reverse(chain)
	return chain
}

// Names lists the keys that have a value, sorted.
func (c *Config) Names() []string {
	names := make([]string, 0, len(c.chains))
	for n := range c.chains {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// String gives a text setting, "" when unset.
func (c *Config) String(name string) string {
	s, _ := c.Lookup(name).Value.(string)
	return s
}

// Int gives a whole number, 0 when unset.
func (c *Config) Int(name string) int64 { return asInt(c.Lookup(name).Value) }

// Float gives a number, 0 when unset.
func (c *Config) Float(name string) float64 { return asFloat(c.Lookup(name).Value) }

// Bool gives a switch, false when unset.
func (c *Config) Bool(name string) bool {
	b, _ := c.Lookup(name).Value.(bool)
	return b
}

// Duration gives a length of time, 0 when unset.
func (c *Config) Duration(name string) time.Duration { return seconds(c.String(name)) }

// List gives the strongest layer's list.
func (c *Config) List(name string) []string {
	l, _ := c.Lookup(name).Value.([]string)
	return slices.Clone(l)
}

// All gives the lists of all layers joined, weakest first, without repeats: a deny rule of the
// user is never lost because a flag adds another.
func (c *Config) All(name string) []string {
	var out []string
	for _, s := range c.chains[name] {
		l, _ := s.Value.([]string)
		for _, item := range l {
			if !slices.Contains(out, item) {
				out = append(out, item)
			}
		}
	}
	return out
}
