package cli

import (
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/control/host"
)

// adminHandler serves the operator's routes. They carry no secret and no text of a run, and have no
// authentication: they belong on a loopback address.
func adminHandler(s *host.Service, version string) http.Handler {
	reg := prometheus.NewRegistry()
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "rivumi", Name: name, Help: help}, value)
	}
	reg.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("runs_active", "Runs that are carried out now.", func() float64 { return float64(s.Load().Active) }),
		gauge("runs_queued", "Runs that wait for room.", func() float64 { return float64(s.Load().Queued) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "rivumi", Name: "build_info", Help: "The version of the program, always 1.", ConstLabels: prometheus.Labels{"version": version},
		}, func() float64 { return 1 }),
	)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plainText(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Ready(r.Context()); err != nil {
			plainText(w, http.StatusServiceUnavailable, string(contract.KindOf(err)))
			return
		}
		plainText(w, http.StatusOK, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(OpenAPI(version)) // the client is gone
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A page in a browser of this machine must not read this by a name that was pointed here.
		if r.Header.Get("Origin") != "" || !loopbackOnly(withPort(r.Host)) {
			plainText(w, http.StatusForbidden, "this is for the operator, on this machine")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func withPort(h string) string {
	if i := strings.LastIndexByte(h, ':'); i < 0 || strings.HasSuffix(h, "]") {
		return h + ":0"
	}
	return h
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client is gone
}
