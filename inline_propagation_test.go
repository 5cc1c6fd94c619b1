package loupe_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// propagating observes the requests of a program, which carry contexts.
func propagating(t *testing.T, spec testtarget.Spec, p loupe.Propagation) *web {
	t.Helper()
	return observeWeb(t, testtarget.Start(t, testtarget.Build(t, spec)), loupe.Options{Engine: loupe.EngineInline, Spans: loupe.SpanOptions{Propagation: &p}})
}

// incoming is the traceparent header of a request of a test.
const incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// request requests path of the program with a traceparent header, or without.
func (w *web) request(path, parent string) []string {
	w.t.Helper()
	req, err := http.NewRequest("GET", "http://"+w.plain+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if parent != "" {
		req.Header.Set("traceparent", parent)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
}

// headerOf returns a context as a traceparent header.
func headerOf(c trace.SpanContext) string {
	return fmt.Sprintf("00-%s-%s-%s", c.TraceID(), c.SpanID(), c.TraceFlags())
}

// TestInlinePropagation has a program send requests to itself: each one carries the context of its span, and the server continues the trace.
func TestInlinePropagation(t *testing.T) {
	for _, spec := range webSpecs(t) {
		t.Run(spec.String(), func(t *testing.T) {
			w := propagating(t, spec, loupe.Propagation{})
			for _, c := range []struct {
				as      string
				n, hops int // requests, and the number of times that each is sent
				parent  string
			}{{"plain", 50, 1, ""}, {"shared", 50, 1, incoming}, {"post", 10, 1, incoming}, {"redirected", 10, 2, ""}, {"new", 10, 1, incoming}, {"http2", 1, 1, ""}, {"http2", 50, 1, incoming},
				{"http2post", 10, 1, ""}, {"http2", 50, 1, ""}, {"plain", 1, 1, incoming[:53] + "00"}} {
				answers := w.request(fmt.Sprintf("/send?n=%d&as=%s", c.n, c.as), c.parent)
				all := w.take(1 + 2*c.n*c.hops)
				check(t, all, answers, c.n*c.hops, c.parent)
			}
			counts, err := w.session.SpanCounts()
			if err != nil || counts.NoHeader != 0 || counts.Mismatched+counts.Strays+counts.Unobserved != 0 {
				t.Errorf("%+v, %v", counts, err)
			}
		})
	}
}

// check compares the spans of a request that has sent n others with what their servers have received.
func check(t *testing.T, all []*spans.Span, answers []string, n int, parent string) {
	t.Helper()
	var request *spans.Span
	servers, sent := map[trace.SpanID]*spans.Span{}, map[string]*spans.Span{}
	for _, s := range all {
		switch {
		case s.Name == "GET /send" || s.Name == "GET" && attributes(s)["url.path"] == "/send":
			request = s
		case s.Kind == trace.SpanKindServer:
			servers[s.Parent.SpanID()] = s
		default:
			sent[headerOf(s.Context)] = s
		}
	}
	if request == nil || len(sent) != n || len(servers) != n {
		t.Fatalf("%d spans of requests that were sent, and %d of those that were served with different parents; want %d", len(sent), len(servers), n)
	}
	if got := headerOf(request.Parent); parent != "" && got != parent || parent == "" && request.Parent.IsValid() {
		t.Errorf("the request has parent %s, want %q", got, parent)
	}
	if want := parent == "" || strings.HasSuffix(parent, "1"); request.Context.IsSampled() != want {
		t.Errorf("the request is sampled: %v, want %v", !want, want)
	}
	for header, s := range sent {
		server := servers[s.Context.SpanID()]
		if s.Parent.SpanID() != request.Context.SpanID() || s.Context.TraceID() != request.Context.TraceID() || s.Context.IsSampled() != request.Context.IsSampled() {
			t.Errorf("%s of a request has parent %s, want %s", header, s.Parent.SpanID(), headerOf(request.Context))
		}
		if server == nil || server.Rule != spans.RuleHeader || server.Context.TraceID() != s.Context.TraceID() || server.Context.IsSampled() != s.Context.IsSampled() {
			t.Errorf("the request with context %s was served as %+v", header, server)
		}
	}
	for _, answer := range answers {
		if header, ok := strings.CutPrefix(answer, "1 "); !ok || sent[header] == nil {
			t.Errorf("a server has received %q", answer)
		}
	}
}

// TestInlinePropagationOwn checks that a request with a header of its own is left alone, and that requests that cannot get one are counted.
func TestInlinePropagationOwn(t *testing.T) {
	const own = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"
	w := propagating(t, lastWeb(t)[0], loupe.Propagation{})
	for _, c := range []struct {
		as, want string
		missing  uint64
	}{{"own", "1 " + own, 0}, {"lower", "1 " + own, 0}, {"long", "0 ", 1}, {"http2own", "1 " + own, 0}, {"http2long", "0 ", 1}} {
		before, _ := w.session.SpanCounts()
		if got := w.request("/send?n=1&as="+c.as, incoming); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: the server has received %q, want %q", c.as, got, c.want)
		}
		w.take(3)
		if after, err := w.session.SpanCounts(); err != nil || after.NoHeader-before.NoHeader != c.missing {
			t.Errorf("%s: %+v, %v", c.as, after, err)
		}
	}
}

// TestInlinePropagationSampled compares which traces are sampled with the sampler of the SDK.
func TestInlinePropagationSampled(t *testing.T) {
	w := propagating(t, lastWeb(t)[0], loupe.Propagation{Omit: 0.75})
	sampled := 0
	const n = 400
	w.request(fmt.Sprintf("/send?n=%d&as=plain", n), "")
	for range n {
		w.request("/received", "")
	}
	for _, s := range w.take(1 + 2*n + n) {
		id := s.Context.TraceID()
		want := uint64(id[8])>>6 == 0 // the highest two bits
		if s.Context.IsSampled() != want {
			t.Errorf("%s is sampled: %v", id, !want)
		}
		if want && attributes(s)["url.path"] == "/received" && !s.Parent.IsValid() {
			sampled++
		}
	}
	if sampled < n/8 || sampled > n/2 {
		t.Errorf("%d of %d new traces are sampled", sampled, n)
	}
}

// TestPropagationRefused checks that engine uprobe says that it does not add headers, and adds none.
func TestPropagationRefused(t *testing.T) {
	oneEngine(t)
	target := testtarget.Start(t, testtarget.Build(t, lastWeb(t)[0]))
	w := observeWeb(t, target, loupe.Options{Engine: loupe.EngineUprobe, Spans: loupe.SpanOptions{Propagation: &loupe.Propagation{}}})
	if got := w.request("/send?n=1&as=plain", incoming); !slices.Equal(got, []string{"0 "}) {
		t.Errorf("the server has received %q", got)
	}
	w.take(3)
	const want = "requests that the program sends carry no traceparent header: engine uprobe does not change the target; use engine inline"
	if warnings := w.session.Warnings(); len(warnings) == 0 || warnings[len(warnings)-1].Error() != want {
		t.Errorf("%q", warnings)
	}
}
