package host_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control"
	"github.com/rivumi/rivumi/internal/control/host"
)

// serverProfile opens a service as a control plane has it.
func serverProfile(t *testing.T, opt host.Options) (*host.Service, string) {
	t.Helper()
	opt.Core = control.Config{
		Profile: contract.Server(), Models: []string{"m"}, Checks: []contract.Check{{"true"}},
	}
	opt.NoSocket = true
	if opt.Executor == nil {
		opt.Executor = play(done)
	}
	s := open(t, opt)
	srv := httptest.NewServer(s.Handler(func(r *http.Request) (string, error) {
		who, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		return who, nil
	}))
	t.Cleanup(srv.Close)
	return s, srv.URL
}

const remoteTask = `{"instruction":"x","model":"m","upload":{"id":"UPLOAD"},"allowedPaths":["a.txt"],
 "limits":{"maxSteps":5,"wallTimeSeconds":60},"approval":{"policy":"deny-all"}}`

func digestOf(b string) (hexed, header string) {
	sum := sha256.Sum256([]byte(b))
	return hex.EncodeToString(sum[:]), "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

func TestAnUploadBecomesTheSourceOfARun(t *testing.T) {
	got := make(chan string, 1)
	var later atomic.Int64 // the service reads its clock in goroutines of its own
	s, url := serverProfile(t, host.Options{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }, Executor: playDir(func(dir string) {
		f, info, err := host.Source(dir)
		if err != nil {
			t.Error(err)
			got <- ""
			return
		}
		defer f.Close()
		b, _ := io.ReadAll(f)
		got <- info.SHA256 + " " + string(b)
	})})
	sum, digest := digestOf("bundle")
	bundle := []string{"Content-Type", "application/x-git-bundle", "Content-Digest", digest}
	wantProblem(t, "wrong digest", ask(t, "POST", url+"/v1/uploads", "other", bundle...), contract.KindInvalid)
	wantProblem(t, "not there yet", ask(t, "GET", url+"/v1/uploads/by-digest/"+sum, ""), contract.KindMethodNotAllowed)
	if r := ask(t, "HEAD", url+"/v1/uploads/by-digest/"+sum, ""); r.status != 404 {
		t.Errorf("unknown digest: %d", r.status)
	}
	r := ask(t, "POST", url+"/v1/uploads", "bundle", bundle...)
	var up host.UploadInfo
	if err := json.Unmarshal([]byte(r.body), &up); err != nil || r.status != 201 || up.SHA256 != sum || up.Bytes != 6 {
		t.Fatalf("upload: %+v", r)
	}
	if r := ask(t, "HEAD", url+"/v1/uploads/by-digest/"+sum, ""); r.status != 204 || r.header.Get("Upload-Id") != up.ID {
		t.Errorf("known digest: %+v", r)
	}
	if r := ask(t, "HEAD", url+"/v1/uploads/by-digest/"+sum, "", "Authorization", "Bearer mallory"); r.status != 404 {
		t.Errorf("a digest tells mallory what others have: %d", r.status)
	}
	body := strings.Replace(remoteTask, "UPLOAD", up.ID, 1)
	jsonType := []string{"Content-Type", "application/json"}
	wantProblem(t, "mallory's run", ask(t, "POST", url+"/v1/runs", body, append(jsonType, "Authorization", "Bearer mallory")...), contract.KindInvalid)
	wantProblem(t, "unknown upload", ask(t, "POST", url+"/v1/runs", strings.Replace(remoteTask, "UPLOAD", "upl_x", 1), jsonType...), contract.KindInvalid)
	if r := ask(t, "GET", url+"/v1/runs", ""); strings.Contains(r.body, "run_") {
		t.Errorf("a refused run was kept: %s", r.body)
	}
	r = ask(t, "POST", url+"/v1/runs", body, jsonType...)
	if r.status != 202 {
		t.Fatalf("run: %+v", r)
	}
	if b := <-got; b != sum+" bundle" {
		t.Errorf("the run's source is %q", b)
	}
	later.Store(int64(control.UploadLife + time.Minute))
	wantProblem(t, "expired", ask(t, "POST", url+"/v1/runs", body, jsonType...), contract.KindInvalid)
	_ = s
}

func TestAnUploadIsBoundedWhileItComes(t *testing.T) {
	p := contract.Server()
	p.UploadBytes = 1000
	s := open(t, host.Options{Core: control.Config{Profile: p}, NoSocket: true})
	srv := httptest.NewServer(s.Handler(func(*http.Request) (string, error) { return "alice", nil }))
	defer srv.Close()
	req, _ := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/v1/uploads", io.LimitReader(endless{}, 1<<40))
	req.Header.Set("Content-Type", "application/zstd")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 413 || !bytes.Contains(b, []byte("upload_too_large")) {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
}

type endless struct{}

// Read implements [io.Reader].
func (endless) Read(p []byte) (int, error) { return len(p), nil }
