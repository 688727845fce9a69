package tui

import (
	"time"

	"github.com/rivumi/rivumi/internal/view"
)

// keepDrawn is how many drawn items are kept; beyond it all are dropped and drawn again when seen.
const keepDrawn = 3000

// transcript shows the items of a run. It draws only what is seen, and what was drawn only once
// for its width and state.
type transcript struct {
	theme  theme
	items  []*view.Item
	open   bool // outputs and reasoning are shown whole
	scroll bool // the person looks at older lines; else the end is followed
	top    int  // first item seen, and the first line of it, while scrolled
	off    int

	width, height int
	drawn         map[*view.Item]*drawing
	now           time.Time
}

// drawing is a drawn item.
type drawing struct {
	rev    int64
	second int64 // of a running call, whose time is shown
	open   bool
	lines  []string
	stream stream
}

// lines gives the drawn lines of an item.
func (p *transcript) lines(i int) []string {
	it := p.items[i]
	second := int64(0)
	if it.Kind == view.ItemTool && it.Tool.State == view.ToolRunning {
		second = p.now.Unix()
	}
	d := p.drawn[it]
	if d != nil && d.rev == it.Rev && d.second == second && d.open == p.open {
		return d.lines
	}
	if d == nil {
		if p.drawn == nil || len(p.drawn) > keepDrawn {
			p.drawn = map[*view.Item]*drawing{}
		}
		d = &drawing{}
		p.drawn[it] = d
	}
	a := artist{theme: p.theme, width: p.width, open: p.open, now: p.now}
	d.rev, d.second, d.open, d.lines = it.Rev, second, p.open, a.draw(it, &d.stream)
	return d.lines
}

// resize forgets what was drawn for another width or theme.
func (p *transcript) resize(width, height int) {
	if width != p.width {
		p.drawn = nil
	}
	p.width, p.height = width, height
}

// render gives exactly height lines.
func (p *transcript) render(width, height int) []string {
	p.resize(width, height)
	out := make([]string, 0, height)
	if p.scroll {
		for i, off := p.top, p.off; i < len(p.items) && len(out) < height; i, off = i+1, 0 {
			lines := p.lines(i)
			out = append(out, lines[min(off, len(lines)):]...)
		}
		if len(out) >= height {
			return out[:height]
		}
		out, p.scroll = out[:0], false // the end came into sight
	}
	top, off := p.end()
	for i := top; i < len(p.items); i, off = i+1, 0 {
		out = append(out, p.lines(i)[off:]...)
	}
	for len(out) < height {
		out = append(out, "")
	}
	return out[:height]
}

// end finds the first item and line of the last screen.
func (p *transcript) end() (top, off int) {
	left := p.height
	for i := len(p.items) - 1; i >= 0; i-- {
		n := len(p.lines(i))
		if n >= left {
			return i, n - left
		}
		left -= n
	}
	return 0, 0
}

// move scrolls by lines, up for less than zero.
func (p *transcript) move(by int) {
	if p.height == 0 || len(p.items) == 0 {
		return
	}
	if !p.scroll {
		if by >= 0 {
			return
		}
		p.top, p.off = p.end()
		p.scroll = true
	}
	p.top = min(p.top, len(p.items)-1)
	for ; by < 0; by++ {
		for p.off == 0 && p.top > 0 {
			p.top--
			p.off = len(p.lines(p.top))
		}
		p.off = max(0, p.off-1)
	}
	for ; by > 0; by-- {
		p.off++
		for p.off >= len(p.lines(p.top)) && p.top < len(p.items)-1 {
			p.top, p.off = p.top+1, 0
		}
	}
	if top, off := p.end(); p.top > top || p.top == top && p.off >= off {
		p.scroll = false
	}
}

// start goes to the first line, follow to the last.
func (p *transcript) start()  { p.scroll, p.top, p.off = len(p.items) > 0, 0, 0 }
func (p *transcript) follow() { p.scroll = false }
