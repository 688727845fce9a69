package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rivumi/rivumi/internal/model"
	"github.com/rivumi/rivumi/internal/model/openai"
)

// An answer of 200 chunks with one call, request and loopback included.
func BenchmarkAnswer(b *testing.B) {
	var body strings.Builder
	for i := range 200 {
		fmt.Fprintf(&body, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"some words %d \"},\"finish_reason\":null}]}\n\n", i)
	}
	body.WriteString(`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"bash","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if _, err := io.WriteString(w, body.String()); err != nil {
			b.Error(err)
		}
	}))
	defer s.Close()
	m, err := openai.New(openai.Options{BaseURL: s.URL})
	if err != nil {
		b.Fatal(err)
	}
	defer m.CloseIdle()
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := model.Collect(b.Context(), m, model.Request{Model: "m"}); err != nil {
			b.Fatal(err)
		}
	}
}
