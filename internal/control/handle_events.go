package control

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
)

// KeepAlive is the longest silence of an open event stream.
const KeepAlive = 15 * time.Second

// Heartbeat is the comment that opens an SSE stream and keeps it alive.
const Heartbeat = ": keep-alive\n\n"

func (v *visit) events() (Response, []Effect, error) {
	q, err := query(v.r.Query, "after", "stream")
	if err != nil {
		return Response{}, nil, err
	}
	after, err := cursor(v.r.Header["last-event-id"], q.Get("after"))
	if err != nil {
		return Response{}, nil, err
	}
	sse := strings.Contains(v.r.Header["accept"], "text/event-stream")
	switch q.Get("stream") {
	case "":
	case "1", "true":
		sse = true
	case "0", "false":
		sse = false
	default:
		return Response{}, nil, badQuery("stream", "must be 1 or 0")
	}
	en, err := v.c.open(v.tx, v.env)
	if err != nil {
		return Response{}, nil, err
	}
	if err := en.cursor(after); err != nil {
		return Response{}, nil, err
	}
	resp := Response{Status: 200}
	resp.set("Cache-Control", "no-store")
	if !sse {
		resp.set("Content-Type", "application/x-ndjson")
		return resp, []Effect{Stream{Run: v.m.Run, After: after}}, nil
	}
	if en.h.Status.Terminal() && after == en.h.LastSeq {
		return Response{Status: 204}, nil, nil
	}
	resp.set("Content-Type", "text/event-stream")
	resp.set("X-Accel-Buffering", "no")
	return resp, []Effect{Stream{Run: v.m.Run, After: after, SSE: true, KeepAlive: KeepAlive}}, nil
}

// cursor reads where a reader is: the header wins over the query; none is 0.
func cursor(header, after string) (int64, error) {
	s := header
	if s == "" {
		s = after
	}
	if s == "" {
		return 0, nil
	}
	bad := contract.Errorf(contract.KindBadCursor, "cursor must be a whole number of 0 to 2^53")
	if len(s) > 16 || strings.Trim(s, "0123456789") != "" {
		return 0, bad
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > contract.Unbounded {
		return 0, bad
	}
	return n, nil
}

// Frame is the SSE frame of a stored line, which is one line of JSON of this package's own making.
func Frame(line []byte) []byte {
	seq, kind := frameHead(line)
	out := make([]byte, 0, len(line)+len(kind)+48)
	out = append(out, "id: "...)
	out = append(out, seq...)
	out = append(out, "\nevent: "...)
	out = append(out, kind...)
	out = append(out, "\ndata: "...)
	out = append(out, line...)
	return append(out, "\n\n"...)
}

// frameHead finds number and type in a stored line. Both stand before the data, and what stands
// before them is of this package's making too, so that no text can be taken for them.
func frameHead(line []byte) (seq, kind []byte) {
	_, rest, _ := bytes.Cut(line, []byte(`"seq":`))
	seq, rest, _ = bytes.Cut(rest, []byte(`,`))
	_, rest, _ = bytes.Cut(rest, []byte(`"type":"`))
	kind, _, _ = bytes.Cut(rest, []byte(`"`))
	return seq, kind
}

// query parses a query string; a key that is not known is refused, as unknown fields are.
func query(raw string, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, contract.Errorf(contract.KindInvalid, "query string is malformed")
	}
	var refusals []contract.Refusal
	for k := range q {
		if !slices.Contains(known, k) {
			refusals = append(refusals, contract.Refusal{Field: short(k, 64), Code: string(contract.KindUnknownField), Detail: "unknown query parameter"})
		}
	}
	slices.SortFunc(refusals, func(a, b contract.Refusal) int { return strings.Compare(a.Field, b.Field) })
	return q, contract.Refuse(refusals)
}

func badQuery(field, rule string) error {
	return contract.Refuse([]contract.Refusal{{Field: field, Code: "invalid_value", Detail: rule}})
}
