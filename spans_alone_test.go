package loupe_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// kioskSpecs returns executables of program kiosk, always those of the release that has built the test.
func kioskSpecs(t *testing.T) []testtarget.Spec {
	t.Helper()
	own := strings.TrimPrefix(runtime.Version(), "go")
	var specs []testtarget.Spec
	for i, v := range append(testtarget.Versions(), own) {
		if minorOf(t, v) < firstSpans {
			continue
		}
		for _, tags := range []string{"", "copy", "value", "embed", "client"} {
			specs = append(specs, testtarget.Spec{Program: "kiosk", Go: v, Tags: tags, Stripped: i%2 == 0, PIE: i%3 == 0})
		}
	}
	return testtarget.EachOr(t, specs, func(s testtarget.Spec) bool {
		return s.Go == own || s.Tags == "" && testtarget.Requested()
	})
}

// isAlone reports whether the requests of a program can be observed without observing goroutines.
func isAlone(t *testing.T, spec testtarget.Spec) bool {
	minor := minorOf(t, spec.Go)
	return spec.Tags == "" && minor >= 22 && minor < 27
}

// TestSpansAlone observes requests of programs that send none. Where nothing depends on them, neither goroutines nor the matches of an
// http.ServeMux are observed, unless with a breakdown. What the spans say is the same.
func TestSpansAlone(t *testing.T) {
	for _, spec := range kioskSpecs(t) {
		for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
			for _, bare := range []bool{false, true} {
				if engine == loupe.EngineInline && !testtarget.Requested() {
					continue // TestSpansServer does
				}
				t.Run(fmt.Sprintf("%v/bare=%v/%v", engine, bare, spec), func(t *testing.T) {
					w := observeWeb(t, testtarget.Start(t, testtarget.Build(t, spec)), loupe.Options{Engine: engine, Spans: loupe.SpanOptions{NoWork: bare}})
					for _, tls := range []bool{false, true} {
						for _, path := range []string{"/hello", "/panic", "/items/7", "/exit", "/hello", "/abort", "/recovered", "/spawn", "/hijack"} {
							w.visit(minorOf(t, spec.Go), tls, path, bare)
						}
					}
					lean := isAlone(t, spec) && engine == loupe.EngineUprobe
					names := w.session.SpanFunctions()
					if got := slices.Contains(names, "net/http.(*conn).serve.func1"); got != lean {
						t.Errorf("the ends of connections are observed: %v in %q", got, names)
					}
					if got := slices.Contains(names, "net/http.(*ServeMux).matchOrRedirect"); got == lean && minorOf(t, spec.Go) >= 22 {
						t.Errorf("matches are observed: %v in %q", got, names)
					}
					w.detach()
					stats := w.session.Stats()
					counts, err := w.session.SpanCounts()
					if err != nil || counts.Strays != 0 || counts.Mismatched != 0 || counts.Open != 0 || counts.Notes.Lost != 0 || counts.Uncertain != 0 {
						t.Errorf("%+v, %v", counts, err)
					}
					// Each request has a begin and an end, and some connections end. The runtime creates goroutines for each.
					if few := stats.Hits <= 2*18+18; few != (lean && bare) {
						t.Errorf("%d hits", stats.Hits)
					}
				})
			}
		}
	}
}

// visit sends a request to the program, and checks its span.
func (w *web) visit(minor int, tls bool, path string, bare bool) {
	w.t.Helper()
	scheme, addr := "http", w.plain
	if tls {
		scheme, addr = "https", w.tls
	}
	if path == "/hijack" && tls {
		return // HTTP/2 has no such thing
	}
	route, ending, status := path, spans.Returned, codes.Unset
	switch path {
	case "/panic", "/exit", "/abort":
		ending, status = spans.Panicked, codes.Error
	case "/items/7":
		if route = "/items/{id}"; minor < 22 {
			route = ""
		}
	}
	if ending != spans.Returned || path == "/hijack" {
		w.client.CloseIdleConnections() // a request that fails on a connection that was used before is repeated
	}
	w.send("GET", scheme+"://"+addr+path, "")
	s := w.take(1)[0]
	if got := attributes(s); got["http.route"] != route || s.Ending != ending || s.Status != status || got["url.path"] != path || !s.Context.IsValid() ||
		s.Rule != spans.RuleRoot || s.End <= s.Start {
		w.t.Errorf("%s %s: %v, want route %q, ending %d", scheme, path, describe([]*spans.Span{s}), route, ending)
	}
	created := 0
	if path == "/spawn" && !bare {
		created = 1
	}
	total := s.Work.Own.Total()
	if bare {
		if total != 0 || s.Work.Started.Total() != 0 || s.Work.Created != 0 {
			w.t.Errorf("%s %s: %+v without a breakdown", scheme, path, s.Work)
		}
		return
	}
	if int64(total) != s.End-s.Start || s.Work.Created < created {
		w.t.Errorf("%s %s: %+v in %d ns", scheme, path, s.Work, s.End-s.Start)
	}
}
