package loupe_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// TestSpansContext has goroutines that exist already work for requests, many at once. The requests that they send have the parents that
// their contexts name, and so do the services that receive them, if the engine propagates contexts.
func TestSpansContext(t *testing.T) {
	const requests, jobs = 10, 10
	for _, spec := range testtarget.Ends(t, webSpecs(t)) {
		t.Run(spec.String(), func(t *testing.T) {
			var opt loupe.Options
			if *engine == string(loupe.EngineInline) {
				opt.Spans.Propagation = &loupe.Propagation{}
			}
			w := observeWeb(t, testtarget.Start(t, testtarget.Build(t, spec)), opt)
			for _, how := range []string{"request", "values", "timeout", "detached", "own", "writer", "http2", "background"} {
				var all sync.WaitGroup
				for i := range requests {
					all.Go(func() {
						if status, _ := w.send("GET", fmt.Sprintf("http://%s/pool/%s/%d?n=%d", w.plain, how, i, jobs), ""); status != http.StatusOK {
							t.Errorf("%s: status %d", how, status)
						}
					})
				}
				all.Wait()
				rule := spans.RuleContext
				if how == "background" || how == "writer" && opt.Spans.Propagation != nil { // the probes do not know the writer
					rule = spans.RuleRoot
				}
				checkJobs(t, w.take(requests*(1+2*jobs)), how, rule, requests, jobs)
			}
			w.checkLent()
			w.checkHandOffs()
			counts, err := w.session.SpanCounts()
			if err != nil || counts.NoHeader != 0 || counts.Mismatched != 0 || counts.Strays != 0 {
				t.Errorf("%+v, %v", counts, err)
			}
		})
	}
}

// checkJobs compares the parents of the requests that were sent for others.
func checkJobs(t *testing.T, list []*spans.Span, how string, rule spans.Rule, requests, jobs int) {
	t.Helper()
	served := map[string]*spans.Span{} // by name
	for _, s := range list {
		if name, ok := strings.CutPrefix(attributes(s)["url.path"], "/pool/"+how+"/"); ok {
			served[name] = s
		}
	}
	checkReceived(t, list, how)
	sent, traces := map[string]int{}, map[trace.TraceID]bool{}
	for _, s := range list {
		if s.Kind != trace.SpanKindClient {
			continue
		}
		_, name, _ := strings.Cut(attributes(s)["url.full"], "?for=")
		parent := served[name]
		sent[name]++
		traces[s.Context.TraceID()] = true
		switch {
		case parent == nil || s.Rule != rule || s.G == parent.G:
			t.Errorf("%s: %v by rule %q, want %q", how, describe([]*spans.Span{s}), s.Rule, rule)
		case rule == spans.RuleRoot && s.Parent.IsValid():
			t.Errorf("%s: parent %v, want none", how, s.Parent)
		case rule == spans.RuleRoot && (len(s.Links) != 1 || s.Links[0].SpanID() != parent.Context.SpanID()) || rule != spans.RuleRoot && len(s.Links) > 0:
			t.Errorf("%s: links %v, want %v", how, s.Links, parent.Context)
		case rule == spans.RuleContext && (s.Parent.SpanID() != parent.Context.SpanID() || s.Context.TraceID() != parent.Context.TraceID()):
			t.Errorf("%s: parent %v, want %v", how, s.Parent, parent.Context)
		}
	}
	if len(served) != requests || len(sent) != requests {
		t.Errorf("%s: %d requests were served, and requests were sent for %d, want %d", how, len(served), len(sent), requests)
	}
	for name, n := range sent {
		if n != jobs {
			t.Errorf("%s: %d requests were sent for %s, want %d", how, n, name, jobs)
		}
	}
	want := requests
	if rule == spans.RuleRoot {
		want *= jobs
	}
	if len(traces) != want {
		t.Errorf("%s: %d traces, want %d", how, len(traces), want)
	}
}

// checkHandOffs has goroutines work for requests without their contexts, one after the other, so that they wait for work. What they send
// begins a trace of its own each, however many there are, and is linked to the request.
func (w *web) checkHandOffs() {
	w.t.Helper()
	const jobs = 20
	traces := map[trace.TraceID]bool{}
	for i := range jobs {
		w.send("GET", fmt.Sprintf("http://%s/pool/background/%d?n=1", w.plain, i), "")
		list := w.take(3)
		served := map[trace.SpanID]bool{}
		for _, s := range list {
			traces[s.Context.TraceID()] = true
			if strings.HasPrefix(attributes(s)["url.path"], "/pool/") {
				served[s.Context.SpanID()] = true
			}
		}
		for _, s := range list {
			if s.Kind == trace.SpanKindClient && (s.Rule != spans.RuleRoot || len(s.Links) != 1 || s.LinkRule != spans.RuleChannel || !served[s.Links[0].SpanID()]) {
				w.t.Errorf("%v, links %v by rule %q, want a link to its request", describe([]*spans.Span{s}), s.Links, s.LinkRule)
			}
		}
	}
	want := 2 * jobs
	if *engine != string(loupe.EngineInline) { // the requests are received without the contexts
		want += jobs
	}
	if len(traces) != want {
		w.t.Errorf("%d traces, want %d", len(traces), want)
	}
}

// checkReceived checks the parents of requests that were received, if the engine propagates contexts.
func checkReceived(t *testing.T, list []*spans.Span, how string) {
	t.Helper()
	if *engine != string(loupe.EngineInline) {
		return
	}
	sent := map[trace.SpanID]*spans.Span{}
	for _, s := range list {
		if s.Kind == trace.SpanKindClient {
			sent[s.Context.SpanID()] = s
		}
	}
	for _, s := range list {
		if attributes(s)["url.path"] != "/hello" {
			continue
		}
		if c := sent[s.Parent.SpanID()]; c == nil || s.Rule != spans.RuleHeader || s.Context.TraceID() != c.Context.TraceID() {
			t.Errorf("%s: the parent of a request that was received is %v by rule %q", how, s.Parent, s.Rule)
		}
	}
}

// checkLent has the goroutine of one request work for another one. What it does with its own context belongs to itself.
func (w *web) checkLent() {
	w.t.Helper()
	var all sync.WaitGroup
	for _, path := range []string{"/lend?n=3", "/pool/lent/borrower?n=3"} {
		all.Go(func() { w.send("GET", "http://"+w.plain+path, "") })
	}
	all.Wait()
	list := w.take(2 + 2*4)
	served := map[string]*spans.Span{}
	for _, s := range list {
		served[attributes(s)["url.path"]] = s
	}
	for _, s := range list {
		if s.Kind != trace.SpanKindClient {
			continue
		}
		parent, rule := served["/pool/lent/borrower"], spans.RuleContext
		if strings.HasSuffix(attributes(s)["url.full"], "lend") {
			parent, rule = served["/lend"], spans.RuleGoroutine
		}
		if s.Rule != rule || s.G != served["/lend"].G || s.Parent.SpanID() != parent.Context.SpanID() {
			w.t.Errorf("%v, want parent %v by rule %q", describe([]*spans.Span{s}), parent.Context.SpanID(), rule)
		}
	}
}
