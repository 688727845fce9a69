package control

import (
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/token"
)

// Whatever comes in, the core answers with an error of the caller's or a proper answer: no panic,
// never a 500, no effect of a refusal, and the log stays whole.
func FuzzHandle(f *testing.F) {
	for i := range len(Routes()) {
		f.Add(i, "", "", []byte("{}"), "", true)
	}
	f.Add(0, "", "", []byte(contract.MarshalJSON(validTask())), "key", true)
	f.Add(4, "", "after=1&stream=1", []byte(nil), "2", true)
	f.Add(6, "apr_0000000000000000", "", []byte(`{"decision":"deny"}`), "", true)
	f.Add(8, "", "", []byte(`{"text":"x"}`), "", false)
	f.Add(13, "", "", []byte(`{"model":"good","messages":[{"role":"user"}]}`), "k", true)
	f.Add(15, "", "", []byte(`{"firstClientSeq":1,"events":[{"type":"notice","data":{}}]}`), "", true)
	f.Add(17, "", "", []byte(`{"state":"completed"}`), "", true)
	f.Add(19, "", "", []byte(`{"kind":"command"}`), "", true)
	f.Fuzz(func(t *testing.T, which int, param, query string, body []byte, header string, named bool) {
		d := newDesk(t, contract.Edge())
		routes := Routes()
		info := routes[uint(which)%uint(len(routes))]
		id := param
		if named {
			id = string(d.run.ID)
		}
		r := jsonRequest(info.Method, strings.NewReplacer("{id}", id, "{approval}", param, "{name}", param, "{digest}", param).Replace(info.Pattern), string(body))
		r.Query = query
		for _, h := range []string{"idempotency-key", "last-event-id", "content-digest", "if-none-match", "accept"} {
			r.Header[h] = header
		}
		if info.Audience != "" {
			r = withToken(r, d.tokens[token.Audience(info.Audience)])
		}
		for range 2 {
			resp, effects := d.ask(r)
			if resp.Status >= 500 {
				t.Fatalf("%s %s: %d %s", r.Method, r.Path, resp.Status, resp.Body)
			}
			if resp.Status >= 400 && (len(effects) > 0 || code(t, resp) == "") {
				t.Fatalf("refused with effects %v: %s", effects, resp.Body)
			}
			if resp.Status == 0 && len(effects) == 0 {
				t.Fatalf("%s %s: no answer", r.Method, r.Path)
			}
		}
		d.m = d.runs[d.run.ID]
		if len(d.m.records) > 0 {
			d.log()
		}
	})
}
