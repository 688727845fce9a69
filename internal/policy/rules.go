package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"mvdan.cc/sh/v3/syntax"

	"github.com/rivumi/rivumi/internal/contract"
)

// The kinds of rules: shell(git status:*), shell(exact words), edit(glob), read(glob), net(host).
const (
	kindShell = "shell"
	kindEdit  = "edit"
	kindRead  = "read"
	kindNet   = "net"
)

// rule is one parsed rule.
type rule struct {
	text    string
	kind    string
	words   []string // shell
	prefix  bool     // shell: words may follow
	pattern string   // edit, read: a glob; net: a host, or *.host
}

func parseRules(list string, texts []string) ([]rule, error) {
	var rules []rule
	for _, t := range texts {
		r, err := parseRule(t)
		if err != nil {
			return nil, contract.Errorf(contract.KindInvalid, "%s rule %q: %w", list, t, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(text string) (rule, error) {
	t := strings.TrimSpace(text)
	kind, rest, ok := strings.Cut(t, "(")
	body, closed := strings.CutSuffix(rest, ")")
	if !ok || !closed {
		return rule{}, contract.Errorf(contract.KindInvalid, "must look like shell(git status:*), edit(src/**), read(glob) or net(host)")
	}
	body = strings.TrimSpace(body)
	r := rule{text: t, kind: kind, pattern: body}
	if body == "" || !contract.IsClean(body) {
		return rule{}, contract.Errorf(contract.KindInvalid, "must have something readable between the brackets")
	}
	switch kind {
	case kindShell:
		return shellRule(r, body)
	case kindEdit, kindRead:
		if !doublestar.ValidatePattern(body) {
			return rule{}, contract.Errorf(contract.KindInvalid, "must have a well-formed glob")
		}
		r.pattern = strings.TrimPrefix(body, "./")
	case kindNet:
		r.pattern = strings.ToLower(body)
		if host := strings.TrimPrefix(r.pattern, "*."); host == "" || strings.ContainsAny(host, "*/:@ ") {
			return rule{}, contract.Errorf(contract.KindInvalid, "must name a host, or *.domain")
		}
	default:
		return rule{}, contract.Errorf(contract.KindInvalid, "kind %q is not one of shell, edit, read, net", kind)
	}
	return r, nil
}

func shellRule(r rule, body string) (rule, error) {
	if body, r.prefix = strings.CutSuffix(body, ":*"); strings.TrimSpace(body) == "*" {
		body = ""
	}
	words, ok := splitWords(body)
	if !ok || len(words) == 0 {
		return rule{}, contract.Errorf(contract.KindInvalid, "must have the plain words of one command, quoted as in a shell, and may end in :*")
	}
	r.words = words
	return r, nil
}

// splitWords reads plain words with shell quoting; anything else is not ok.
func splitWords(s string) ([]string, bool) {
	f, err := newParser().Parse(strings.NewReader(s), "")
	if err != nil || len(f.Stmts) != 1 || len(f.Stmts[0].Redirs) > 0 || f.Stmts[0].Background || f.Stmts[0].Negated {
		return nil, false
	}
	call, ok := f.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 {
		return nil, false
	}
	var words []string
	for _, w := range call.Args {
		v := readWord(w)
		if !v.static {
			return nil, false
		}
		words = append(words, v.text)
	}
	return words, true
}

// quoteWords is the other way round.
func quoteWords(words []string) (string, bool) {
	out := make([]string, len(words))
	for i, w := range words {
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil {
			return "", false
		}
		out[i] = q
	}
	s := strings.Join(out, " ")
	back, ok := splitWords(s)
	return s, ok && slices.Equal(back, words) && len(s) <= 500 && !strings.HasSuffix(s, ":*")
}

// matches compares the words of one command with the rule as they stand.
func (r rule) matches(words []word) bool {
	if r.kind != kindShell || len(words) < len(r.words) || !r.prefix && len(words) != len(r.words) {
		return false
	}
	for i, w := range r.words {
		if !words[i].static || words[i].text != w {
			return false
		}
	}
	if !r.prefix {
		return true
	}
	return !slices.ContainsFunc(words[:len(r.words)], func(w word) bool { return !w.static })
}

// matchesAnyForm is matches for deny rules: it sees through a path before the program and through
// options between program and sub-command.
func (r rule) matchesAnyForm(words []word) bool {
	if len(words) == 0 || r.kind != kindShell {
		return false
	}
	if r.matches(words) {
		return true
	}
	bare := slices.Clone(words)
	bare[0].text = path.Base(bare[0].text)
	if r.matches(bare) {
		return true
	}
	if !r.prefix || len(r.words) < 2 || bare[0].text != r.words[0] || !bare[0].static {
		return false
	}
	// The rest of the rule's words may stand anywhere behind the program, in order.
	next := 1
	for _, w := range bare[1:] {
		if next < len(r.words) && (!w.static || w.text == r.words[next]) {
			next++
		}
	}
	return next == len(r.words)
}

// covers reports whether an allow rule or a grant is about the part.
func (r rule) covers(p part) bool {
	switch r.kind {
	case kindShell:
		return p.cmd != nil && p.why != whyEnv && r.matches(p.cmd.words)
	case kindEdit:
		return p.target != "" && p.class == classWrites && matchGlob(r.pattern, p.target)
	case kindNet:
		return p.class == classNetwork && len(p.hosts) > 0 &&
			!slices.ContainsFunc(p.hosts, func(h string) bool { return !matchHost(r.pattern, h) })
	}
	return false
}

// forbidsPath reports whether a deny rule is about a path that a command names.
func (r rule) forbidsPath(w pathUse) bool {
	if r.kind == kindRead || r.kind == kindEdit && w.writes {
		return matchGlob(r.pattern, w.path)
	}
	return false
}

func matchGlob(pattern, name string) bool {
	ok, err := doublestar.Match(pattern, path.Clean(name))
	return err == nil && ok
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "{", `\{`, "}", `\}`).Replace(s)
}

func matchHost(pattern, host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if domain, ok := strings.CutPrefix(pattern, "*."); ok {
		return strings.HasSuffix(host, "."+domain)
	}
	return pattern == host
}
