package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/rivumi/rivumi/internal/contract"
)

// Chain is what reading a log line by line showed.
type Chain struct {
	Events  int64          `json:"events"`            // whole, linked events
	RunID   contract.RunID `json:"runId"`             // of the first event
	Ended   bool           `json:"ended"`             // the last event is a terminal one
	Torn    bool           `json:"torn"`              // the last line is cut; its event is lost
	Head    LogHead        `json:"head"`              // last good event
	HeadOK  bool           `json:"headOk"`            // the event a manifest names is in the log with that hash
	Problem string         `json:"problem,omitempty"` // first break of the chain, "" for none
}

// ReadChain verifies a log: numbers from 1 without a gap, one run, each line's prev the hash of the line
// before, one terminal event at the end. want is the head a manifest names; the zero value asks for
// none. The error is for a reader that fails; breaks of the log are in Chain.
func ReadChain(r io.Reader, want LogHead) (Chain, error) {
	c := Chain{HeadOK: want.Seq == 0}
	in := bufio.NewReaderSize(r, 64<<10)
	var prev []byte
	for {
		line, err := readLine(in)
		switch {
		case errors.Is(err, io.EOF):
			c.Torn = len(line) > 0
			return c, nil
		case errors.Is(err, bufio.ErrTooLong):
			c.Problem = fmt.Sprintf("line %d is longer than %d bytes", c.Events+1, contract.MaxEventBytes)
			return c, nil
		case err != nil:
			return c, fmt.Errorf("read log: %w", err)
		}
		if p := c.add(line, prev, want); p != "" {
			c.Problem = p
			return c, nil
		}
		prev = line
	}
}

// add takes the next line; it returns what is wrong with it.
func (c *Chain) add(line, prev []byte, want LogHead) string {
	e, err := contract.DecodeEvent(line)
	n := c.Events + 1
	switch {
	case err != nil:
		return fmt.Sprintf("line %d is not an event", n)
	case e.Seq != n:
		return fmt.Sprintf("line %d has number %d", n, e.Seq)
	case e.Prev != contract.ChainHash(prev):
		return fmt.Sprintf("event %d does not follow the event before it", n)
	case c.Ended:
		return fmt.Sprintf("event %d comes after the end of the run", n)
	case n > 1 && e.RunID != c.RunID:
		return fmt.Sprintf("event %d is of another run", n)
	}
	hash := contract.ChainHash(line)
	c.Events, c.RunID, c.Ended = n, e.RunID, e.Ends()
	c.Head = LogHead{Seq: n, Hash: hash}
	if want.Seq == n {
		c.HeadOK = want.Hash == hash
	}
	return ""
}

// readLine gives the next line without its line feed; a last line without one comes with io.EOF.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > contract.MaxEventBytes+1 {
			return nil, bufio.ErrTooLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return line, err
		}
		return line[:len(line)-1], nil
	}
}
