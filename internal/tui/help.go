package tui

// helpLines list the keys of all pages.
func (m *model) helpLines() []string {
	t := m.theme
	groups := []struct {
		title string
		keys  [][2]string
	}{
		{"writing", [][2]string{
			{"enter", "send"},
			{"ctrl+j", "new line (also shift+enter, alt+enter)"},
			{"up down", "lines, then what was sent before"},
			{"@", "name a file; tab takes it"},
			{"ctrl+e", "write in $EDITOR"},
			{"tab", "read the transcript"},
		}},
		{"reading", [][2]string{
			{"j k g G", "move; page up and down everywhere"}, {"o", "open folded output and reasoning"}, {"tab", "write"}, {"q", "leave"},
		}},
		{"anywhere", [][2]string{
			{"ctrl+c", "stop the run; again leaves"},
			{"ctrl+d", "review"},
			{"ctrl+t", "checks and budget"},
			{"ctrl+p", "runs"},
			{"f2", "let the mouse scroll, or select text (as it is at first)"},
			{"ctrl+z", "suspend"},
			{"ctrl+l", "draw anew"},
		}},
		{"approval", [][2]string{
			{"a s d x", "allow once, for this run, deny, cancel the run"}, {"e v", "why it asks, all of it"}, {"tab", "to the draft and back"},
		}},
		{"review", [][2]string{
			{"a c b", "apply, apply and commit, make a branch"},
			{"space", "mark a file: only marked ones are applied"},
			{"j k tab", "files, and lines of the diff after tab"},
			{"s / n N", "side by side, search, next, previous"},
			{"o", "output of the checks"},
			{"m D q", "go on with a message, discard, keep for later"},
		}},
	}
	var left, right []string
	for i, g := range groups {
		col := &left
		if i > 1 && m.width >= 110 {
			col = &right
		}
		*col = append(*col, " "+t.accent(g.title))
		for _, k := range g.keys {
			*col = append(*col, "   "+t.pad(k[0], 9)+" "+k[1])
		}
	}
	out := []string{" " + t.bold("keys") + t.dim("  up and down move, any other key goes back")}
	for i := range max(len(left), len(right)) {
		line := ""
		if i < len(left) {
			line = left[i]
		}
		if i < len(right) {
			line = t.pad(line, m.width/2) + right[i]
		}
		out = append(out, line)
	}
	m.helpFrom = min(max(0, m.helpFrom), max(0, len(out)-m.height))
	return out[m.helpFrom:]
}

// helpKey moves the help where it is longer than the screen, and closes it.
func (m *model) helpKey(name string) {
	switch name {
	case "down", "j":
		m.helpFrom++
	case "up", "k":
		m.helpFrom--
	case "pgdown":
		m.helpFrom += m.height
	case "pgup":
		m.helpFrom -= m.height
	default:
		m.help, m.helpFrom = false, 0
	}
}
