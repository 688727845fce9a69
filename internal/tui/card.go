package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// quiet is how long after a card appeared, and after the last key that was typed, a key is no
// decision: it was meant for something else.
const quiet = 300 * time.Millisecond

// card asks for one approval. Which one it is, its picture decides; the card keeps what the person
// did with it.
type card struct {
	id       string
	since    time.Time
	why      bool
	whole    bool
	from     int // first line shown of the whole
	sent     contract.Verdict
	focused  bool
	cut      bool // what "session" covers is not wholly on the screen
	explains []string
}

// show opens the card for an approval, unless it is open. typing says that a draft is being written:
// the card then takes keys only after Tab.
func (c *card) show(a contract.Approval, now time.Time, typing bool) (fresh bool) {
	if c.id == a.ID {
		return false
	}
	*c = card{id: a.ID, since: now, focused: !typing}
	return true
}

// deaf reports whether keys are no decisions yet.
func (c *card) deaf(now, lastKey time.Time) bool {
	return now.Sub(c.since) < quiet || now.Sub(lastKey) < quiet
}

// verdictOf gives the decision a key stands for.
func verdictOf(key string, a contract.Approval) (contract.Verdict, bool) {
	switch key {
	case "a":
		return contract.AllowOnce, true
	case "s":
		return contract.AllowSession, a.SessionScope.Pattern != ""
	case "d":
		return contract.Deny, true
	case "x":
		return contract.CancelRun, true
	}
	return "", false
}

// keys is the last line of a card, which is never cut away.
func (c *card) keys(t theme, a contract.Approval, width int) string {
	if c.sent != "" {
		return t.clip(" sent: "+string(c.sent)+", waiting for the log", width)
	}
	if !c.focused {
		return t.clip(" "+t.bold("[tab] answer")+t.dim("  (keys go to the draft)"), width)
	}
	names := [][2]string{{"a", "once"}, {"s", "session"}, {"d", "deny"}, {"x", "cancel run"}, {"e", "why"}, {"v", "whole"}}
	long, mid, tiny := " ", " ", " "
	for _, n := range names {
		if n[0] == "s" && a.SessionScope.Pattern == "" {
			continue
		}
		key := t.bold("[" + n[0] + "]")
		long += key + " " + n[1] + "  "
		mid += key + n[1][:min(4, len(n[1]))] + " "
		tiny += t.bold(n[0]) + " "
	}
	for _, s := range []string{long, mid} {
		if t.width(strings.TrimRight(s, " ")) <= width {
			return s
		}
	}
	return t.clip(tiny, width)
}

// what is what will run, line by line, exactly.
func what(a contract.Approval) []string {
	text := a.Command.Script
	switch {
	case text != "":
	case len(a.Command.Argv) > 0:
		quoted := make([]string, len(a.Command.Argv))
		for i, w := range a.Command.Argv {
			quoted[i] = w
			if w == "" || strings.ContainsAny(w, " \t\n'\"\\$`|&;<>()*?[]#~!{}") {
				quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
			}
		}
		text = strings.Join(quoted, " ")
	case a.Command.Diff != "":
		text = a.Command.Diff
	default:
		text = a.Title
	}
	return strings.Split(exact(strings.TrimSuffix(text, "\n")), "\n")
}

// body draws what will run, wrapped, every line with its number where there are several. The
// number tells a line of the command from a row the terminal had no room for.
func (c *card) body(t theme, a contract.Approval, width int) []string {
	lines := what(a)
	var out []string
	for i, l := range lines {
		head, rest := "   ", "   "
		if len(lines) > 1 {
			head = t.dim(fmt.Sprintf("%4d %s ", i+1, t.sign("│", "|")))
			rest = t.dim("     " + t.sign("┊", ":") + " ")
		}
		pieces := t.chop(l, width-t.width(head)-1)
		if a.Command.Script == "" && a.Command.Diff != "" {
			for n := range pieces {
				pieces[n] = t.styled((l + " ")[0])(pieces[n])
			}
		} else {
			for n := range pieces {
				pieces[n] = t.bold(pieces[n])
			}
		}
		out = append(out, indented(pieces, head, rest)...)
	}
	return out
}

// intro says what is wanted, where.
func (c *card) intro(a contract.Approval) string {
	word := map[contract.ApprovalKind]string{
		contract.ApproveCommand: "wants to run", contract.ApproveWrite: "wants to change",
		contract.ApproveWriteOutside: "wants to write outside", contract.ApproveNetwork: "wants the network",
		contract.ApproveCheck: "wants to run a check",
	}[a.Kind]
	if word == "" {
		word = "asks"
	}
	s := " " + word
	if a.Command.Path != "" {
		s += " " + safeLine(a.Command.Path)
	}
	if a.Command.Cwd != "" {
		s += ", in " + safeLine(a.Command.Cwd)
	}
	return s + ":"
}

// reasons says why it asks and what "session" would cover, whole.
func (c *card) reasons(t theme, a contract.Approval, width int) []string {
	var out []string
	say := func(label, text string) {
		if text != "" {
			out = append(out, indented(t.words(safeLine(text), width-12), " "+t.pad(label, 11), strings.Repeat(" ", 12))...)
		}
	}
	say("asks for", a.Reason)
	if a.Risk.Level != "" && a.Risk.Level != "low" {
		say("risk", a.Risk.Level+prefixed(": ", strings.Join(a.Risk.Why, "; ")))
	}
	if a.SessionScope.Pattern != "" {
		say(`"session"`, "allows "+a.SessionScope.Pattern+" in this run"+prefixed(": ", a.SessionScope.Explain))
	}
	if c.why {
		for _, w := range c.explains {
			out = append(out, t.clip("   "+safeLine(w), width))
		}
	}
	return out
}

// render draws the card of at most height lines: the head, what will run, why, and the keys.
func (c *card) render(t theme, all []contract.Approval, now time.Time, width, height int) []string {
	a := all[0]
	left := ""
	if d := a.ExpiresAt.Sub(now); !a.ExpiresAt.IsZero() {
		left = "expires in " + seconds(d)
		if d < 30*time.Second {
			left = t.warn(left)
		}
	}
	title := "approval"
	if len(all) > 1 {
		title = fmt.Sprintf("approval 1 of %d", len(all))
	}
	out := []string{t.rule(width, t.bold(title), left)}
	if height > 5 {
		out = append(out, t.clip(c.intro(a), width))
	}
	reasons := c.reasons(t, a, width)
	for _, o := range all[1:] {
		reasons = append(reasons, t.dim(t.clip(" then asks   "+safeLine(o.Title), width)))
	}
	room := height - len(out) - 1
	body := c.body(t, a, width)
	c.cut = false
	if c.whole {
		body, reasons = append(body, reasons...), nil
	} else if keep := roomForWhy(room, len(body)); keep < len(reasons) {
		reasons = reasons[:keep:keep]
		c.cut = true
		if keep > 0 {
			reasons[keep-1] = t.clip(t.warn(" "+t.more()+" more of why: [v] shows all"), width)
		}
	}
	room -= len(reasons)
	out = append(out, c.window(t, body, room, width)...)
	out = append(out, reasons...)
	return append(out, c.keys(t, a, width))
}

// roomForWhy is how many lines say why, where what will run takes at most half; a small screen is
// all for what will run.
func roomForWhy(room, body int) int {
	if room < 5 {
		return max(0, room-body)
	}
	return max(0, room-min(body, room/2))
}

// window shows as much of what will run as there is room for, and says what is out of sight.
func (c *card) window(t theme, body []string, room, width int) []string {
	if len(body) <= room {
		return body
	}
	room = max(1, room)
	if !c.whole {
		shown := body[:max(0, room-1):max(0, room-1)]
		return append(shown, t.clip(t.warn(fmt.Sprintf(" %s %d more lines: [v] shows all", t.more(), len(body)-len(shown))), width))
	}
	c.from = min(max(0, c.from), len(body)-max(1, room-1))
	shown := body[c.from:min(len(body), c.from+max(1, room-1)):min(len(body), c.from+max(1, room-1))]
	rest := len(body) - c.from - len(shown)
	return append(shown, t.clip(t.warn(fmt.Sprintf(" lines %d to %d of %d, %d below: up and down move", c.from+1, c.from+len(shown), len(body), rest)), width))
}
