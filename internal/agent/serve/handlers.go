package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/term"
)

var discard = slog.New(slog.DiscardHandler)

// routes has a handler for each path. Nothing else is served. The handler of a
// path that ends with a slash also serves the names directly below it.
type routes map[string]http.Handler

// ServeHTTP implements [http.Handler].
func (m routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	h := m[r.URL.Path]
	if h == nil {
		h = m[r.URL.Path[:strings.LastIndexByte(r.URL.Path, '/')+1]]
	}
	if h == nil {
		http.NotFound(w, r)
		return
	}
	h.ServeHTTP(w, r)
}

// metricsHandler serves the collector's metrics and those of the agent's own process.
func metricsHandler(o *Options, log *slog.Logger) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		o.Collector, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("cannot serve metrics: %w", err)
		}
	}
	scrapes := o.MaxScrapes
	if scrapes <= 0 {
		scrapes = 4
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:                            scrapeErrors{log},
		ErrorHandling:                       promhttp.ContinueOnError, // one bad series must not hide the others
		Registry:                            registry,
		MaxRequestsInFlight:                 scrapes,
		EnableOpenMetrics:                   true,
		EnableOpenMetricsTextCreatedSamples: o.CreatedSamples,
	}), nil
}

// scrapeErrors logs errors of scrapes.
type scrapeErrors struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (l scrapeErrors) Println(v ...any) {
	l.log.Warn("cannot serve all metrics", "error", bounded(strings.TrimSpace(fmt.Sprintln(v...))))
}

// healthRoutes adds the health checks to routes.
func healthRoutes(o *Options, m routes) {
	m["/healthz"] = check(func() []string {
		if o.Alive == nil {
			return nil
		}
		if err := o.Alive(); err != nil {
			return []string{err.Error()}
		}
		return nil
	})
	m["/readyz"] = check(func() []string {
		if o.Ready == nil {
			return nil
		}
		return o.Ready()
	})
}

// maxReasons bounds the reasons in the answer of a check.
const maxReasons = 100

// check answers "ok", or with the reasons why not, a line for each.
func check(reasons func() []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		list := reasons()
		if len(list) == 0 {
			_, _ = w.Write([]byte("ok\n"))
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		for _, reason := range list[:min(len(list), maxReasons)] {
			_, _ = w.Write([]byte(bounded(reason) + "\n"))
		}
		if n := len(list) - maxReasons; n > 0 {
			_, _ = fmt.Fprintln(w, english.Count(n, "more reason"))
		}
	})
}

// pprofRoutes returns the profiles of the agent itself.
func pprofRoutes() routes {
	return routes{
		"/debug/pprof/":        http.HandlerFunc(pprof.Index), // also /debug/pprof/heap and others
		"/debug/pprof/cmdline": http.HandlerFunc(pprof.Cmdline),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}

// authenticated refuses requests if the web configuration no longer authenticates clients: it is read anew while the server runs.
func authenticated(config string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ok, err := authenticates(config); err != nil || !ok {
			http.Error(w, "the web configuration does not authenticate clients", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// bounded makes a line of at most 1,000 bytes or a little more of text that may contain names that programs have chosen.
func bounded(s string) string {
	const limit = 1000
	if len(s) > limit {
		s = s[:limit] + "..."
	}
	return term.Escape(s)
}

// oneLine makes the message of an error one line.
func oneLine(err error) error {
	text := err.Error()
	if !strings.ContainsAny(text, "\r\n") {
		return err
	}
	return errors.New(strings.Join(strings.Fields(text), " "))
}
