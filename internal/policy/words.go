package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command as the policy can know it.
type word struct {
	text   string // its value when static, else how it begins
	raw    string // as written
	static bool   // exactly this one word
	single bool   // one word that begins with text, whatever the rest becomes
}

// flagSafe reports whether the word cannot become an option: it begins with something else.
func (w word) flagSafe() bool {
	return w.static && !strings.HasPrefix(w.text, "-") || w.single && w.text != "" && w.text[0] != '-'
}

func newParser() *syntax.Parser { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }

// readWord works out what a word is after quoting, as far as it can be known without running.
func readWord(w *syntax.Word) word {
	out := word{static: true, single: true, raw: source(w)}
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			out.literal(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				out.static, out.single = false, false
				continue
			}
			out.add(p.Value)
		case *syntax.DblQuoted:
			out.quoted(p)
		case *syntax.ProcSubst:
			out.add("/dev/fd/")
			out.static = false
		default:
			// An expansion without quotes can become any number of words.
			out.static, out.single = false, false
		}
	}
	return out
}

// add appends known text while all before is known.
func (w *word) add(s string) {
	if w.static {
		w.text += s
	}
}

func (w *word) literal(s string) {
	if s == "[" && w.text == "" {
		w.add(s) // the command
		return
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i < len(s) && s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case '*', '?', '[':
			w.add(b.String())
			w.static = false // names of files, each beginning with what stands before
			if w.text == "" {
				w.single = false
			}
			b.Reset()
			continue
		case '{':
			w.add(b.String())
			if strings.Contains(s[i:], ",") || strings.Contains(s[i:], "..") {
				w.static, w.single = false, false
			}
			b.Reset()
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	w.add(b.String())
}

func (w *word) quoted(q *syntax.DblQuoted) {
	for _, part := range q.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || q.Dollar {
			if p, isParam := part.(*syntax.ParamExp); isParam && (p.Param == nil || p.Param.Value == "@" || p.Index != nil) {
				w.single = false
			}
			w.static = false
			continue
		}
		w.add(unescapeQuoted(lit.Value))
	}
}

// unescapeQuoted takes the backslashes away that count between double quotes.
func unescapeQuoted(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// source is a node as written, on one line where that is possible.
func source(n syntax.Node) string {
	var b strings.Builder
	if err := syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n); err != nil {
		return "?"
	}
	return strings.TrimSpace(b.String())
}

func readWords(ws []*syntax.Word) []word {
	out := make([]word, len(ws))
	for i, w := range ws {
		out[i] = readWord(w)
	}
	return out
}
