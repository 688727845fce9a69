// Package store keeps the records of runs. A store gives transactions over the records of one run
// at a time; what they mean is the control core's matter. Implementations: mem (for tests and
// throw-away services) and sqlite (one file shared by several processes). The suite that every
// implementation passes is in storetest.
package store

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

// Store holds the records of all runs of one place.
//
// The function given to Update or View must not call the store again and must not keep the Tx. It
// may run on another goroutine than the caller's; a panic in it undoes the update and comes out of
// Update in the caller's goroutine.
type Store interface {
	// Update runs f with the right to write. All its writes are durable when Update returns nil, and
	// none of them ever shows when f, or the commit, fails. Updates never overlap. A store whose queue
	// is full answers KindTooManyRequests at once; a full disk is ErrDiskFull.
	Update(ctx context.Context, id contract.RunID, f func(control.Tx) error) error
	// View runs f over one moment of the run's records, in the caller's goroutine. Writes fail.
	View(ctx context.Context, id contract.RunID, f func(control.Tx) error) error
	// Runs gives the value under key of every run that has it, the newest run first. It reads as it
	// goes: a run added or removed meanwhile may or may not show.
	Runs(ctx context.Context, key string) iter.Seq2[Head, error]
}

// Head is one record of one run.
type Head struct {
	ID    contract.RunID
	Value []byte
}

// ErrDiskFull is in the chain of every error that is there because no space is left.
var ErrDiskFull = errors.New("no space left on the disk")

// ErrReadOnly is what a write inside View fails with.
var ErrReadOnly = errors.New("write inside a view")

// maxKey bounds a key, in bytes.
const maxKey = 512

// CheckKey refuses what is not a short printable ASCII word: byte order and prefixes mean the same in
// every store for those only.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return contract.Errorf(contract.KindInternal, "record key %q is not 1 to %d printable ASCII characters", key, maxKey)
	}
	return nil
}

// PrefixEnd is the first key after all those that begin with prefix.
func PrefixEnd(prefix string) string {
	if prefix == "" {
		return "\x7f"
	}
	last := len(prefix) - 1
	return prefix[:last] + string(rune(prefix[last]+1))
}
