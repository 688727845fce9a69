package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/view"
)

// header is the first line: what is worked on, with what, held by what. Where there is no room the id
// goes first, then the dirty files and the model; the sandbox stays.
func (t theme) header(p view.Picture, width int) string {
	h := p.Header
	repo := safeLine(h.Root[strings.LastIndexAny(h.Root, `/\`)+1:])
	if h.BaseSHA != "" {
		repo += " @ " + safeLine(view.Commit(h.BaseSHA))
	}
	parts := []string{t.bold("rivumi"), repo, dirtyWords(h.Dirty), safeLine(h.Model)}
	if h.Ready {
		sandbox := "sandbox " + safeLine(h.Sandbox)
		if h.Sandbox == "L0" || h.Sandbox == "none" {
			sandbox = t.warn("no sandbox")
		}
		network := "no network"
		if h.Network != "" && h.Network != "none" && h.Network != "off" {
			network = t.warn("network " + safeLine(h.Network))
		}
		parts = append(parts, sandbox, network)
	}
	parts = append(parts, t.dim(string(h.ID.Short())))
	for _, i := range []int{6, 2, 3, 5} { // what is said least loudly goes first
		if i < len(parts) && t.width(strings.Join(parts, t.dot())) > width-1 {
			parts[i] = ""
		}
	}
	return " " + t.fit(parts, width-1)
}

func dirtyWords(d contract.DirtySummary) string {
	all := d.Tracked + d.Untracked
	switch {
	case all == 0:
		return ""
	case d.Included == 0:
		return fmt.Sprintf("%d changed left out", all)
	case d.Included < all:
		return fmt.Sprintf("+%d changed, %d untracked, %d in", d.Tracked, d.Untracked, d.Included)
	}
	return fmt.Sprintf("+%d changed, %d untracked in", d.Tracked, d.Untracked)
}

// fit joins the parts that are there with dots, leaving out the last ones that have no room.
func (t theme) fit(parts []string, width int) string {
	out := ""
	for _, p := range parts {
		switch {
		case p == "":
		case out == "":
			out = t.clip(p, width)
		case t.width(out)+t.width(t.dot())+t.width(p) <= width:
			out += t.dim(t.dot()) + p
		default:
			return out
		}
	}
	return out
}

// status is the last line: what is waited for and since when, then what is used of what there is.
func (t theme) status(p view.Picture, now time.Time, width int) string {
	return " " + t.fit(append([]string{t.waits(p, now)}, t.used(p, now)...), width-1)
}

// waits says where the run stands.
func (t theme) waits(p view.Picture, now time.Time) string {
	switch {
	case p.Ended != nil:
		return t.verdict(p)
	case p.Cancel != "":
		since := now.Sub(p.WaitSince.Time)
		left := contract.GraceSeconds*time.Second - since
		if left <= 0 {
			return t.warn("stopping, ending what is left: " + seconds(since))
		}
		return t.warn(fmt.Sprintf("stopping: asked %s ago, ended by force in %s", seconds(since), seconds(left)))
	case p.State == "":
		return t.dim("reading the log")
	}
	wait := "waiting for " + string(p.Waiting)
	if p.Waiting == view.WaitApproval {
		wait = t.bold(wait)
	}
	return t.accent(t.sign("◌ ", "")) + wait + " " + seconds(now.Sub(p.WaitSince.Time))
}

// verdict is the end of a run in words.
func (t theme) verdict(p view.Picture) string {
	switch {
	case p.State == contract.Completed && p.Ended.Result != nil && p.Ended.Result.Outcome == contract.OutcomeVerified:
		return t.ok() + " " + t.good("completed, verified")
	case p.State == contract.Completed:
		word := "completed, not verified: no check was asked"
		if r := p.Ended.Result; r != nil && r.Outcome == contract.OutcomeNoChanges {
			word = "completed, no changes"
		}
		return t.ok() + " " + word
	}
	word := string(p.State)
	if e := p.Ended.Error; e != nil && p.State == contract.Failed {
		word += ": " + safeLine(string(e.Code)) + prefixed(", ", safeLine(e.Message))
	}
	return t.failed() + " " + t.bad(word)
}

// used is what the run has used of its limits.
func (t theme) used(p view.Picture, now time.Time) []string {
	var out []string
	if p.MaxStep > 0 {
		out = append(out, fmt.Sprintf("step %d/%d", p.Step, p.MaxStep))
	}
	if !p.StartedAt.IsZero() {
		end := now
		if p.Ended != nil {
			end = p.LastTime.Time
		}
		elapsed := view.Length(end.Sub(p.StartedAt.Time).Truncate(time.Second))
		if end.Sub(p.StartedAt.Time) < time.Minute {
			elapsed = seconds(end.Sub(p.StartedAt.Time))
		}
		if w := p.Limits.WallTimeSeconds; w > 0 {
			elapsed += " of " + view.Length(time.Duration(w)*time.Second)
		}
		out = append(out, elapsed)
	}
	u := p.Usage
	if in := u.InputTokens + u.CachedTokens; in+u.OutputTokens > 0 {
		s := view.Tokens(in+u.OutputTokens) + " tok"
		if u.CachedTokens > 0 {
			s += fmt.Sprintf(" (%d %% cached)", u.CachedTokens*100/in)
		}
		out = append(out, s)
	}
	if u.CostUSD != nil {
		s := view.Cost(*u.CostUSD)
		if m := p.Limits.MaxCostUSD; m > 0 {
			s += " of " + view.Cost(m)
		}
		out = append(out, s)
	}
	if n := len(p.Checks); n > 0 {
		passed := 0
		for _, c := range p.Checks {
			if c.Passed {
				passed++
			}
		}
		out = append(out, fmt.Sprintf("checks %d/%d", passed, n))
	}
	return out
}

// meter is a bar of how much of a limit is used, with the numbers beside it.
func (t theme) meter(name string, used, limit float64, numbers string, width int) string {
	const cells = 20
	full := 0
	if limit > 0 {
		full = int(min(1, used/limit) * cells)
	}
	bar := strings.Repeat(t.sign("█", "#"), full) + t.dim(strings.Repeat(t.sign("░", "."), cells-full))
	if limit > 0 && used/limit > 0.8 {
		bar = t.warn(strings.Repeat(t.sign("█", "#"), full)) + t.dim(strings.Repeat(t.sign("░", "."), cells-full))
	}
	if limit <= 0 {
		bar = t.dim(t.pad("no limit", cells))
	}
	return t.clip(" "+t.pad(name, 16)+bar+"  "+numbers, width)
}

// budget lists checks and limits; it takes the place of the transcript while it is open.
func (t theme) budget(p view.Picture, now time.Time, width int) []string {
	u, l := p.Usage, p.Limits
	elapsed := time.Duration(0)
	if !p.StartedAt.IsZero() {
		elapsed = now.Sub(p.StartedAt.Time)
		if p.Ended != nil {
			elapsed = p.LastTime.Sub(p.StartedAt.Time)
		}
	}
	wall := time.Duration(l.WallTimeSeconds) * time.Second
	out := []string{
		"", t.bold(" limits"),
		t.meter("steps", float64(p.Step), float64(p.MaxStep), fmt.Sprintf("%d of %d", p.Step, p.MaxStep), width),
		t.meter("time", float64(elapsed), float64(wall), seconds(elapsed)+" of "+view.Length(wall), width),
		t.meter("model requests", float64(u.ModelRequests), float64(l.ModelRequests()), fmt.Sprintf("%d of %d", u.ModelRequests, l.ModelRequests()), width),
		t.meter("output tokens", float64(u.OutputTokens), float64(l.MaxOutputTokens), view.Tokens(u.OutputTokens), width),
	}
	cost, known := 0.0, "price unknown"
	if u.CostUSD != nil {
		cost, known = *u.CostUSD, view.Cost(*u.CostUSD)
	}
	out = append(out, t.meter("cost", cost, l.MaxCostUSD, known, width), "", t.bold(" checks"))
	if len(p.Checks) == 0 {
		out = append(out, t.dim(" none ran yet"))
	}
	a := artist{theme: t, width: width, now: now}
	for _, c := range p.Checks {
		out = append(out, a.check(&view.Item{Kind: view.ItemCheck, Check: &c})...)
	}
	out = append(out, "", t.bold(" files"))
	if len(p.Files) == 0 {
		out = append(out, t.dim(" none changed yet"))
	}
	for _, f := range p.Files {
		out = append(out, t.clip(" "+view.Letter(f)+" "+safeLine(f.Path)+"  "+t.counts(f), width))
	}
	return append(out, "", t.dim(" ctrl+t closes"))
}
