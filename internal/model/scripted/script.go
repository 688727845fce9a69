// Package scripted has models that need no network: a script of fixture turns (`script:FILE`), and
// a player and a recorder of whole runs (`replay:FILE`, format rivumi-replay/1).
//
// All of them choose the turn by the number of assistant messages in the request, so that a run
// that was resumed goes on where it was, and stream like a provider does.
package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rivumi/rivumi/internal/model"
)

// maxFile bounds a script or a recorded run, in bytes.
const maxFile = 64 << 20

// What a script does after its last turn.
const (
	DefaultStop       = "stop"        // a short closing text without calls; the default
	DefaultRepeatLast = "repeat-last" // the last turn again
)

// Script is a list of turns.
type Script struct {
	Turns   []Turn `yaml:"turns"`
	Default string `yaml:"default"`
}

// Turn is one scripted answer. Text and reasoning stream first; then Error or Hang, where given,
// take the place of the end.
type Turn struct {
	Text      string `yaml:"text"`
	Reasoning string `yaml:"reasoning"`
	Calls     []Call `yaml:"calls"`
	Finish    string `yaml:"finish"` // by default tool_calls with calls, else stop
	Usage     *Usage `yaml:"usage"`  // absent: usage is unknown
	DelayMS   int    `yaml:"delayMs"`
	ChunkMS   int    `yaml:"chunkMs"` // wait between two chunks
	Chunks    int    `yaml:"chunks"`  // pieces of the text; 0: about 24 bytes each, at most 64
	Error     *Fault `yaml:"error"`
	Hang      bool   `yaml:"hang"` // wait until the request is cancelled
}

// Call is one scripted tool call. Raw, where given, is sent in place of Arguments as it is, and
// need not be JSON.
type Call struct {
	ID        string         `yaml:"id"`
	Name      string         `yaml:"name"`
	Arguments map[string]any `yaml:"arguments"`
	Raw       *string        `yaml:"raw"`
}

// Usage is the scripted token counts.
type Usage struct {
	Input      int64 `yaml:"input"`
	Output     int64 `yaml:"output"`
	CacheRead  int64 `yaml:"cacheRead"`
	CacheWrite int64 `yaml:"cacheWrite"`
	Reasoning  int64 `yaml:"reasoning"`
}

// Fault is a scripted error. Times is how many requests for the turn it hits before the turn
// plays whole; 0 means every one.
type Fault struct {
	Kind       model.ErrorKind `yaml:"kind"`
	Status     int             `yaml:"status"`
	Code       string          `yaml:"code"`
	Message    string          `yaml:"message"`
	RetryAfter int             `yaml:"retryAfterMs"`
	Times      int             `yaml:"times"`
}

// Load reads a script from a YAML or JSON file.
func Load(path string) (*Player, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading model script: %w", err)
	}
	p, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("model script %s: %w", filepath.Base(path), err)
	}
	return p, nil
}

// Parse reads a script from YAML or JSON. Unknown keys, several documents and turns that say
// nothing are errors that name the turn.
func Parse(data []byte) (*Player, error) {
	var s Script
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&s); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty")
		}
		return nil, fmt.Errorf("reading YAML: %w", err)
	}
	if err := dec.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return New(s)
}

// New makes a player of a script.
func New(s Script) (*Player, error) {
	switch s.Default {
	case "":
		s.Default = DefaultStop
	case DefaultStop, DefaultRepeatLast:
	default:
		return nil, fmt.Errorf("default: %q is neither %q nor %q", s.Default, DefaultStop, DefaultRepeatLast)
	}
	if len(s.Turns) == 0 {
		return nil, errors.New("turns: at least one is needed")
	}
	p := &Player{script: s, steps: make([]step, len(s.Turns)), failed: make([]int, len(s.Turns))}
	for i, t := range s.Turns {
		st, err := t.step()
		if err != nil {
			return nil, fmt.Errorf("turns[%d]: %w", i, err)
		}
		p.steps[i] = st
	}
	return p, nil
}

// step checks the turn and makes it ready to play.
func (t Turn) step() (step, error) {
	if t.Text == "" && t.Reasoning == "" && len(t.Calls) == 0 && t.Error == nil && !t.Hang {
		return step{}, errors.New("a turn needs text, reasoning, calls, error or hang")
	}
	if t.DelayMS < 0 || t.ChunkMS < 0 || t.Chunks < 0 {
		return step{}, errors.New("delayMs, chunkMs and chunks cannot be negative")
	}
	st := step{
		text: t.Text, reasoning: t.Reasoning, finish: model.Finish(t.Finish), hang: t.Hang, fault: t.Error,
		delay: time.Duration(t.DelayMS) * time.Millisecond, gap: time.Duration(t.ChunkMS) * time.Millisecond, chunks: t.Chunks,
	}
	switch st.finish {
	case "":
		st.finish = model.FinishStop
		if len(t.Calls) > 0 {
			st.finish = model.FinishCalls
		}
	case model.FinishStop, model.FinishCalls, model.FinishLength, model.FinishFilter, model.FinishRefusal, model.FinishPause:
	default:
		return step{}, fmt.Errorf("finish: %q is not a finish reason", t.Finish)
	}
	if t.Error != nil && !knownKind(t.Error.Kind) {
		return step{}, fmt.Errorf("error.kind: %q is not a kind of model error", t.Error.Kind)
	}
	if u := t.Usage; u != nil {
		st.usage = model.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning, Known: true}
	}
	for i, c := range t.Calls {
		raw, err := c.raw()
		if err != nil {
			return step{}, fmt.Errorf("calls[%d]: %w", i, err)
		}
		st.calls = append(st.calls, raw)
	}
	return st, nil
}

func (c Call) raw() (model.RawCall, error) {
	if c.Name == "" {
		return model.RawCall{}, errors.New("name is needed")
	}
	raw := model.RawCall{ID: c.ID, Name: c.Name}
	if c.Raw != nil {
		if c.Arguments != nil {
			return model.RawCall{}, errors.New("arguments and raw exclude each other")
		}
		raw.Arguments = *c.Raw
		return raw, nil
	}
	if c.Arguments == nil {
		return raw, nil
	}
	args, err := marshal(c.Arguments)
	if err != nil {
		return model.RawCall{}, fmt.Errorf("arguments: %w", err)
	}
	raw.Arguments = string(args)
	return raw, nil
}

func knownKind(k model.ErrorKind) bool {
	switch k {
	case model.ErrTransport, model.ErrStatus, model.ErrStream, model.ErrTruncated, model.ErrEmpty, model.ErrProtocol, model.ErrIdle,
		model.ErrTooBig, model.ErrContext, model.ErrCanceled, model.ErrConfig, model.ErrBudget:
		return true
	}
	return false
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d MiB", filepath.Base(path), maxFile>>20)
	}
	return data, err
}

// marshal is json.Marshal without the escapes meant for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
