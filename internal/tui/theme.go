package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// theme is how things look: signs, and styles of the sixteen colours every terminal has, so that
// the person's own palette decides light and dark. Each style ends itself and only itself, and no
// meaning is in a colour alone. Without colour the terminal writer drops them.
type theme struct {
	method ansi.Method // how the terminal measures characters
	ascii  bool
}

func (t theme) wrapStyle(on, off, s string) string {
	if s == "" {
		return ""
	}
	return "\x1b[" + on + "m" + s + "\x1b[" + off + "m"
}

func (t theme) dim(s string) string    { return t.wrapStyle("2", "22", s) }
func (t theme) bold(s string) string   { return t.wrapStyle("1", "22", s) }
func (t theme) italic(s string) string { return t.wrapStyle("3", "23", s) }
func (t theme) accent(s string) string { return t.wrapStyle("36", "39", s) }
func (t theme) good(s string) string   { return t.wrapStyle("32", "39", s) }
func (t theme) bad(s string) string    { return t.wrapStyle("31", "39", s) }
func (t theme) warn(s string) string   { return t.wrapStyle("33", "39", s) }
func (t theme) mark(s string) string   { return t.wrapStyle("7", "27", s) }

// sign gives a sign, or its ASCII form where the locale is not UTF-8.
func (t theme) sign(unicode, ascii string) string {
	if t.ascii {
		return ascii
	}
	return unicode
}

func (t theme) ok() string     { return t.good(t.sign("✓", "+")) }
func (t theme) failed() string { return t.bad(t.sign("✗", "x")) }
func (t theme) live() string   { return t.accent(t.sign("◌", "o")) }
func (t theme) said() string   { return t.accent(t.sign("●", "*")) }
func (t theme) you() string    { return t.accent(t.sign("▸", ">")) }
func (t theme) more() string   { return t.sign("…", "...") }
func (t theme) dot() string    { return t.sign(" · ", " - ") }

// rule is a line across the screen with a title in it.
func (t theme) rule(width int, title, right string) string {
	bar := t.sign("─", "-")
	if title == "" && right == "" {
		return t.dim(strings.Repeat(bar, max(0, width)))
	}
	left := ""
	if title != "" {
		left = " " + title + " "
	}
	if right != "" {
		right = " " + right + " " + bar
	}
	room := width - 2 - t.width(left) - t.width(right)
	if room < 0 {
		return t.clip(t.dim(bar+bar)+left+right, width)
	}
	return t.dim(bar+bar) + left + t.dim(strings.Repeat(bar, room)) + right
}

// width is how many cells a text takes.
func (t theme) width(s string) int { return t.method.StringWidth(s) }

// clip cuts a text, styled or not, to a width, and says so by an ellipsis.
func (t theme) clip(s string, width int) string {
	if width <= 0 {
		return ""
	}
	if t.width(s) <= width {
		return s
	}
	return t.method.Truncate(s, width, t.more())
}

// pad fills a text up to a width, cutting what is longer.
func (t theme) pad(s string, width int) string {
	s = t.clip(s, width)
	return s + strings.Repeat(" ", max(0, width-t.width(s)))
}

// ends puts one text at the left edge and one at the right; where both do not fit the left one is cut.
func (t theme) ends(left, right string, width int) string {
	rw := t.width(right)
	if rw == 0 || rw+1 >= width {
		return t.clip(left, width)
	}
	left = t.clip(left, width-rw-1)
	return left + strings.Repeat(" ", max(1, width-rw-t.width(left))) + right
}
