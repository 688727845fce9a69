package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/bundle"
	"github.com/rivumi/rivumi/internal/contract"
)

const runID = contract.RunID("run_0123456789abcdefghjkmnpqrs")

var at = contract.At(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))

// depot stores artifacts in a folder.
type depot struct{ dir string }

func (d depot) PutArtifact(_ context.Context, name, media string, r io.Reader) (contract.Artifact, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return contract.Artifact{}, err
	}
	h := sha256.Sum256(data)
	a := contract.Artifact{Name: name, MediaType: media, Bytes: int64(len(data)), SHA256: hex.EncodeToString(h[:]), CreatedAt: at}
	return a, os.WriteFile(filepath.Join(d.dir, name), data, 0o600)
}

func events(t *testing.T, payloads ...contract.Payload) ([]contract.Event, []byte) {
	t.Helper()
	var list []contract.Event
	var log, prev []byte
	for i, p := range payloads {
		e := contract.NewEvent(0, p)
		e.Seq, e.RunID, e.Attempt, e.Time = int64(i+1), runID, 1, at
		line, err := e.Seal(prev)
		if err != nil {
			t.Fatal(err)
		}
		list, log, prev = append(list, e), append(append(log, line...), '\n'), line
	}
	return list, log
}

func seq(list []contract.Event) iter.Seq2[contract.Event, error] {
	return func(yield func(contract.Event, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

const secretWords = "rewrite the frobnicator"

// sample writes a whole bundle of a completed run into a new folder.
func sample(t *testing.T) (string, *bundle.Signer) {
	t.Helper()
	dir, ctx := t.TempDir(), t.Context()
	s, err := bundle.OpenSigner(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	task := contract.Task{Instruction: secretWords}
	list, log := events(t,
		contract.RunQueued{Schema: "rivumi-events/1", Task: task},
		contract.RunStarted{Attempt: 1},
		contract.ModelMessage{Text: "I " + secretWords, FinishReason: "stop"},
		contract.RunEnded{State: contract.Completed},
	)
	if err := os.WriteFile(filepath.Join(dir, contract.ArtifactEvents), log, 0o600); err != nil {
		t.Fatal(err)
	}
	transcript, head, err := bundle.Fold(seq(list[:3]))
	if err != nil {
		t.Fatal(err)
	}
	w := bundle.NewWriter(depot{dir}, s)
	patch, err := w.Put(ctx, contract.ArtifactPatch, bundle.MediaPatch, strings.NewReader("diff --git a/a b/a\n"))
	if err != nil {
		t.Fatal(err)
	}
	res := &contract.Result{
		Outcome: contract.OutcomeVerified, Summary: "did " + secretWords, BaseSHA: "b", BaseTree: "t", FinalTree: "f",
		Patch: &contract.PatchRef{Artifact: patch.Name, SHA256: patch.SHA256, Bytes: patch.Bytes},
	}
	_, e1 := w.PutJSON(ctx, contract.ArtifactResult, bundle.ResultDoc{RunID: runID, State: contract.Completed, Result: res})
	_, e2 := w.PutJSON(ctx, contract.ArtifactTranscript, transcript)
	_, e3 := w.Put(ctx, bundle.CheckLog(1), bundle.MediaLog, strings.NewReader("ok\n"))
	e4 := w.Seal(ctx, bundle.Manifest{
		RunID: runID, CreatedAt: at, State: contract.Completed, BaseSHA: "b", BaseTree: "t", FinalTree: "f",
		TaskDigest: bundle.TaskDigest(task), Log: head, Sandbox: json.RawMessage(`{"tier": "L0"}`),
	})
	if err := errors.Join(e1, e2, e3, e4); err != nil {
		t.Fatal(err)
	}
	return dir, s
}

func check(t *testing.T, dir string, keys ...ed25519.PublicKey) *bundle.Report {
	t.Helper()
	r, err := bundle.Check(os.DirFS(dir), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func codes(r *bundle.Report) []string {
	var out []string
	for _, f := range r.Findings {
		if !f.Note {
			out = append(out, f.Code)
		}
	}
	return out
}

func TestWholeBundlePasses(t *testing.T) {
	dir, s := sample(t)
	r := check(t, dir, s.Public())
	if !r.OK() || !r.Signed || !r.Trusted || r.Chain.Events != 4 || !r.Chain.Ended || len(r.Findings) != 0 {
		t.Fatalf("report %+v", r)
	}
	if other := check(t, dir); !other.OK() || other.Trusted || len(other.Findings) != 1 {
		t.Fatalf("without the key: %+v", other)
	}
}

func TestTamperingIsFound(t *testing.T) {
	edit := func(name, from, to string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(b, []byte(from)) {
				t.Fatalf("%s has no %q (%v)", name, from, err)
			}
			if err := os.WriteFile(path, bytes.Replace(b, []byte(from), []byte(to), 1), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(n int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, contract.ArtifactEvents)
			info, err := os.Stat(path)
			if err != nil || os.Truncate(path, info.Size()-n) != nil {
				t.Fatal("truncate")
			}
		}
	}
	for _, c := range []struct {
		name string
		do   func(*testing.T, string)
		want string
	}{
		{"patch changed", edit("patch.diff", "a/a", "a/b"), bundle.CodeDigest},
		{"patch gone", remove("patch.diff"), bundle.CodeMissing},
		{"log gone", remove("events.ndjson"), bundle.CodeMissing},
		{"check output changed", edit("check-1.log", "ok", "no"), bundle.CodeDigest},
		{"manifest changed", edit("manifest.json", `"finalTree": "f"`, `"finalTree": "g"`), bundle.CodeSignature},
		{"receipt changed", edit("manifest.json", `"L0"`, `"L3"`), bundle.CodeSignature},
		{"event changed", edit("events.ndjson", "I rewrite", "I remove"), bundle.CodeChain},
		{"DK-01 torn last line", cut(20), bundle.CodeTorn},
		{"number jumps", edit("events.ndjson", `"seq":3`, `"seq":5`), bundle.CodeChain},
		{"result changed", edit("result.json", `"state": "completed"`, `"state": "failed"`), bundle.CodeResult},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, s := sample(t)
			c.do(t, dir)
			r := check(t, dir, s.Public())
			if r.OK() || !slices.Contains(codes(r), c.want) {
				t.Fatalf("findings %+v, want %s", r.Findings, c.want)
			}
		})
	}
}

func TestRewrittenLogIsFoundByItsHead(t *testing.T) {
	dir, s := sample(t)
	_, log := events(t,
		contract.RunQueued{Schema: "rivumi-events/1"}, contract.RunStarted{Attempt: 1},
		contract.ModelMessage{Text: "another story", FinishReason: "stop"}, contract.RunEnded{State: contract.Completed})
	if err := os.WriteFile(filepath.Join(dir, contract.ArtifactEvents), log, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := check(t, dir, s.Public()); !slices.Equal(codes(r), []string{bundle.CodeHead}) {
		t.Fatalf("findings %+v", r.Findings)
	}
}

func TestDK01TornTailKeepsWhatIsGood(t *testing.T) {
	_, log := events(t, contract.RunStarted{Attempt: 1}, contract.StepStarted{Step: 1}, contract.StepStarted{Step: 2})
	c, err := bundle.ReadChain(bytes.NewReader(log[:len(log)-20]), bundle.LogHead{})
	if err != nil || !c.Torn || c.Events != 2 || c.Problem != "" {
		t.Fatalf("%+v, %v", c, err)
	}
}

func TestPackIsDeterministicAndComesBackWhole(t *testing.T) {
	dir, s := sample(t)
	var a, b bytes.Buffer
	if err := errors.Join(bundle.Pack(&a, os.DirFS(dir), bundle.PackOptions{}), bundle.Pack(&b, os.DirFS(dir), bundle.PackOptions{})); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Fatal("two exports of one bundle differ")
	}
	to := filepath.Join(t.TempDir(), "in")
	if err := bundle.Unpack(&a, to, bundle.UnpackLimits{}); err != nil {
		t.Fatal(err)
	}
	if r := check(t, to, s.Public()); len(r.Findings) != 0 {
		t.Fatalf("findings %+v", r.Findings)
	}
	if err := bundle.Unpack(&b, to, bundle.UnpackLimits{}); contract.KindOf(err) != contract.KindConflict {
		t.Fatalf("over an existing folder: %v", err)
	}
}

func TestSanitizedExportHoldsNoConversation(t *testing.T) {
	dir, s := sample(t)
	var out bytes.Buffer
	if err := bundle.Pack(&out, os.DirFS(dir), bundle.PackOptions{Sanitize: true}); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "in")
	if err := bundle.Unpack(&out, to, bundle.UnpackLimits{}); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(to)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(to, e.Name()))
		if err != nil || bytes.Contains(b, []byte("frobnicator")) {
			t.Fatalf("%s holds the conversation (%v)", e.Name(), err)
		}
	}
	r := check(t, to, s.Public())
	if !r.OK() || !r.Sanitized || !r.Signed {
		t.Fatalf("report %+v", r)
	}
	if err := os.WriteFile(filepath.Join(to, "patch.diff"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := check(t, to, s.Public()); r.OK() {
		t.Fatal("a changed patch hides behind the list of what was left out")
	}
}

type entry struct {
	h    tar.Header
	body string
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, e := range entries {
		if e.h.Typeflag == 0 {
			e.h.Typeflag = tar.TypeReg
		}
		e.h.Size, e.h.Mode = int64(len(e.body)), 0o644
		if err := w.WriteHeader(&e.h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestUnpackRefusesWhatIsNotAnArtifact(t *testing.T) {
	file := func(name string) entry { return entry{h: tar.Header{Name: name}, body: "x"} }
	many := make([]entry, 20)
	for i := range many {
		many[i] = file("f" + string(rune('a'+i)))
	}
	good := archive(t, file("patch.diff"))
	for name, data := range map[string][]byte{
		"absolute":   archive(t, file("/etc/passwd")),
		"dotdot":     archive(t, file("../x")),
		"nested":     archive(t, file("a/b")),
		"dot":        archive(t, file("./a")),
		"upper case": archive(t, file("Patch.diff")),
		"hidden":     archive(t, file(".git")),
		"symlink":    archive(t, entry{h: tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}),
		"hard link":  archive(t, file("a"), entry{h: tar.Header{Name: "b", Typeflag: tar.TypeLink, Linkname: "a"}}),
		"device":     archive(t, entry{h: tar.Header{Name: "a", Typeflag: tar.TypeChar}}),
		"fifo":       archive(t, entry{h: tar.Header{Name: "a", Typeflag: tar.TypeFifo}}),
		"folder":     archive(t, entry{h: tar.Header{Name: "a/", Typeflag: tar.TypeDir}}),
		"twice":      archive(t, file("a"), file("a")),
		"many":       archive(t, many...),
		"large":      archive(t, entry{h: tar.Header{Name: "a"}, body: strings.Repeat("0123456789abcdef", 1<<16)}),
		"bomb":       archive(t, entry{h: tar.Header{Name: "a"}, body: strings.Repeat("\x00", 8<<20)}),
		"cut":        good[:len(good)-8],
		"trailing":   append(slices.Clone(good), good...),
		"not gzip":   []byte("hello"),
		"empty":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			limits := bundle.UnpackLimits{Entries: 10, Bytes: 16 << 20}
			if name == "large" {
				limits.Bytes = 512 << 10
			}
			err := bundle.Unpack(bytes.NewReader(data), filepath.Join(parent, "in"), limits)
			if k := contract.KindOf(err); k != contract.KindInvalid && k != contract.KindTooLarge {
				t.Fatalf("error %v", err)
			}
			if left, _ := os.ReadDir(parent); len(left) != 0 {
				t.Fatalf("left behind: %v", left)
			}
		})
	}
}

func TestSignerKeyIsPrivateAndOne(t *testing.T) {
	dir := t.TempDir()
	keys := make([]string, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			s, err := bundle.OpenSigner(dir)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = string(s.Public())
		})
	}
	wg.Wait()
	if len(slices.Compact(keys)) != 1 {
		t.Fatal("starts at once made different keys")
	}
	entries, _ := os.ReadDir(dir)
	path := filepath.Join(dir, bundle.KeyFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || len(entries) != 1 {
		t.Fatalf("key file %v, %v, entries %v", info, err, entries)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.OpenSigner(dir); err == nil {
		t.Fatal("a key that others can read was accepted")
	}
}

func TestTranscriptReadsAsAConversation(t *testing.T) {
	list, _ := events(t,
		contract.RunQueued{Task: contract.Task{Instruction: "do it"}},
		contract.ModelMessage{Text: "so", ToolCalls: []contract.ToolCall{{ID: "c1", Name: "bash", Arguments: json.RawMessage(`{"command":"ls"}`)}}},
		contract.ToolResult{CallID: "c1", ExitCode: 2, Text: "no such file", IsError: true},
		contract.ModelDelta{Text: "not a turn"},
		contract.CheckFinished{CheckResult: contract.CheckResult{Argv: contract.Check{"true"}, Passed: true}, Tail: "fine"},
	)
	tr, head, err := bundle.Fold(seq(list))
	if err != nil || head.Seq != 5 {
		t.Fatalf("%v %v", head, err)
	}
	var roles []string
	for _, turn := range tr.Turns {
		roles = append(roles, turn.Role)
	}
	if got := strings.Join(roles, " "); got != "task assistant tool check" {
		t.Fatalf("roles %q", got)
	}
	if c := tr.Turns[1].Calls; len(c) != 1 || c[0].Name != "bash" || !tr.Turns[2].Failed || *tr.Turns[2].Exit != 2 {
		t.Fatalf("turns %+v", tr.Turns)
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(archive(f, entry{h: tar.Header{Name: "patch.diff"}, body: "x"}))
	f.Add(archive(f, entry{h: tar.Header{Name: "../x"}, body: "x"}))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "in")
		err := bundle.Unpack(bytes.NewReader(data), dir, bundle.UnpackLimits{Entries: 8, Bytes: 1 << 20})
		entries, _ := os.ReadDir(parent)
		if err != nil {
			if len(entries) != 0 {
				t.Fatalf("left behind after %v: %v", err, entries)
			}
			return
		}
		if len(entries) != 1 {
			t.Fatalf("wrote beside its folder: %v", entries)
		}
		files, _ := os.ReadDir(dir)
		for _, e := range files {
			if !e.Type().IsRegular() || !bundle.ValidName(e.Name()) {
				t.Fatalf("unpacked %v", e)
			}
		}
		_, _ = bundle.Check(os.DirFS(dir)) // must not panic
	})
}

func FuzzDecodeManifest(f *testing.F) {
	s, err := bundle.OpenSigner(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	good, err := bundle.Manifest{RunID: runID, CreatedAt: at}.Encode(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"manifest":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, key, err := bundle.DecodeManifest(data); err == nil && len(key) != ed25519.PublicKeySize {
			t.Fatal("accepted without a key")
		}
	})
}

func FuzzReadChain(f *testing.F) {
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := bundle.ReadChain(bytes.NewReader(data), bundle.LogHead{})
		if err != nil || c.Events < 0 {
			t.Fatal(err)
		}
	})
}
