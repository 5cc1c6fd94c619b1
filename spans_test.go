package loupe_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// firstSpans is the minor version of the first release whose requests are reported.
const firstSpans = 19

// webSpecs returns executables of program web, of the releases from firstSpans on: every second one is stripped. Of all releases there are some, as
// the packages that it requires are compiled for each.
func webSpecs(t *testing.T) []testtarget.Spec {
	t.Helper()
	var specs []testtarget.Spec
	for i, v := range testtarget.Versions() {
		if minorOf(t, v) >= firstSpans {
			specs = append(specs, testtarget.Spec{Program: "web", Go: v, Stripped: i%2 == 1})
		}
	}
	some := []string{"1.19.13", "1.21.13", "1.22.12", "1.24.13", testtarget.Latest()}
	return testtarget.EachOr(t, specs, func(s testtarget.Spec) bool { return !testtarget.Complete() || slices.Contains(some, s.Go) })
}

// lastWeb returns the executable of program web of the newest release.
func lastWeb(t *testing.T) []testtarget.Spec {
	specs := webSpecs(t)
	return specs[len(specs)-1:]
}

// A web is a process of program web that is observed.
type web struct {
	t          *testing.T
	target     *testtarget.Process
	session    *loupe.Session
	plain, tls string // addresses
	client     *http.Client

	mu  sync.Mutex
	got []*spans.Span

	reading sync.Mutex    // held to stop the reader of events
	done    chan struct{} // closed when the events have ended
}

// startWeb starts the program and observes its requests.
func startWeb(t *testing.T, spec testtarget.Spec) *web {
	t.Helper()
	return observeWeb(t, testtarget.Start(t, testtarget.Build(t, spec)), loupe.Options{})
}

// observeWeb observes the requests of the program.
func observeWeb(t *testing.T, target *testtarget.Process, opt loupe.Options) *web {
	t.Helper()
	w := &web{t: t, target: target}
	t.Cleanup(w.target.Stop)
	w.watch(&opt)
	w.session = attach(t, w.target.PID(), opt)
	w.read()
	return w
}

// watch has the spans of the program collected.
func (w *web) watch(opt *loupe.Options) {
	opt.Spans.Handle = func(s *spans.Span) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.got = append(w.got, s)
	}
}

// read asks the program for its addresses, and begins to read the events.
func (w *web) read() {
	w.t.Helper()
	words := strings.Fields(w.target.Command("address"))
	w.plain, w.tls = words[1], words[2]
	w.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	w.t.Cleanup(w.client.CloseIdleConnections)
	for _, warning := range w.session.Warnings() {
		w.t.Log(warning)
	}
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		for range w.session.Events() {
			w.stop()
		}
	}()
	w.t.Cleanup(w.detach)
}

// detach ends the observation. All spans have been reported when it returns.
func (w *web) detach() {
	w.session.Detach()
	<-w.done
}

// stop waits while the reader is to be stopped.
func (w *web) stop() {
	w.reading.Lock()
	defer w.reading.Unlock()
}

// take waits for n spans and returns them. No others follow.
func (w *web) take(n int) []*spans.Span {
	w.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		w.mu.Lock()
		got := len(w.got)
		w.mu.Unlock()
		if got >= n || time.Now().After(deadline) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.got) != n {
		w.t.Fatalf("%d spans, want %d: %v", len(w.got), n, describe(w.got))
	}
	got := w.got
	w.got = nil
	return got
}

// send sends a request and returns the status and the body of the response; 0 if there is none.
func (w *web) send(method, url, body string, header ...string) (int, string) {
	w.t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("User-Agent", "tester")
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// describe lists spans with what identifies them.
func describe(list []*spans.Span) []string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%v %s %v ending %d status %v rule %q %v", s.Kind, s.Name, attributes(s), s.Ending, s.Status, s.Rule, s.Parent.SpanID()))
	}
	return out
}

func attributes(s *spans.Span) map[string]string {
	m := map[string]string{}
	for _, kv := range s.Attributes {
		m[string(kv.Key)] = kv.Value.String()
	}
	return m
}

// TestSpansServer compares the spans of requests with the requests.
func TestSpansServer(t *testing.T) {
	for _, spec := range webSpecs(t) {
		t.Run(spec.String(), func(t *testing.T) {
			w := startWeb(t, spec)
			minor := minorOf(t, spec.Go)
			for _, tls := range []bool{false, true} {
				for _, c := range serverCases(minor, tls) {
					w.check(c, tls)
				}
			}
		})
	}
}

// TestSpanFunctions checks which functions have probes.
func TestSpanFunctions(t *testing.T) {
	for _, spec := range lastWeb(t) {
		w := startWeb(t, spec)
		got := w.session.SpanFunctions()
		for _, want := range []string{"net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve", "net/http.(*Transport).getConn"} {
			if !slices.Contains(got, want) || !slices.IsSorted(got) {
				t.Errorf("%s is missing in %q", want, got)
			}
		}
	}
}

// A serverCase is a request, and what its span has.
type serverCase struct {
	method, path, body string
	header             []string
	name               string
	status             int
	size               int    // of the response
	route              string // empty: none
	extra              map[string]string
	failed             bool
	ending             spans.Ending
	parent             string // traceparent, if it is valid
}

const (
	traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	later       = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-brings"
)

func serverCases(minor int, tls bool) []serverCase {
	cases := []serverCase{
		{method: "GET", path: "/hello", name: "GET", status: 200, size: 5, route: "/hello"},
		{method: "HEAD", path: "/hello", name: "HEAD", status: 200, size: 5, route: "/hello"},
		{method: "POST", path: "/echo", body: "0123456789", name: "POST", status: 200, size: 10, route: "/echo"},
		{method: "BREW", path: "/hello", name: "HTTP", status: 200, size: 5, route: "/hello", extra: map[string]string{"http.request.method": "_OTHER", "http.request.method_original": "BREW"}},
		{method: "GET", path: "/status/404", name: "GET", status: 404, route: "/status/"},
		{method: "GET", path: "/status/503", name: "GET", status: 503, route: "/status/", failed: true, extra: map[string]string{"error.type": "503"}},
		{method: "GET", path: "/none", name: "GET", status: 404, size: 19},
		{method: "GET", path: "/none/a%20b?c=%20", name: "GET", status: 404, size: 19, extra: map[string]string{"url.path": "/none/a b"}},
		{method: "GET", path: "/hello?" + strings.Repeat("q", 1000), name: "GET", status: 200, size: 5, route: "/hello"},
		{method: "GET", path: "/hello?secret=1", name: "GET", status: 200, size: 5, route: "/hello"},
		{method: "GET", path: "/panic", name: "GET", route: "/panic", failed: true, ending: spans.Panicked},
		{method: "GET", path: "/exit", name: "GET", route: "/exit", failed: true, ending: spans.Panicked},
		{method: "GET", path: "/hello", header: []string{"traceparent", traceparent}, name: "GET", status: 200, size: 5, route: "/hello", parent: traceparent},
		{method: "GET", path: "/hello", header: []string{"traceparent", unsampled}, name: "GET", status: 200, size: 5, route: "/hello", parent: unsampled},
		{method: "GET", path: "/hello", header: []string{"traceparent", later}, name: "GET", status: 200, size: 5, route: "/hello", parent: traceparent},
		{method: "GET", path: "/hello", header: []string{"traceparent", traceparent + "-x"}, name: "GET", status: 200, size: 5, route: "/hello"},
		{method: "GET", path: "/hello", header: []string{"traceparent", strings.ToUpper(traceparent)}, name: "GET", status: 200, size: 5, route: "/hello"},
		{method: "GET", path: "/hello", header: []string{"traceparent", "ff" + traceparent[2:]}, name: "GET", status: 200, size: 5, route: "/hello"},
		{method: "GET", path: "/hello", header: []string{"traceparent", traceparent, "traceparent", traceparent}, name: "GET", status: 200, size: 5, route: "/hello"},
		{method: "GET", path: "/hello", header: headers(40, "traceparent", traceparent), name: "GET", status: 200, size: 5, route: "/hello", parent: traceparent},
		{method: "GET", path: "/hello", header: []string{"x", strings.Repeat("x", 10000)}, name: "GET", status: 200, size: 5, route: "/hello"},
	}
	item := serverCase{method: "GET", path: "/items/7", name: "GET", status: 200, size: 1, route: "/items/{id}"}
	if minor < 22 {
		item.route = "/items/"
	}
	cases = append(cases, item)
	if !tls {
		cases = append(cases, serverCase{method: "GET", path: "/hijack", name: "GET", route: "/hijack"})
	}
	for i := range cases {
		c := &cases[i]
		if c.route != "" {
			c.name += " " + c.route
		}
	}
	return cases
}

// headers returns n headers and one more.
func headers(n int, last ...string) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint("x-", i), "v")
	}
	return append(list, last...)
}

// check sends the request of a case, and compares its span.
func (w *web) check(c serverCase, tls bool) {
	w.t.Helper()
	scheme, addr, protocol := "http", w.plain, "1.1"
	if tls {
		scheme, addr, protocol = "https", w.tls, "2"
	}
	if c.ending != spans.Returned {
		w.client.CloseIdleConnections() // a request that fails on a connection that was used before is repeated
	}
	w.send(c.method, scheme+"://"+addr+c.path, c.body, c.header...)
	s := w.take(1)[0]
	path, _, _ := strings.Cut(c.path, "?")
	host, port, _ := strings.Cut(addr, ":")
	want := map[string]string{"http.request.method": c.method, "url.scheme": scheme, "url.path": path, "network.protocol.version": protocol,
		"server.address": host, "server.port": port, "network.peer.address": "127.0.0.1", "client.address": "127.0.0.1", "user_agent.original": "tester"}
	if c.status != 0 {
		want["http.response.status_code"] = strconv.Itoa(c.status)
	}
	if c.size != 0 {
		want["http.response.body.size"] = strconv.Itoa(c.size)
	}
	if c.route != "" {
		want["http.route"] = c.route
	}
	maps.Copy(want, c.extra)
	got := attributes(s)
	if port, err := strconv.Atoi(got["network.peer.port"]); err != nil || port < 1 {
		w.t.Errorf("%s %s: port of the peer %q", c.method, c.path, got["network.peer.port"])
	}
	delete(got, "network.peer.port")
	if !maps.Equal(got, want) {
		w.t.Errorf("%s %s %s: attributes %v, want %v", scheme, c.method, c.path, got, want)
	}
	status := codes.Unset
	if c.failed {
		status = codes.Error
	}
	if s.Kind != trace.SpanKindServer || s.Name != c.name || s.Status != status || s.Ending != c.ending || s.Library != "net/http" {
		w.t.Errorf("%s %s %s: %v", scheme, c.method, c.path, describe([]*spans.Span{s}))
	}
	w.checkParent(s, c.parent)
	if d := s.Work.Own.Total(); d != time.Duration(s.End-s.Start) || s.End <= s.Start || time.Since(time.Unix(0, s.Start)).Abs() > time.Minute {
		w.t.Errorf("%s %s %s: from %d for %v, of which %v are accounted", scheme, c.method, c.path, s.Start, time.Duration(s.End-s.Start), d)
	}
}

// checkParent compares the parent of a span with the header of its request.
func (w *web) checkParent(s *spans.Span, header string) {
	w.t.Helper()
	if header == "" {
		if s.Rule != spans.RuleRoot || s.Parent.IsValid() || !s.Context.IsValid() || !s.Context.IsSampled() {
			w.t.Errorf("parent %v by rule %q, context %v: want none", s.Parent, s.Rule, s.Context)
		}
		return
	}
	parts := strings.Split(header, "-")
	sampled := parts[3] == "01"
	if s.Rule != spans.RuleHeader || s.Parent.TraceID().String() != parts[1] || s.Parent.SpanID().String() != parts[2] ||
		s.Context.TraceID() != s.Parent.TraceID() || s.Context.IsSampled() != sampled || s.Context.SpanID() == s.Parent.SpanID() {
		w.t.Errorf("parent %v by rule %q, context %v, want %s", s.Parent, s.Rule, s.Context, header)
	}
}

// TestSpansClient compares the spans of requests that a program sends while it serves others.
func TestSpansClient(t *testing.T) {
	for _, spec := range webSpecs(t) {
		t.Run(spec.String(), func(t *testing.T) {
			w := startWeb(t, spec)
			url := "http://" + w.plain
			for _, c := range []struct {
				path  string
				n     int
				rule  spans.Rule
				child bool // of the request
				to    string
			}{{"/many?n=3", 3, spans.RuleGoroutine, true, url}, {"/fan?n=5", 5, spans.RuleCreator, true, url}, {"/later", 2, spans.RuleCreator, true, url},
				{"/pooled", 1, spans.RuleRoot, false, url}, {"/http2?n=5", 5, spans.RuleGoroutine, true, "https://" + w.tls}} {
				if status, _ := w.send("GET", url+c.path, ""); status != 200 {
					t.Fatalf("%s: status %d", c.path, status)
				}
				list := w.take(1 + 2*c.n)
				served := slices.IndexFunc(list, func(s *spans.Span) bool { return attributes(s)["url.path"] == strings.Split(c.path, "?")[0] })
				clients := 0
				for _, s := range list {
					if s.Kind != trace.SpanKindClient {
						continue
					}
					clients++
					want := map[string]string{"http.request.method": "GET", "url.full": c.to + "/hello", "http.response.status_code": "200",
						"network.protocol.version": map[bool]string{true: "2", false: "1.1"}[c.to[:5] == "https"], "server.address": "127.0.0.1", "server.port": c.to[strings.LastIndex(c.to, ":")+1:]}
					if got := attributes(s); !maps.Equal(got, want) || s.Name != "GET" || s.Status != codes.Unset || s.Ending != spans.Returned || s.Rule != c.rule {
						t.Errorf("%s: %v, want %v by rule %q", c.path, describe([]*spans.Span{s}), want, c.rule)
					}
					if c.child && (s.Parent.SpanID() != list[served].Context.SpanID() || s.Context.TraceID() != list[served].Context.TraceID()) {
						t.Errorf("%s: parent %v, want %v", c.path, s.Parent, list[served].Context)
					}
				}
				if clients != c.n {
					t.Errorf("%s: %d requests sent, want %d: %v", c.path, clients, c.n, describe(list))
				}
			}
			w.checkDead()
		})
	}
}

// checkDead sends a request that the program cannot pass on.
func (w *web) checkDead() {
	w.t.Helper()
	w.send("GET", "http://"+w.plain+"/dead", "")
	list := w.take(2)
	s := list[slices.IndexFunc(list, func(s *spans.Span) bool { return s.Kind == trace.SpanKindClient })]
	got := attributes(s)
	if full := got["url.full"]; !strings.HasSuffix(full, "/dead?sig=REDACTED&x=1") || got["error.type"] != "*net.OpError" || s.Status != codes.Error || s.Ending != spans.Returned {
		w.t.Errorf("a request without a server: %v", describe([]*spans.Span{s}))
	}
}

// TestSpansWork compares how the time of requests was spent with what they did.
func TestSpansWork(t *testing.T) {
	for _, spec := range testtarget.Ends(t, webSpecs(t)) {
		t.Run(spec.String(), func(t *testing.T) {
			w := startWeb(t, spec)
			for kind, class := range map[string]spans.Class{"sleep": spans.Sleep, "chan": spans.Chan, "select": spans.Select, "lock": spans.Mutex,
				"network": spans.Network, "group": spans.Sync, "cpu": spans.Running} {
				w.send("GET", "http://"+w.plain+"/wait?for="+kind, "")
				s := w.take(1)[0]
				d := time.Duration(s.End - s.Start)
				if got := s.Work.Own[class]; got < 15*time.Millisecond && class != spans.Running || got > d || s.Work.Own.Total() != d {
					t.Errorf("%s: %v of %v, in all %v", kind, got, d, s.Work.Own)
				}
				if running := s.Work.Own[spans.Running] + s.Work.Own[spans.Runnable]; class == spans.Running && running != d {
					t.Errorf("%s: %v of %v", kind, s.Work.Own, d)
				}
				if h := s.Work.Holder; class == spans.Mutex && (h.Func != "main.(*web).release" || h.Wait < 15*time.Millisecond) {
					t.Errorf("the lock was held by %+v", h)
				}
			}
		})
	}
}

// TestSpansMany sends requests from many goroutines at once, and compares the numbers of spans.
func TestSpansMany(t *testing.T) {
	const senders, each = 100, 20
	for _, spec := range lastWeb(t) {
		t.Run(spec.String(), func(t *testing.T) {
			w := startWeb(t, spec)
			w.client.Transport.(*http.Transport).MaxIdleConnsPerHost = senders
			var all sync.WaitGroup
			var failed bytes.Buffer
			var mu sync.Mutex
			for i := range senders {
				all.Go(func() {
					for j := range each {
						path := fmt.Sprintf("/status/%d", 200+i)
						if got, _ := w.send("GET", "http://"+w.plain+path, ""); got != 200+i {
							mu.Lock()
							fmt.Fprintf(&failed, "%s (%d): %d\n", path, j, got)
							mu.Unlock()
						}
					}
				})
			}
			all.Wait()
			if failed.Len() > 0 {
				t.Fatal(failed.String())
			}
			counts := map[string]int{}
			ids := map[trace.SpanID]bool{}
			for _, s := range w.take(senders * each) {
				a := attributes(s)
				if a["url.path"] != "/status/"+a["http.response.status_code"] {
					t.Errorf("mixed up: %v", a)
				}
				counts[a["url.path"]]++
				ids[s.Context.SpanID()] = true
			}
			for path, n := range counts {
				if n != each {
					t.Errorf("%d spans of %s, want %d", n, path, each)
				}
			}
			c, err := w.session.SpanCounts()
			if err != nil || c.Begun != senders*each || c.Ended != c.Begun || c.Strays+c.Mismatched+c.Unobserved+c.Notes.Lost > 0 || len(ids) != senders*each {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

// TestSpansHostile sends requests that are as large and as strange as net/http accepts. With engine inline their contexts are propagated.
func TestSpansHostile(t *testing.T) {
	for _, spec := range lastWeb(t) {
		t.Run(spec.String(), func(t *testing.T) {
			w := observeWeb(t, testtarget.Start(t, testtarget.Build(t, spec)), loupe.Options{Spans: loupe.SpanOptions{Propagation: &loupe.Propagation{}}})
			long := strings.Repeat("x", 100_000)
			var many strings.Builder
			headers := 10_000
			if minorOf(t, spec.Go) >= 27 { // net/http accepts no more
				headers = 400
			}
			for i := range headers {
				fmt.Fprintf(&many, "x-%d: v\r\n", i)
			}
			for name, c := range map[string]struct {
				request string
				path    string // of the span
				method  string
				rule    spans.Rule
			}{
				"long path":        {"GET /" + long + " HTTP/1.1\r\nHost: h\r\n\r\n", "/" + long[:255], "GET", spans.RuleRoot},
				"long method":      {long + " / HTTP/1.1\r\nHost: h\r\n\r\n", "/", "_OTHER", spans.RuleRoot},
				"many headers":     {"GET /hello HTTP/1.1\r\nHost: h\r\n" + many.String() + "\r\n", "/hello", "GET", spans.RuleRoot},
				"among many":       {"GET /hello HTTP/1.1\r\nHost: h\r\n" + many.String()[:600] + "\r\ntraceparent: " + traceparent + "\r\n\r\n", "/hello", "GET", spans.RuleHeader},
				"binary path":      {"GET /%00%ff%1b[31m HTTP/1.1\r\nHost: h\r\n\r\n", "/\x00\uFFFD\x1b[31m", "GET", spans.RuleRoot},
				"long header":      {"GET /hello HTTP/1.1\r\nHost: h\r\nUser-Agent: " + long + "\r\ntraceparent: " + long + "\r\n\r\n", "/hello", "GET", spans.RuleRoot},
				"empty header":     {"GET /hello HTTP/1.1\r\nHost: h\r\nUser-Agent:\r\ntraceparent:\r\n\r\n", "/hello", "GET", spans.RuleRoot},
				"HTTP/1.0":         {"GET /hello HTTP/1.0\r\n\r\n", "/hello", "GET", spans.RuleRoot},
				"strange host":     {"GET /hello HTTP/1.1\r\nHost: [::1]:99999\r\n\r\n", "/hello", "GET", spans.RuleRoot},
				"several and case": {"GET /hello HTTP/1.1\r\nHost: h\r\nTRACEPARENT: " + traceparent + "\r\nTraceParent: " + traceparent + "\r\n\r\n", "/hello", "GET", spans.RuleRoot},
			} {
				conn, err := net.Dial("tcp", w.plain)
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(conn, c.request)
				conn.Read(make([]byte, 1))
				s := w.take(1)[0]
				conn.Close()
				a := attributes(s)
				if got := a["url.path"]; !strings.HasPrefix(got, c.path) || len(got) > 256 || a["http.request.method"] != c.method || s.Rule != c.rule || len(a["user_agent.original"]) > 256 {
					t.Errorf("%s: %.500s", name, describe([]*spans.Span{s})[0])
				}
			}
			if status, _ := w.send("GET", "http://"+w.plain+"/hello", ""); status != 200 {
				t.Errorf("afterwards: status %d", status)
			}
			w.take(1)
			if c, err := w.session.SpanCounts(); err != nil || c.Unsearched != 1 { // that with many headers
				t.Errorf("%d spans may have a parent that is missing (%v)", c.Unsearched, err)
			}
		})
	}
}

// TestSpansDisconnect closes the connection while a request is being served.
func TestSpansDisconnect(t *testing.T) {
	for _, spec := range lastWeb(t) {
		t.Run(spec.String(), func(t *testing.T) {
			w := startWeb(t, spec)
			conn, err := net.Dial("tcp", w.plain)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, "GET /wait?for=sleep HTTP/1.1\r\nHost: h\r\n\r\n")
			time.Sleep(5 * time.Millisecond)
			conn.Close()
			if s := w.take(1)[0]; s.Ending != spans.Returned || time.Duration(s.End-s.Start) < 15*time.Millisecond {
				t.Errorf("%v for %v", describe([]*spans.Span{s}), time.Duration(s.End-s.Start))
			}
		})
	}
}

// TestSpansBlocked ends the context while the function that handles spans is blocked: the probes are removed at once.
func TestSpansBlocked(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "web"}))
	url := "http://" + strings.Fields(target.Command("address"))[1] + "/hello"
	before := textOf(t, target.PID())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	s, err := attachTo(ctx, loupe.PID(target.PID()), loupe.Options{Spans: loupe.SpanOptions{Handle: func(*spans.Span) {
		if n++; n != 1 {
			return
		}
		if textOf(t, target.PID()) == before {
			t.Error("no probe is there")
		}
		cancel()
		for deadline := time.Now().Add(time.Minute); textOf(t, target.PID()) != before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("the probes stay")
				return
			}
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range 10 {
			if resp, err := http.Get(url); err == nil {
				resp.Body.Close()
			}
		}
	}()
	for range s.Events() {
	}
	<-sent
	counts, err := s.SpanCounts()
	if err != nil || n == 0 || counts.Ended != uint64(n) {
		t.Errorf("%d spans handled, %+v, %v", n, counts, err)
	}
}
