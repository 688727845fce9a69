package runner_test

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

const runID = contract.RunID("run_0123456789abcdefghjkmnpqrs")

// session is a run's log, approvals, mail and artifacts in a folder. It is what a host gives, reduced to
// what a runner can see, and can be told to fail.
type session struct {
	dir string // artifacts

	mu       sync.Mutex
	attempt  int
	log      []contract.Event
	lines    [][]byte
	mail     []contract.Message
	decide   func(contract.Approval) contract.Decision
	onAppend func(contract.Event) error // called before an event is stored; its error refuses it
	asked    []contract.Approval
	putErr   error
	file     *os.File // where lines are kept too, for a process that will be killed
}

// newSession makes a log that begins as a host's does.
func newSession(t *testing.T, task contract.Task) *session {
	t.Helper()
	s := &session{dir: t.TempDir(), attempt: 1}
	err := errors.Join(s.store(contract.NewEvent(0, contract.RunQueued{Schema: "rivumi-events/1", Task: task})),
		s.store(contract.NewEvent(0, contract.RunStarted{Attempt: 1})))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *session) Append(ctx context.Context, events ...contract.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		if s.onAppend != nil {
			if err := s.onAppend(e); err != nil {
				return err
			}
		}
		if err := s.store(e); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func (s *session) store(e contract.Event) error {
	e.Seq, e.RunID, e.Attempt, e.Time = int64(len(s.log)+1), runID, s.attempt, contract.At(time.Now())
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
	if s.file != nil {
		_, err = s.file.Write(append(line, '\n'))
	}
	return err
}

func (s *session) Ask(ctx context.Context, a contract.Approval) (contract.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, a)
	d := contract.Decision{Verdict: contract.Deny, By: contract.ByNobody}
	if s.decide != nil {
		d = s.decide(a)
	}
	err := errors.Join(s.store(contract.NewEvent(0, contract.ApprovalRequested{Approval: a})),
		s.store(contract.NewEvent(0, contract.ApprovalDecided{ID: a.ID, Decision: d})))
	return d, errors.Join(err, context.Cause(ctx))
}

func (s *session) Take(context.Context) ([]contract.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mail := s.mail
	s.mail = nil
	return mail, nil
}

func (s *session) PutArtifact(_ context.Context, name, media string, r io.Reader) (contract.Artifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.putErr != nil {
		return contract.Artifact{}, s.putErr
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return contract.Artifact{}, err
	}
	h := sha256.Sum256(data)
	a := contract.Artifact{Name: name, MediaType: media, Bytes: int64(len(data)), SHA256: hex.EncodeToString(h[:])}
	return a, os.WriteFile(filepath.Join(s.dir, name), data, 0o600)
}

func (s *session) Log(context.Context) iter.Seq2[contract.Event, error] {
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

// events gives what is stored.
func (s *session) events() []contract.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

// raw gives the log as it would be stored.
func (s *session) raw() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(bytes.Join(s.lines, []byte("\n")), '\n')
}

// artifact gives one, "" for none.
func (s *session) artifact(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// all gives the payloads of one type, in order.
func all[T contract.Payload](events []contract.Event) []T {
	var out []T
	for _, e := range events {
		if p, ok := contract.As[T](e); ok {
			out = append(out, p)
		}
	}
	return out
}
