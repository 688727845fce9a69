package control

import (
	"github.com/rivumi/rivumi/internal/contract"
)

// add puts an event behind the last one: number, attempt, moment and chain hash are the log's.
func (en *entry) add(e contract.Event) error {
	h := &en.h
	e.V, e.RunID, e.Attempt, e.Time = contract.EventVersion, h.ID, h.Attempt, en.now
	e.Seq, e.Prev = h.LastSeq+1, h.Prev
	line, err := e.Encode()
	if err != nil {
		return contract.Errorf(contract.KindInvalid, "encode event %s: %w", contract.CleanText(string(e.Type)), err)
	}
	if len(line) > contract.MaxEventBytes {
		return contract.Errorf(contract.KindTooLarge, "event %s is %d bytes, more than %d", e.Type, len(line), contract.MaxEventBytes)
	}
	if err := en.tx.Put(numbered(prefixEvent, e.Seq), line); err != nil {
		return err
	}
	if h.FirstSeq == 0 {
		h.FirstSeq = 1
	}
	h.LastSeq, h.Prev = e.Seq, contract.ChainHash(line)
	h.Bytes += int64(len(line))
	en.lines = append(en.lines, line)
	return nil
}

func (en *entry) tell(step int, p contract.Payload) error { return en.add(contract.NewEvent(step, p)) }

// full reports whether the kept log has reached a share (in quarters) of its bounds.
func (en *entry) full(quarters int64) bool {
	p := en.c.cfg.Profile
	kept := en.h.LastSeq - en.h.FirstSeq + 1
	return kept*4 > int64(p.Events)*quarters || en.h.Bytes > p.EventBytes/4*quarters
}

// thin reports whether an event should be left out: past three quarters of the bounds, text that
// a later event repeats is no longer kept. The first one left out is told of.
func (en *entry) thin(t contract.EventType) (bool, error) {
	if t != contract.TypeModelDelta && t != contract.TypeToolOutput || !en.full(3) {
		return false, nil
	}
	if en.h.Thinned {
		return true, nil
	}
	en.h.Thinned = true
	return true, en.tell(0, contract.Notice{
		Level: "warning", Code: "model_delta_dropped",
		Text: "the log of this run is nearly full: streamed text is no longer kept, whole messages and results are",
	})
}

// trim removes the oldest events of a log above its bounds, a sixteenth at a time so that not
// every append pays for it. Readers behind the first kept event are told by log.gap.
func (en *entry) trim() error {
	if !en.full(4) {
		return nil
	}
	p, h := en.c.cfg.Profile, &en.h
	events, bytes := int64(p.Events)-int64(p.Events)/16, p.EventBytes-p.EventBytes/16
	above := func() bool { return h.LastSeq-h.FirstSeq+1 > events || h.Bytes > bytes }
	for above() {
		batch, err := listed(en.tx, prefixEvent, "", page)
		if err != nil {
			return err
		}
		for _, r := range batch {
			if !above() || h.FirstSeq == h.LastSeq {
				return nil
			}
			if err := en.tx.Delete(r.Key); err != nil {
				return err
			}
			h.FirstSeq++
			h.Bytes -= int64(len(r.Value))
		}
		if len(batch) == 0 {
			return contract.Errorf(contract.KindInternal, "log counts %d bytes and has no events", h.Bytes)
		}
	}
	return nil
}

// Events gives up to limit stored lines with numbers above after, oldest first, without line
// breaks. Where the oldest events are gone, the first line is a log.gap event. A negative cursor
// is KindBadCursor, one ahead of the log KindCursorAhead.
func (c *Core) Events(tx Tx, after int64, limit int) ([][]byte, error) {
	en, err := c.open(tx, Env{})
	if err != nil {
		return nil, err
	}
	if err := en.cursor(after); err != nil {
		return nil, err
	}
	var out [][]byte
	if after+1 < en.h.FirstSeq {
		gap, err := en.gap()
		if err != nil {
			return nil, err
		}
		out = append(out, gap)
		after = en.h.FirstSeq - 1
	}
	records, err := listed(tx, prefixEvent, numbered(prefixEvent, after), max(1, limit))
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		out = append(out, r.Value)
	}
	return out, nil
}

func (en *entry) cursor(after int64) error {
	if after < 0 || after > contract.Unbounded {
		return contract.Errorf(contract.KindBadCursor, "cursor must be 0 to 2^53")
	}
	if after > en.h.LastSeq {
		return contract.Errorf(contract.KindCursorAhead, "cursor %d is ahead of the log, which ends at %d", after, en.h.LastSeq)
	}
	return nil
}

// gap makes the event that stands for the ones no longer kept. It is never stored.
func (en *entry) gap() ([]byte, error) {
	e := contract.NewEvent(0, contract.LogGap{FirstAvailableSeq: en.h.FirstSeq})
	e.V, e.Seq, e.RunID, e.Attempt = contract.EventVersion, en.h.FirstSeq-1, en.h.ID, en.h.Attempt
	if en.h.StartedAt != nil {
		e.Time = *en.h.StartedAt
	}
	return e.Encode()
}
