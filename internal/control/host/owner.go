package host

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
)

// ownerKey is the host's own record beside those of the core: which process has a run that has not
// ended. It is written with the run and deleted with its end, so that it lists the unfinished ones.
const ownerKey = "host/owner"

// owner names a process so that another one can tell whether it still lives.
type owner struct {
	Name   string `json:"name"`            // unique, also across machines
	PID    int    `json:"pid"`             //
	Start  string `json:"start"`           // when the process began, in the kernel's words; pids are used again
	Place  string `json:"place"`           // boot and pid namespace in which PID means something, "" where it can't be told
	Socket string `json:"socket"`          // file name in the socket folder, "" for none
	Boxes  bool   `json:"boxes,omitempty"` // its runs live in boxes, which outlive it
}

// left is the owner of a run whose box lives on: a process that is surely gone.
func (o owner) left() owner {
	o.Start, o.Socket = "left", ""
	return o
}

func newOwner(entropy io.Reader) (owner, error) {
	random := make([]byte, 16)
	if _, err := io.ReadFull(entropy, random); err != nil {
		return owner{}, fmt.Errorf("read entropy: %w", err)
	}
	o := owner{Name: contract.RandomID("own_", random), PID: os.Getpid(), Place: processPlace()}
	o.Start = processStart(o.PID)
	return o, nil
}

// state says of another process whether it is surely alive or surely dead; both false means that
// only its lease can tell.
func (o owner) state(here string) (alive, dead bool) {
	if o.Place == "" || o.Place != here {
		return false, false
	}
	alive = processStart(o.PID) == o.Start
	return alive, !alive
}

func (o owner) put(tx control.Tx) error {
	return tx.Put(ownerKey, contract.MarshalJSON(o))
}

func ownerOf(tx control.Tx) (o owner, ok bool, err error) {
	v, ok, err := tx.Get(ownerKey)
	if err != nil || !ok {
		return owner{}, false, err
	}
	if err := json.Unmarshal(v, &o); err != nil {
		return owner{}, false, fmt.Errorf("decode owner: %w", err)
	}
	return o, true, nil
}
