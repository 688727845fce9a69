package tui

import (
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/rivumi/rivumi/internal/view"
)

// ring tells a person who looks elsewhere: a notification of the desktop where the terminal knows
// how, and the bell everywhere. The text must be safe already.
func ring(text string) tea.Cmd {
	return tea.Raw(ansi.Notify(view.Clip(text, 120)) + "\a")
}
