package scripted

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rivumi/rivumi/internal/model"
)

// ReplayFormat is the format name in the header of a recorded run.
const ReplayFormat = "rivumi-replay/1"

// workdirMark stands for the root of the tree in the arguments of recorded calls.
const workdirMark = "{{workdir}}"

// Header is the first line of a recorded run.
type Header struct {
	Type        string  `json:"type"`
	Format      string  `json:"format"`
	ID          string  `json:"id"`
	Repo        string  `json:"repo,omitempty"`
	BaseCommit  string  `json:"base_commit,omitempty"`
	Instruction string  `json:"instruction,omitempty"`
	Source      string  `json:"source,omitempty"`
	Model       string  `json:"model,omitempty"`
	Resolved    bool    `json:"resolved,omitempty"`
	APICalls    int     `json:"api_calls,omitempty"`
	CostUSD     float64 `json:"cost_usd,omitempty"`
}

// RecordedStep is one step line of a recorded run.
type RecordedStep struct {
	Type      string         `json:"type"`
	N         int            `json:"n"`
	Text      string         `json:"text"`
	Calls     []RecordedCall `json:"calls"`
	Recorded  *Outcome       `json:"recorded,omitempty"` // of the first call
	Others    []Outcome      `json:"others,omitempty"`   // of the calls after it
	Usage     *RecordedUsage `json:"usage,omitempty"`
	Malformed int            `json:"malformed,omitempty"` // commands the model gave in a broken turn
}

// RecordedCall is one call of a recorded step.
type RecordedCall struct {
	ID   string         `json:"id"`
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
}

// Outcome is what a call gave. Truncated says that Output is a part.
type Outcome struct {
	ReturnCode int    `json:"returncode"`
	Output     string `json:"output"`
	Truncated  bool   `json:"truncated,omitempty"`
}

// RecordedUsage is the tokens of a recorded step; In includes what came from the cache.
type RecordedUsage struct {
	In        int64   `json:"in"`
	Out       int64   `json:"out"`
	Cached    int64   `json:"cached,omitempty"`
	Reasoning int64   `json:"reasoning,omitempty"`
	Cost      float64 `json:"cost,omitempty"`
}

// End is the last line of a recorded run.
type End struct {
	Type       string `json:"type"`
	ExitStatus string `json:"exit_status"`
	Patch      string `json:"patch"`
}

// ReplayOptions says how a recorded run is played.
type ReplayOptions struct {
	Workdir string // stands where the recording has the root of its tree; "" is "."
	// SkipLast leaves the last step out: in foreign recordings it is the submit command of that agent.
	SkipLast bool
	// Read finds exit code and output in a tool result's text; nil is [ReadResult].
	Read func(text string) (exit int, output string, ok bool)
}

// Replay plays a recorded run, whatever it is answered, and compares the answers with what was
// recorded. It is safe for concurrent use.
type Replay struct {
	Header Header
	End    *End // nil where the recording was cut

	steps []RecordedStep
	play  []step
	o     ReplayOptions

	mu      sync.Mutex
	reports map[int][]Comparison
}

// LoadReplay reads a recorded run from a file.
func LoadReplay(path string, o ReplayOptions) (*Replay, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading recorded run: %w", err)
	}
	r, err := ParseReplay(data, o)
	if err != nil {
		return nil, fmt.Errorf("recorded run %s: %w", filepath.Base(path), err)
	}
	return r, nil
}

// ParseReplay reads a recorded run. Unknown keys are left aside; unknown line types are errors.
func ParseReplay(data []byte, o ReplayOptions) (*Replay, error) {
	if o.Workdir == "" {
		o.Workdir = "."
	}
	if o.Read == nil {
		o.Read = ReadResult
	}
	r := &Replay{o: o, reports: map[int][]Comparison{}}
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, maxFile)
	for line := 1; sc.Scan(); line++ {
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		if err := r.line(sc.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("reading lines: %w", err)
	}
	if r.Header.Format == "" {
		return nil, errors.New("no header line")
	}
	if o.SkipLast && len(r.steps) > 0 {
		r.steps = r.steps[:len(r.steps)-1]
	}
	for _, s := range r.steps {
		st, err := r.prepare(s)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", s.N, err)
		}
		r.play = append(r.play, st)
	}
	return r, nil
}

func (r *Replay) line(data []byte) error {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	if (head.Type == "header") != (r.Header.Format == "") {
		return errors.New("the header must be the first line, once")
	}
	switch head.Type {
	case "header":
		if err := json.Unmarshal(data, &r.Header); err != nil {
			return fmt.Errorf("reading header: %w", err)
		}
		if r.Header.Format != ReplayFormat {
			return fmt.Errorf("format %q is not %q", r.Header.Format, ReplayFormat)
		}
		return nil
	case "step":
		var s RecordedStep
		if err := json.Unmarshal(data, &s); err != nil {
			return fmt.Errorf("reading step: %w", err)
		}
		r.steps = append(r.steps, s)
		return nil
	case "end":
		r.End = &End{}
		if err := json.Unmarshal(data, r.End); err != nil {
			return fmt.Errorf("reading end: %w", err)
		}
		return nil
	}
	return fmt.Errorf("unknown line type %q", head.Type)
}

func (r *Replay) prepare(s RecordedStep) (step, error) {
	st := step{text: s.Text, finish: model.FinishStop}
	if s.Usage != nil {
		st.usage = model.Usage{
			Input: max(0, s.Usage.In-s.Usage.Cached), Output: s.Usage.Out, CacheRead: s.Usage.Cached, Reasoning: s.Usage.Reasoning, Known: true,
		}
	}
	for _, c := range s.Calls {
		args, err := marshal(replaceIn(c.Args, workdirMark, r.o.Workdir))
		if err != nil {
			return step{}, fmt.Errorf("arguments of %s: %w", c.ID, err)
		}
		st.calls = append(st.calls, model.RawCall{ID: c.ID, Name: c.Tool, Arguments: string(args)})
		st.finish = model.FinishCalls
	}
	if st.text == "" && len(st.calls) == 0 {
		st.text = "(an empty turn in the recording)"
	}
	return st, nil
}

// replaceIn replaces from by to in every string of a decoded JSON value.
func replaceIn(v any, from, to string) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, from, to)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = replaceIn(v[i], from, to)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = replaceIn(v[k], from, to)
		}
		return out
	}
	return v
}

// Steps is how many steps will be played.
func (r *Replay) Steps() int { return len(r.play) }

// Stream implements [model.Model].
func (r *Replay) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		r.compare(req)
		n := answered(req)
		if n >= len(r.play) {
			step{text: "The recorded run ends here.", finish: model.FinishStop}.play(ctx, req, yield)
			return
		}
		r.play[n].play(ctx, req, yield)
	}
}
