// Package policy judges tool calls before they run: it parses shell scripts, gives every part of
// them a class, and says by the run's policy and rules whether the call may run, must be asked for,
// or is denied. It knows no process and no file: it reads text only, and what it does not understand asks.
package policy

import (
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
type Policy struct{ c Config }

// New reads the rules. An error is of kind KindInvalid and names the rule it is about.
func New(c Config) (*Policy, error) { return &Policy{c: c}, nil }

// Command judges a shell script that would run in dir, a folder of the tree.
func (p *Policy) Command(script, dir string) contract.Judgement {
	return contract.Judgement{Action: contract.ActionDeny, Kind: contract.ApproveCommand, Reason: "not judged"}
}

// Write judges a change of one file by a file tool.
func (p *Policy) Write(path string, outside bool) contract.Judgement {
	return contract.Judgement{Action: contract.ActionDeny, Kind: contract.ApproveWrite, Reason: "not judged"}
}

// Read judges the reading of one file by a file tool.
func (p *Policy) Read(path string, outside bool) contract.Judgement {
	return contract.Judgement{Action: contract.ActionDeny, Kind: contract.ApproveCommand, Reason: "not judged"}
}

// Grant widens the run by exactly the scope of a decision for the session.
func (p *Policy) Grant(s contract.SessionScope) {}

// Part is one part of a script with the class it was given and the rule that gave it.
type Part struct {
	Text  string // the part as written
	Class string // reads, writes, outside, network, dangerous, unknown
	Rule  string
}

// Explain lists the parts of a script, for people who want to know why it asks.
func (p *Policy) Explain(script, dir string) []Part { return nil }
