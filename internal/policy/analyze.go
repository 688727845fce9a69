package policy

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/rivumi/rivumi/internal/contract"
)

// class says what a part of a script does, the most harmless first.
type class int

const (
	classReads class = iota
	classWrites
	classUnknown
	classOutside
	classNetwork
	classDangerous
)

func (c class) String() string {
	return [...]string{"reads", "writes", "unknown", "outside", "network", "dangerous"}[c]
}

// whyEnv is the reason of an assignment that changes how programs are found or run.
const whyEnv = "sets a variable that changes what programs do"

// part is one piece of a script: a simple command, a redirect, or a construct that is not understood.
type part struct {
	text   string
	class  class
	why    string
	cmd    *command // for a simple command
	target string   // for a redirect inside the tree: the file
	hosts  []string // for the network: the hosts it names
}

// command is a simple command as it would run.
type command struct {
	text  string
	words []word
}

func (c command) static() []string {
	out := make([]string, len(c.words))
	for i, w := range c.words {
		out[i] = w.text
	}
	return out
}

// pathUse is a path a script names.
type pathUse struct {
	path   string
	writes bool
}

// analysis is all that is known of a script.
type analysis struct {
	parts      []part
	cmds       []*command // also those inside sh -c, env, xargs and the like
	paths      []pathUse
	hosts      []string
	unreadable string // why a part of it cannot be known, "" when all can
	compound   bool   // more than one plain command
	moved      bool   // a cd makes relative paths unsure
	dir        string
	depth      int
}

// maxScript and maxDepth bound the work on one script.
const (
	maxScript = 256 << 10
	maxDepth  = 8
)

// analyze never fails: what it cannot parse is one unknown part.
func analyze(script, dir string) (a analysis) {
	a.dir = dir
	a.script(script)
	if len(a.parts) == 0 {
		a.add(part{text: "", class: classReads, why: "does nothing"})
	}
	return a
}

func (a *analysis) script(text string) {
	defer func() {
		// The parser is used on hostile text: a bug in it must not end the run.
		if r := recover(); r != nil {
			a.opaque(text, "cannot be parsed")
		}
	}()
	if len(text) > maxScript || a.depth > maxDepth {
		a.opaque("…", "is too long or too deep to read")
		return
	}
	if !contract.IsClean(text) {
		a.opaque(text, "has control or invisible characters")
	}
	f, err := newParser().Parse(strings.NewReader(text), "")
	if err != nil {
		a.opaque(text, "cannot be parsed as a shell script")
		return
	}
	if len(f.Stmts) != 1 {
		a.compound = true
	}
	for _, s := range f.Stmts {
		a.walk(s)
	}
}

// nested reads a script inside a word, as that of sh -c.
func (a *analysis) nested(text string) {
	a.depth++
	a.script(text)
	a.depth--
}

func (a *analysis) add(p part) { a.parts = append(a.parts, p) }

// opaque adds a part that cannot be read.
func (a *analysis) opaque(text, why string) {
	a.compound = true
	if a.unreadable == "" {
		a.unreadable = "it " + why
	}
	a.add(part{text: text, class: classUnknown, why: why})
}

func (a *analysis) odd(n syntax.Node, why string) {
	a.compound = true
	a.add(part{text: source(n), class: classUnknown, why: why})
}

// walk visits everything of a statement that runs or writes.
func (a *analysis) walk(root syntax.Node) {
	syntax.Walk(root, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			a.stmt(n)
		case *syntax.CallExpr:
			a.call(n)
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.Subshell, *syntax.Block, *syntax.IfClause, *syntax.WhileClause,
			*syntax.CaseClause, *syntax.TimeClause:
			a.compound = true
		case *syntax.BinaryCmd:
			a.compound = true
			a.pipe(n)
		case *syntax.ForClause:
			a.compound = true
			if it, ok := n.Loop.(*syntax.WordIter); ok {
				a.assigned(n, it.Name.Value)
			}
		case *syntax.FuncDecl:
			a.opaque(source(n), "defines a function, which can stand for any command")
		case *syntax.CoprocClause:
			a.odd(n, "starts a coprocess")
		case *syntax.TestDecl:
			a.odd(n, "is not plain bash")
		case *syntax.DeclClause:
			a.decl(n)
		case *syntax.ParamExp:
			a.param(n)
		case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
			a.arithmetic(n)
		case *syntax.BinaryTest:
			a.binaryTest(n)
		case *syntax.UnaryTest:
			if n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar {
				a.odd(n, "tests a variable by name, which can run a subscript")
			}
		}
		return true
	})
}

func (a *analysis) stmt(s *syntax.Stmt) {
	if s.Coprocess || s.Disown {
		a.odd(s, "is not plain bash")
	}
	if s.Background || s.Negated {
		a.compound = true
	}
	for _, r := range s.Redirs {
		a.redirect(r)
	}
}

func (a *analysis) redirect(r *syntax.Redirect) {
	a.compound = true
	w := readWord(r.Word)
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return
	case syntax.DplIn:
		if w.static && strings.Trim(w.text, "0123456789-") == "" {
			return
		}
	case syntax.DplOut:
		if w.static && w.text != "" && strings.Trim(w.text, "0123456789-") == "" {
			return
		}
	case syntax.RdrIn:
		a.input(r, w)
		return
	}
	text := source(r.Word)
	switch {
	case !w.static:
		a.add(part{text: "> " + text, class: classOutside, why: "writes to a file whose name is not known"})
	case isDevice(w.text):
		a.add(part{text: "> " + text, class: classReads, why: "writes to no file"})
	case strings.HasPrefix(w.text, "/dev/tcp/") || strings.HasPrefix(w.text, "/dev/udp/"):
		a.add(part{text: "> " + text, class: classNetwork, why: "opens a network connection"})
	case a.leavesTree(w):
		a.usePath(w.text, true)
		a.add(part{text: "> " + text, class: classOutside, why: "writes outside the repository"})
	default:
		a.usePath(w.text, true)
		p := part{text: "> " + text, class: classWrites, why: "writes to a file"}
		if !strings.HasPrefix(w.text, "/") && !a.moved {
			p.target = path.Clean(path.Join(a.dir, w.text))
		}
		a.add(p)
	}
}

func (a *analysis) input(r *syntax.Redirect, w word) {
	switch {
	case !w.static:
		a.add(part{text: "< " + w.raw, class: classUnknown, why: "reads a file whose name is not known"})
	case strings.HasPrefix(w.text, "/dev/tcp/") || strings.HasPrefix(w.text, "/dev/udp/"):
		a.add(part{text: "< " + w.raw, class: classNetwork, why: "opens a network connection"})
	case private(w):
		a.add(part{text: "< " + w.raw, class: classUnknown, why: "reads outside the repository"})
	default:
		a.usePath(w.text, false)
	}
}

func isDevice(p string) bool {
	return p == "/dev/null" || p == "/dev/stdout" || p == "/dev/stderr" || p == "/dev/zero" || strings.HasPrefix(p, "/dev/fd/")
}

// leavesTree reports whether a path is outside the tree and the temporary folder.
func (a *analysis) leavesTree(w word) bool {
	p := w.text
	switch {
	case strings.HasPrefix(w.raw, "~"):
		return true
	case p == "/tmp" || strings.HasPrefix(path.Clean(p), "/tmp/"):
		return false
	case strings.HasPrefix(p, "/"), a.moved:
		return true
	}
	clean := path.Clean(path.Join(a.dir, p))
	return clean == ".." || strings.HasPrefix(clean, "../")
}

// usePath notes a path for the rules about paths.
func (a *analysis) usePath(p string, writes bool) {
	if p != "" {
		a.paths = append(a.paths, pathUse{path: strings.TrimPrefix(path.Clean(path.Join(a.dir, p)), "/"), writes: writes})
	}
}

// pipe notices a shell that runs what it is fed.
func (a *analysis) pipe(b *syntax.BinaryCmd) {
	if b.Op != syntax.Pipe && b.Op != syntax.PipeAll {
		return
	}
	call, ok := b.Y.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return
	}
	if name := readWord(call.Args[0]); name.static && (isShell(name.text) || isInterpreter(name.text)) && len(call.Args) == 1 {
		if a.unreadable == "" {
			a.unreadable = "it runs what another command prints"
		}
		a.add(part{text: source(b), class: classDangerous, why: "runs what another command prints"})
	}
}

func (a *analysis) call(c *syntax.CallExpr) {
	for _, as := range c.Assigns {
		a.compound = true
		a.assigned(as, as.Name.Value)
		if as.Index != nil && !plainIndex(as.Index) {
			a.odd(as, "has a subscript that can run something")
		}
	}
	if len(c.Args) == 0 {
		return
	}
	words := readWords(c.Args)
	if slices.ContainsFunc(words, func(w word) bool { return !w.static }) {
		a.compound = true
	}
	a.simple(words, source(&syntax.CallExpr{Args: c.Args}))
}

// assigned checks a variable that is set.
func (a *analysis) assigned(n syntax.Node, name string) {
	if touchy(name) {
		a.add(part{text: source(n), class: classUnknown, why: whyEnv})
	}
}

func (a *analysis) decl(d *syntax.DeclClause) {
	a.compound = true
	for _, as := range d.Args {
		switch {
		case as.Name != nil:
			a.assigned(d, as.Name.Value)
			if as.Index != nil && !plainIndex(as.Index) {
				a.odd(d, "has a subscript that can run something")
			}
		case as.Value != nil:
			w := readWord(as.Value)
			if flag := w.text; !w.static || flag != "-r" && flag != "-a" && flag != "-x" && flag != "-g" && flag != "-p" && flag != "-A" {
				a.odd(d, "declares a variable in an unusual way")
			}
		}
	}
}

// param looks for expansions that do more than give a value.
func (a *analysis) param(p *syntax.ParamExp) {
	switch {
	case p.Excl, p.NestedParam != nil, p.Flags != nil:
		a.odd(p, "names a variable by a variable")
	case p.Index != nil && !plainIndex(p.Index):
		a.odd(p, "has a subscript that can run something")
	case p.Slice != nil && (!plainIndex(p.Slice.Offset) || !plainIndex(p.Slice.Length)):
		a.odd(p, "has a subscript that can run something")
	case p.Exp != nil && p.Exp.Op == syntax.OtherParamOps:
		a.odd(p, "expands a value a second time")
	case p.Exp != nil && (p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull):
		if p.Param != nil {
			a.assigned(p, p.Param.Value)
		}
	}
}

// plainIndex reports whether a subscript is a number, @ or *: bash evaluates anything else, and a
// value in it can hold a command.
func plainIndex(x syntax.ArithmExpr) bool {
	if x == nil {
		return true
	}
	w, ok := x.(*syntax.Word)
	if !ok {
		return false
	}
	v := strings.Trim(source(w), " ")
	return v == "@" || v == "*" || v != "" && strings.Trim(v, "0123456789") == ""
}

// arithmetic with names in it is not known: bash evaluates the value of a variable as an
// expression, in which a subscript can run a command.
func (a *analysis) arithmetic(n syntax.Node) {
	a.compound = true
	known := true
	syntax.Walk(n, func(m syntax.Node) bool {
		switch m := m.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst:
			known = false
		case *syntax.Lit:
			known = known && strings.Trim(m.Value, "0123456789 ") == ""
		}
		return known
	})
	if !known {
		a.odd(n, "has arithmetic on a value that can run something")
	}
}

func (a *analysis) binaryTest(b *syntax.BinaryTest) {
	a.compound = true
	switch b.Op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		a.arithmetic(b)
	}
}

// readOnly reports whether every part only reads.
func (a analysis) readOnly() bool { return worst(a.parts) == classReads }

// leaves reports whether a part leaves a full sandbox.
func (a analysis) leaves() bool {
	return slices.ContainsFunc(a.parts, func(p part) bool { return p.class == classOutside || p.class == classNetwork })
}

// plain reports whether the script is one simple command of known words and nothing else.
func (a analysis) plain() bool {
	return !a.compound && a.unreadable == "" && len(a.cmds) == 1 && len(a.parts) == 1 && a.parts[0].cmd != nil
}

func worst(parts []part) class {
	c := classReads
	for _, p := range parts {
		c = max(c, p.class)
	}
	return c
}

// hostsOf gives the hosts that words name as URLs or as user@host:path.
func hostsOf(words []word) []string {
	var hosts []string
	for _, w := range words {
		if !w.static {
			continue
		}
		if u, err := url.Parse(w.text); err == nil && u.Host != "" {
			hosts = append(hosts, u.Hostname())
			continue
		}
		if user, rest, ok := strings.Cut(w.text, "@"); ok && user != "" && !strings.Contains(user, "/") {
			host, _, _ := strings.Cut(rest, ":")
			hosts = append(hosts, host)
		}
	}
	return hosts
}
