package cli

import (
	"os"
	"testing"
)

// A screen is drawn on a whole terminal only, and never where somebody asked for lines.
func TestTU01WhereAScreenIsDrawn(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		set  func(f *Factory)
		want bool
	}{
		"a terminal":      {map[string]string{"TERM": "xterm"}, func(*Factory) {}, true},
		"without colours": {map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, func(*Factory) {}, true},
		"a dumb one":      {map[string]string{"TERM": "dumb"}, func(*Factory) {}, false},
		"no name":         {nil, func(*Factory) {}, false},
		"CI":              {map[string]string{"TERM": "xterm", "CI": "true"}, func(*Factory) {}, false},
		"a reader":        {map[string]string{"TERM": "xterm", "ACCESSIBLE": "1"}, func(*Factory) {}, false},
		"--accessible":    {map[string]string{"TERM": "xterm"}, func(f *Factory) { f.Globals.Accessible = true }, false},
		"--quiet":         {map[string]string{"TERM": "xterm"}, func(f *Factory) { f.IO.Quiet = true }, false},
		"--debug":         {map[string]string{"TERM": "xterm"}, func(f *Factory) { f.Globals.Debug = true }, false},
		"a pipe out":      {map[string]string{"TERM": "xterm"}, func(f *Factory) { f.IO.OutTTY = false }, false},
		"a pipe in":       {map[string]string{"TERM": "xterm"}, func(f *Factory) { f.IO.InTTY = false }, false},
	} {
		s, _, _ := TestIO()
		s.InTTY, s.OutTTY, s.ErrTTY, s.InFile = true, true, true, os.Stdin
		f := &Factory{IO: s, Getenv: func(n string) string { return c.env[n] }}
		c.set(f)
		if got := f.drawable(); got != c.want {
			t.Errorf("%s: drawn %t", name, got)
		}
	}
}
