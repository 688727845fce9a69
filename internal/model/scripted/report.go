package scripted

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/rivumi/rivumi/internal/model"
)

// Comparison is one call of a replayed run beside what was recorded of it. Readable is false
// where no exit code was found in the result's text; the two verdicts mean nothing then.
type Comparison struct {
	Step       int     `json:"step"`
	CallID     string  `json:"callId"`
	Recorded   Outcome `json:"recorded"`
	Got        Outcome `json:"got"`
	Readable   bool    `json:"readable"`
	SameExit   bool    `json:"sameExit"`
	SameOutput bool    `json:"sameOutput"`
}

// Report is all comparisons so far, in the order of the recording.
func (r *Replay) Report() []Comparison {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Comparison
	for i := range r.play {
		out = append(out, r.reports[i]...)
	}
	return out
}

// Summary counts a report.
type Summary struct {
	Calls, Readable, SameExit, SameOutput int
}

// Summarise counts comparisons.
func Summarise(report []Comparison) Summary {
	var s Summary
	for _, c := range report {
		s.Calls++
		if c.Readable {
			s.Readable++
		}
		if c.SameExit {
			s.SameExit++
		}
		if c.SameOutput {
			s.SameOutput++
		}
	}
	return s
}

// compare looks at the results of the newest step in the request.
func (r *Replay) compare(req model.Request) {
	n := answered(req) - 1
	if n < 0 || n >= len(r.play) {
		return
	}
	var calls []model.Call
	results := map[string]model.Result{}
	for _, m := range req.Messages {
		if m.Role == model.RoleAssistant {
			calls = m.Calls
			clear(results)
		}
		for _, res := range m.Results {
			results[res.CallID] = res
		}
	}
	outcomes := r.steps[n].outcomes()
	var list []Comparison
	for i, c := range calls {
		res, ok := results[c.ID]
		if !ok || i >= len(outcomes) {
			continue
		}
		list = append(list, r.beside(Comparison{Step: r.steps[n].N, CallID: c.ID, Recorded: outcomes[i]}, res))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports[n] = list
}

func (s RecordedStep) outcomes() []Outcome {
	if s.Recorded == nil {
		return nil
	}
	return append([]Outcome{*s.Recorded}, s.Others...)
}

func (r *Replay) beside(c Comparison, res model.Result) Comparison {
	exit, output, ok := r.o.Read(res.Text)
	c.Readable = ok
	c.Got = Outcome{ReturnCode: exit, Output: output}
	if !ok {
		c.Got.Output = res.Text
		return c
	}
	c.SameExit = exit == c.Recorded.ReturnCode
	want, got := strings.TrimSpace(c.Recorded.Output), strings.TrimSpace(output)
	c.SameOutput = want == got || c.Recorded.Truncated && want != "" && strings.HasPrefix(got, cutMark(want))
	return c
}

// cutMark leaves off the last line of a cut output: it may be a part.
func cutMark(s string) string {
	if i := strings.LastIndexByte(s, '\n'); i > 0 {
		return s[:i]
	}
	return s
}

var exitLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^\W*exit(?:[ _-]?code)?[:=\s]{1,3}(-?\d{1,6})\b`)
})

// ReadResult finds the exit code in the head of a tool result: a line such as `exit code: 1` or
// `[exit 1, 0.2 s]` among its first eight. What follows the head, up to a first empty line where
// there is one and else that line alone, is the output.
func ReadResult(text string) (exit int, output string, ok bool) {
	rest := text
	for range 8 {
		line, after, more := strings.Cut(rest, "\n")
		if m := exitLine().FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return 0, "", false
			}
			if strings.HasPrefix(line, "[") { // the whole head is this line
				return n, strings.TrimSuffix(after, "(no output)"), true
			}
			return n, body(after), true
		}
		if !more {
			break
		}
		rest = after
	}
	return 0, "", false
}

var headLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z][a-z _-]{1,24}: ?\S`)
})

// body skips the other head lines, such as `duration: 0.2 s`, and the empty line after them.
func body(rest string) string {
	after := rest
	for {
		line, next, more := strings.Cut(after, "\n")
		switch {
		case line == "" && more:
			return next
		case headLine().MatchString(line) && more:
			after = next
		default:
			return rest
		}
	}
}
