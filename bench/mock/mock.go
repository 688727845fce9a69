// Package mock is the scripted model server of the benchmarks: Chat Completions over HTTP on
// 127.0.0.1, streaming, without any think time. It notes when requests came and how large they were.
package mock

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Plan is what the server answers: Steps-1 turns with one bash call each, then one of Tokens words.
type Plan struct {
	Steps   int
	Command string
	Tokens  int
}

// Request is one request as it came.
type Request struct {
	At    time.Time
	Bytes int
}

// Server answers by its plan. The turn is chosen by the number of assistant messages in the request.
type Server struct {
	URL  string
	http *http.Server

	mu       sync.Mutex
	plan     Plan
	requests []Request
	last     time.Time
}

// Start listens on a free port of 127.0.0.1; Close ends it.
func Start() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + l.Addr().String() + "/v1"}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(l) }()
	return s, nil
}

// Close ends the server.
func (s *Server) Close() error { return s.http.Close() }

// Reset sets the plan and forgets the requests so far.
func (s *Server) Reset(p Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan, s.requests, s.last = p, nil, time.Time{}
}

// Requests gives the requests since Reset, and when the last answer was fully written.
func (s *Server) Requests() ([]Request, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...), s.last
}

// ServeHTTP answers one model request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	var asked struct {
		Messages []struct{ Role string } `json:"messages"`
	}
	if err != nil || json.Unmarshal(body, &asked) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	turn := 0
	for _, m := range asked.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	s.mu.Lock()
	s.requests = append(s.requests, Request{At: at, Bytes: len(body)})
	plan := s.plan
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	if turn < plan.Steps-1 {
		writeCall(w, turn, plan.Command)
	} else {
		writeText(w, plan.Tokens)
	}
	s.mu.Lock()
	s.last = time.Now()
	s.mu.Unlock()
}

func writeCall(w io.Writer, turn int, command string) {
	args, _ := json.Marshal(map[string]string{"command": fmt.Sprintf(command, turn)})
	quoted, _ := json.Marshal(string(args))
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"tool_calls\":[{\"index\":0,\"id\":\"c%d\",\"type\":\"function\",\"function\":{\"name\":\"bash\",\"arguments\":%s}}]}}]}\n\n", turn, quoted)
	finish(w, "tool_calls")
}

func writeText(w http.ResponseWriter, tokens int) {
	flush := http.NewResponseController(w)
	for i := range max(tokens, 1) {
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word%d \"}}]}\n\n", i)
		if i%10 == 9 {
			_ = flush.Flush()
		}
	}
	finish(w, "stop")
}

func finish(w io.Writer, reason string) {
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\n", reason)
	fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n")
}
