package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/rivumi/rivumi/internal/model"
)

// maxRecorded bounds the output kept of one call, in bytes.
const maxRecorded = 4000

// Recorder is a model that passes every call on to another and writes the run as rivumi-replay/1.
// A step is written when the request after it brings its results, the last one by Close. A request
// that repeats a turn, after a failed attempt, replaces what was held. It is for one run at a time.
type Recorder struct {
	model model.Model
	o     RecorderOptions

	mu      sync.Mutex
	to      io.Writer
	held    *RecordedStep
	next    int
	started bool
	err     error
}

// RecorderOptions says what the recording carries.
type RecorderOptions struct {
	Header  Header
	Workdir string                                               // replaced by {{workdir}} in arguments; "" replaces nothing
	Clean   model.Cleaner                                        // takes secrets out of every line; nil leaves all as it is
	Read    func(text string) (exit int, output string, ok bool) // nil is [ReadResult]
}

// NewRecorder wraps m. The caller owns w and closes it after [Recorder.Close].
func NewRecorder(m model.Model, w io.Writer, o RecorderOptions) *Recorder {
	if o.Read == nil {
		o.Read = ReadResult
	}
	o.Header.Type, o.Header.Format = "header", ReplayFormat
	return &Recorder{model: m, to: w, o: o}
}

// Stream implements [model.Model]. A recording that cannot be written does not fail the run; Close
// tells of it.
func (r *Recorder) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Chunk, error] {
	r.settle(req)
	return model.WithRecord(r.model, func(e model.Exchange) {
		if e.Turn != nil {
			r.hold(e.Turn)
		}
	}).Stream(ctx, req)
}

// settle writes the held step with the results the request brings for it.
func (r *Recorder) settle(req model.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		return
	}
	results, found := map[string]model.Result{}, len(r.held.Calls) == 0
	for _, m := range req.Messages {
		for _, res := range m.Results {
			results[res.CallID] = res
		}
	}
	var outcomes []Outcome
	for _, c := range r.held.Calls {
		res, ok := results[c.ID]
		found = found || ok
		outcomes = append(outcomes, r.outcome(res))
	}
	if !found { // the turn was thrown away
		r.held = nil
		return
	}
	if len(outcomes) > 0 {
		r.held.Recorded, r.held.Others = &outcomes[0], outcomes[1:]
	}
	r.flush()
}

func (r *Recorder) outcome(res model.Result) Outcome {
	exit, output, ok := r.o.Read(res.Text)
	if !ok {
		output = res.Text
		if res.IsError {
			exit = 1
		}
	}
	o := Outcome{ReturnCode: exit, Output: output}
	if len(output) > maxRecorded {
		o.Output, o.Truncated = strings.ToValidUTF8(output[:maxRecorded], ""), true
	}
	return o
}

func (r *Recorder) hold(t *model.Turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &RecordedStep{Type: "step", N: r.next, Text: t.Text, Calls: []RecordedCall{}}
	for _, c := range t.Calls {
		if c.Bad != "" {
			s.Malformed++
			continue
		}
		var args map[string]any
		if err := json.Unmarshal(c.Arguments, &args); err != nil {
			s.Malformed++
			continue
		}
		if r.o.Workdir != "" {
			args, _ = replaceIn(args, r.o.Workdir, workdirMark).(map[string]any)
		}
		s.Calls = append(s.Calls, RecordedCall{ID: c.ID, Tool: c.Name, Args: args})
	}
	if u := t.Usage; u.Known {
		s.Usage = &RecordedUsage{In: u.Input + u.CacheRead, Out: u.Output, Cached: u.CacheRead, Reasoning: u.Reasoning}
	}
	r.held = s
}

// flush writes the held step; the lock is held.
func (r *Recorder) flush() {
	r.write(r.held)
	r.held = nil
	r.next++
}

func (r *Recorder) write(line any) {
	if !r.started {
		r.started = true
		r.write(r.o.Header)
	}
	data, err := marshal(line)
	if err == nil {
		if r.o.Clean != nil {
			data = []byte(r.o.Clean.String(string(data)))
		}
		_, err = r.to.Write(append(data, '\n'))
	}
	if err != nil && r.err == nil {
		r.err = err
	}
}

// Close writes the last step and the end line, and gives the first error of the whole recording.
func (r *Recorder) Close(exitStatus, patch string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		r.flush()
	}
	r.write(End{Type: "end", ExitStatus: exitStatus, Patch: patch})
	if r.err != nil {
		return fmt.Errorf("writing recorded run: %w", r.err)
	}
	return nil
}
