package tui

import (
	"flag"
	"fmt"
	"html"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/vt"
)

var screens = flag.String("screens", "", "write pictures of screens as SVG into `DIR`")

// TestRecordScreens draws screens through the emulator and, with -screens DIR, keeps what it shows as
// pictures for the docs: what is in them is what a terminal was told, not a drawing of it.
func TestRecordScreens(t *testing.T) {
	for name, play := range map[string]func(w *world){
		"run": func(w *world) { w.work() },
		"approval": func(w *world) {
			w.work()
			w.ask(approval("apr_1", "npm install left-pad && node scripts/gen.js > ../out.txt"))
		},
		"review": func(w *world) {
			w.work()
			w.m.o.Actions.Later = func(p string) bool { return strings.HasPrefix(p, ".github/") }
			w.end()
			w.keys("s")
		},
		"runs":   func(w *world) { w.runs.list = someRuns(); w.keys("ctrl+p") },
		"budget": func(w *world) { w.work(); w.keys("ctrl+t") },
	} {
		const width, height = 100, 28
		w := newWorld(t, width, height)
		play(w)
		emu := vt.NewEmulator(width, height)
		if _, err := emu.WriteString(strings.ReplaceAll(w.m.View().Content, "\n", "\r\n")); err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(w.screen(), "\n") {
			if shown := strings.Split(emu.String(), "\n")[i]; strings.TrimRight(shown, " ") != line {
				t.Errorf("%s: line %d is %q in a terminal, meant was %q", name, i+1, shown, line)
			}
		}
		if *screens == "" {
			continue
		}
		if err := os.MkdirAll(*screens, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*screens, name+".svg"), []byte(picture(emu, width, height)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// picture is the screen of an emulator as SVG, every piece of text at its cell.
func picture(emu *vt.Emulator, width, height int) string {
	const cw, ch = 8.4, 18.0
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14">`+"\n",
		float64(width)*cw+16, float64(height)*ch+16)
	b.WriteString(`<rect width="100%" height="100%" rx="6" fill="#16181d"/>` + "\n")
	for y := range height {
		for x := 0; x < width; {
			c := emu.CellAt(x, y)
			if c == nil || c.Content == "" || c.Content == " " && c.Style.Attrs == 0 {
				x++
				continue
			}
			text, from, style := "", x, c.Style
			for x < width {
				n := emu.CellAt(x, y)
				if n == nil || n.Content == "" || !n.Style.Equal(&style) {
					break
				}
				text += n.Content
				x += max(1, n.Width)
			}
			fill, extra := ink(style.Fg), ""
			if style.Attrs&1 != 0 {
				extra += ` font-weight="bold"`
			}
			if style.Attrs&2 != 0 {
				extra += ` opacity="0.55"`
			}
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="%s"%s textLength="%.1f" xml:space="preserve">%s</text>`+"\n",
				8+float64(from)*cw, 8+float64(y)*ch+13, fill, extra, float64(x-from)*cw, html.EscapeString(text))
		}
	}
	return b.String() + "</svg>\n"
}

func ink(c color.Color) string {
	if c == nil {
		return "#d6d9e0"
	}
	r, g, b, _ := c.RGBA()
	switch [3]uint32{r >> 8, g >> 8, b >> 8} {
	case [3]uint32{0, 128, 128}:
		return "#56b6c2"
	case [3]uint32{0, 128, 0}:
		return "#7fbf6a"
	case [3]uint32{128, 0, 0}:
		return "#e06c75"
	case [3]uint32{128, 128, 0}:
		return "#d9a84e"
	}
	return fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)
}
