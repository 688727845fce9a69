// Package policy judges tool calls before they run: it parses shell scripts, gives every part of
// them a class, and says by the run's policy and rules whether the call may run, must be asked for,
// or is denied. It knows no process and no file: it reads text only, and what it does not understand
// asks. It is a guide for people and no boundary: the sandbox is.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
)

// Config is what a run's policy is made of.
type Config struct {
	Policy       contract.Policy
	Allow, Deny  []string // rules; deny beats allow
	AllowedPaths []string // of the task; empty: the whole tree
	// Contained says that commands run in a full sandbox (tier L3, Docker, gVisor), so that `ask`
	// asks only for what leaves it.
	Contained bool
}

// Policy is the judge of one run. It is not safe for concurrent use.
type Policy struct {
	c       Config
	allow   []rule
	deny    []rule
	granted []rule
}

// New reads the rules. An error is of kind KindInvalid and names the rule it is about.
func New(c Config) (*Policy, error) {
	switch c.Policy {
	case contract.PolicyDenyAll, contract.PolicyReadOnly, contract.PolicyAsk, contract.PolicyEdits, contract.PolicyAllowAll:
	default:
		return nil, contract.Errorf(contract.KindInvalid, "policy %q is not one of deny-all, read-only, ask, edits, allow-all", string(c.Policy))
	}
	p := &Policy{c: c}
	var err error
	if p.allow, err = parseRules("allow", c.Allow); err != nil {
		return nil, err
	}
	if p.deny, err = parseRules("deny", c.Deny); err != nil {
		return nil, err
	}
	return p, nil
}

// Command judges a shell script that would run in dir, a folder of the tree.
func (p *Policy) Command(script, dir string) contract.Judgement {
	a := analyze(script, dir)
	j := contract.Judgement{
		Kind: contract.ApproveCommand, Title: title(script), Risk: risk(a.parts),
		ReadOnly: a.readOnly(), Reason: reasons(a.parts),
	}
	switch worst(a.parts) {
	case classNetwork:
		j.Kind = contract.ApproveNetwork
	case classOutside:
		j.Kind = contract.ApproveWriteOutside
	}
	if r, why := p.denied(a); why != "" {
		j.Action, j.Rule, j.Reason = contract.ActionDeny, r, why
		return j
	}
	j.Action, j.Rule = p.decide(a)
	if j.Action == contract.ActionAsk {
		j.Scope = commandScope(a)
	}
	return j
}

// decide applies the policy to a script that no deny rule is about.
func (p *Policy) decide(a analysis) (contract.Action, string) {
	policy := "policy " + string(p.c.Policy)
	switch {
	case p.c.Policy == contract.PolicyAllowAll:
		return contract.ActionAllow, policy
	case a.readOnly():
		return contract.ActionAllow, "read-only"
	case p.c.Policy == contract.PolicyDenyAll:
		return contract.ActionDeny, policy
	}
	if r := p.covered(a); r != "" {
		return contract.ActionAllow, r
	}
	if p.c.Policy == contract.PolicyReadOnly {
		return contract.ActionDeny, policy
	}
	if p.c.Contained && !a.leaves() {
		return contract.ActionAllow, policy + " in a full sandbox"
	}
	return contract.ActionAsk, policy
}

// denied finds the deny rule a script falls under. A part that cannot be read is denied where there
// are rules about commands, and nobody is asked: the rules could not be kept otherwise.
func (p *Policy) denied(a analysis) (string, string) {
	for _, r := range p.deny {
		for _, c := range a.cmds {
			if r.kind == kindShell && r.matchesAnyForm(c.words) {
				return r.text, fmt.Sprintf("%s is denied by the rule %s", quoted(c.text), r.text)
			}
		}
		for _, w := range a.paths {
			if r.forbidsPath(w) {
				return r.text, fmt.Sprintf("%s is denied by the rule %s", quoted(w.path), r.text)
			}
		}
		for _, h := range a.hosts {
			if r.kind == kindNet && matchHost(r.pattern, h) {
				return r.text, fmt.Sprintf("the host %s is denied by the rule %s", quoted(h), r.text)
			}
		}
	}
	if len(p.deny) > 0 && a.unreadable != "" && p.c.Policy == contract.PolicyAllowAll {
		return p.deny[0].text, a.unreadable + ", so it cannot be compared with the deny rules"
	}
	return "", ""
}

// covered gives the allow rules that cover everything of a script that does not only read, "" when
// something is left. A grant for the session covers a script that is one plain command only.
func (p *Policy) covered(a analysis) string {
	rules := p.allow
	if a.plain() {
		rules = slices.Concat(p.allow, p.granted)
	}
	var used []string
	for _, part := range a.parts {
		if part.class == classReads {
			continue
		}
		i := slices.IndexFunc(rules, func(r rule) bool { return r.covers(part) })
		if i < 0 {
			return ""
		}
		used = append(used, rules[i].text)
	}
	return strings.Join(used, ", ")
}

// Write judges a change of one file by a file tool. A path outside the allowed paths of the task is
// denied whatever the policy, as a result with it is refused.
func (p *Policy) Write(path string, outside bool) contract.Judgement {
	j := contract.Judgement{
		Kind: contract.ApproveWrite, Title: "Change " + quoted(path), Rule: "policy " + string(p.c.Policy),
		Reason: "it changes a file", Risk: contract.Risk{Level: "medium", Why: []string{"changes a file"}},
	}
	if outside {
		j.Kind, j.Reason = contract.ApproveWriteOutside, "it changes a file outside the repository"
		j.Risk = contract.Risk{Level: "high", Why: []string{"changes a file outside the repository"}}
	}
	for _, r := range p.deny {
		if r.kind == kindEdit && matchGlob(r.pattern, path) {
			j.Action, j.Rule, j.Reason = contract.ActionDeny, r.text, "it is denied by the rule "+r.text
			return j
		}
	}
	if !outside && !contract.Allowed(p.c.AllowedPaths, path) {
		j.Action, j.Rule = contract.ActionDeny, "allowed paths"
		j.Reason = "it is outside the allowed paths of the task: " + strings.Join(p.c.AllowedPaths, ", ")
		return j
	}
	j.Action = p.writeAction(path, outside)
	if i := p.editRule(path); i != "" && j.Action != contract.ActionAllow && p.c.Policy != contract.PolicyDenyAll && !outside {
		j.Action, j.Rule = contract.ActionAllow, i
	}
	if j.Action == contract.ActionAsk && !outside {
		j.Scope = contract.SessionScope{
			Pattern: "edit(" + escapeGlob(path) + ")",
			Explain: "changes of the file " + quoted(path) + " by the file tools, and of no other file, until the run ends",
		}
	}
	return j
}

func (p *Policy) writeAction(path string, outside bool) contract.Action {
	switch p.c.Policy {
	case contract.PolicyAllowAll:
		return contract.ActionAllow
	case contract.PolicyDenyAll, contract.PolicyReadOnly:
		return contract.ActionDeny
	case contract.PolicyEdits:
		if !outside {
			return contract.ActionAllow
		}
	case contract.PolicyAsk:
		if !outside && p.c.Contained {
			return contract.ActionAllow
		}
	}
	return contract.ActionAsk
}

func (p *Policy) editRule(path string) string {
	for _, r := range slices.Concat(p.allow, p.granted) {
		if r.kind == kindEdit && matchGlob(r.pattern, path) {
			return r.text
		}
	}
	return ""
}

// Read judges the reading of one file by a file tool: free inside the tree but for deny rules.
func (p *Policy) Read(path string, outside bool) contract.Judgement {
	j := contract.Judgement{
		Action: contract.ActionAllow, Kind: contract.ApproveCommand, Title: "Read " + quoted(path), ReadOnly: true,
		Rule: "read-only", Risk: contract.Risk{Level: "low", Why: []string{"reads a file"}},
	}
	for _, r := range p.deny {
		if r.kind == kindRead && matchGlob(r.pattern, path) {
			j.Action, j.Rule, j.Reason = contract.ActionDeny, r.text, "it is denied by the rule "+r.text
			return j
		}
	}
	if outside && p.c.Policy != contract.PolicyAllowAll {
		j.Action, j.Reason, j.Rule = contract.ActionAsk, "it reads a file outside the repository", "policy "+string(p.c.Policy)
		if p.c.Policy == contract.PolicyDenyAll || p.c.Policy == contract.PolicyReadOnly {
			j.Action = contract.ActionDeny
		}
	}
	return j
}

// Grant widens the run by exactly the scope of a decision for the session. A scope that is no rule
// widens nothing.
func (p *Policy) Grant(s contract.SessionScope) {
	if r, err := parseRule(s.Pattern); err == nil {
		p.granted = append(p.granted, r)
	}
}

// Part is one part of a script with the class it was given and the rule that gave it.
type Part struct {
	Text  string // the part as written
	Class string // reads, writes, outside, network, dangerous, unknown
	Rule  string // why it has that class
}

// Explain lists the parts of a script, for people who want to know why it asks.
func (p *Policy) Explain(script, dir string) []Part {
	a := analyze(script, dir)
	out := make([]Part, len(a.parts))
	for i, part := range a.parts {
		out[i] = Part{Text: contract.CleanText(part.text), Class: part.class.String(), Rule: part.why}
	}
	return out
}

// commandScope offers a session for one plain command that can be read whole, and for nothing that
// is dangerous.
func commandScope(a analysis) contract.SessionScope {
	if !a.plain() || worst(a.parts) == classDangerous {
		return contract.SessionScope{}
	}
	words := a.cmds[0].static()
	n := subcommandWords(words)
	if n == 0 {
		pattern, ok := quoteWords(words)
		if !ok {
			return contract.SessionScope{}
		}
		return contract.SessionScope{
			Pattern: "shell(" + pattern + ")",
			Explain: "exactly the command " + quoted(pattern) + ", until the run ends",
		}
	}
	prefix := strings.Join(words[:n], " ")
	return contract.SessionScope{
		Pattern: "shell(" + prefix + ":*)",
		Explain: "commands that begin with " + quoted(prefix) + ", alone and without redirects, pipes or substitutions, until the run ends",
	}
}

func title(script string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(contract.CleanText(script)), "\n")
	if len(line) > 120 {
		line = strings.ToValidUTF8(line[:120], "") + "…"
	} else if rest != "" {
		line += " …"
	}
	return "Run " + line
}

func quoted(s string) string { return "`" + contract.CleanText(s) + "`" }

// reasons says in words what asks.
func reasons(parts []part) string {
	var why []string
	for _, p := range parts {
		if p.class != classReads && !slices.Contains(why, p.why) {
			why = append(why, p.why)
		}
	}
	if len(why) > 5 {
		why = append(why[:5], "and more")
	}
	return strings.Join(why, "; ")
}

func risk(parts []part) contract.Risk {
	r := contract.Risk{Level: "low", Why: []string{"only reads"}}
	switch worst(parts) {
	case classReads:
		return r
	case classWrites, classUnknown:
		r.Level = "medium"
	case classOutside, classNetwork, classDangerous:
		r.Level = "high"
	}
	r.Why = strings.Split(reasons(parts), "; ")
	return r
}
