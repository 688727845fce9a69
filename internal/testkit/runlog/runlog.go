// Package runlog is a run's log, approvals, mail and artifacts in memory and a folder: what a host gives
// to a runner, reduced to what a runner can see. Tests make it fail on demand.
package runlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// RunID is the run of every log of this package.
const RunID = contract.RunID("run_0123456789abcdefghjkmnpqrs")

// Session implements [contract.Session]. The fields are set before the run begins.
type Session struct {
	Dir      string                                    // where artifacts are kept
	Attempt  int                                       // of the events
	Decide   func(contract.Approval) contract.Decision // nil: nobody answers
	OnAppend func(contract.Event) error                // called before an event is stored; its error refuses it
	PutErr   error                                     // refuses every artifact
	File     io.Writer                                 // where lines are kept too, for a process that will be killed
	Mail     []contract.Message

	mu    sync.Mutex
	log   []contract.Event
	lines [][]byte
	asked []contract.Approval
}

var _ contract.Session = (*Session)(nil)

// New makes a log that begins as a host's does.
func New(t testing.TB, task contract.Task) *Session {
	t.Helper()
	s := &Session{Dir: t.TempDir(), Attempt: 1}
	err := errors.Join(s.Store(contract.NewEvent(0, contract.RunQueued{Schema: "rivumi-events/1", Task: task})),
		s.Store(contract.NewEvent(0, contract.RunStarted{Attempt: 1})))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Append implements [contract.Appender].
func (s *Session) Append(ctx context.Context, events ...contract.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		if s.OnAppend != nil {
			if err := s.OnAppend(e); err != nil {
				return err
			}
		}
		if err := s.Store(e); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Store puts one event into the log without asking OnAppend. It is not for use during a run.
func (s *Session) Store(e contract.Event) error {
	e.Seq, e.RunID, e.Attempt, e.Time = int64(len(s.log)+1), RunID, s.Attempt, contract.At(time.Now())
	var prev []byte
	if n := len(s.lines); n > 0 {
		prev = s.lines[n-1]
	}
	line, err := e.Seal(prev)
	if err != nil {
		return err
	}
	stored, err := contract.DecodeEvent(line)
	if err != nil {
		return err
	}
	s.log, s.lines = append(s.log, stored), append(s.lines, line)
	if s.File != nil {
		_, err = s.File.Write(append(line, '\n'))
	}
	return err
}

// Ask implements [contract.Asker].
func (s *Session) Ask(ctx context.Context, a contract.Approval) (contract.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, a)
	d := contract.Decision{Verdict: contract.Deny, By: contract.ByNobody}
	if s.Decide != nil {
		d = s.Decide(a)
	}
	err := errors.Join(s.Store(contract.NewEvent(0, contract.ApprovalRequested{Approval: a})),
		s.Store(contract.NewEvent(0, contract.ApprovalDecided{ID: a.ID, Decision: d})))
	return d, errors.Join(err, context.Cause(ctx))
}

// Take implements [contract.Mailbox].
func (s *Session) Take(context.Context) ([]contract.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mail := s.Mail
	s.Mail = nil
	return mail, nil
}

// PutArtifact implements [contract.Depot].
func (s *Session) PutArtifact(_ context.Context, name, media string, r io.Reader) (contract.Artifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.PutErr != nil {
		return contract.Artifact{}, s.PutErr
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return contract.Artifact{}, err
	}
	h := sha256.Sum256(data)
	a := contract.Artifact{Name: name, MediaType: media, Bytes: int64(len(data)), SHA256: hex.EncodeToString(h[:])}
	return a, os.WriteFile(filepath.Join(s.Dir, name), data, 0o600)
}

// Log implements [contract.Session].
func (s *Session) Log(context.Context) iter.Seq2[contract.Event, error] {
	s.mu.Lock()
	log := slices.Clone(s.log)
	s.mu.Unlock()
	return func(yield func(contract.Event, error) bool) {
		for _, e := range log {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Events gives what is stored.
func (s *Session) Events() []contract.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// Raw gives the log as a host would store it.
func (s *Session) Raw() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(bytes.Join(s.lines, []byte("\n")), '\n')
}

// Artifact gives one, "" for none.
func (s *Session) Artifact(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// All gives the payloads of one type, in order.
func All[T contract.Payload](events []contract.Event) []T {
	var out []T
	for _, e := range events {
		if p, ok := contract.As[T](e); ok {
			out = append(out, p)
		}
	}
	return out
}

// Asked gives the approvals that were asked for.
func (s *Session) Asked() []contract.Approval {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}
