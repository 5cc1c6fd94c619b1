package loupe_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// links are three processes of program chain: the first one is requested by HTTP, the second one by gRPC, and the third one by HTTP.
type links struct {
	t         *testing.T
	processes []*testtarget.Process
	url       string // of the first one, to which the ID of an order is added
}

// connect connects three processes.
func connect(t *testing.T, processes ...*testtarget.Process) *links {
	t.Helper()
	var addresses [][]string
	for _, p := range processes {
		addresses = append(addresses, strings.Fields(p.Command("address"))[1:])
	}
	processes[0].Command("next grpc " + addresses[1][1])
	processes[1].Command("next http http://" + addresses[2][0] + "/orders/")
	return &links{t, processes, "http://" + addresses[0][0] + "/orders/"}
}

// get requests an order.
func (l *links) get(id string, status int) {
	resp, err := http.Get(l.url + id)
	if err != nil {
		l.t.Error(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status || status == http.StatusOK && string(body) != "order "+id {
		l.t.Errorf("order %s: status %d, %q, %v", id, resp.StatusCode, body, err)
	}
}

// A hop is a span of the chain, as Loupe or the SDK makes it.
type hop struct {
	trace, id, parent string
	kind              string
	text              string // name, kind, status
	attributes        map[string]string
}

// ordered returns the spans of one trace from the root on. Each one has one child.
func ordered(t *testing.T, all []hop) []hop {
	t.Helper()
	var list []hop
	parent := ""
	for range all {
		i := slices.IndexFunc(all, func(l hop) bool { return l.parent == parent && l.trace == all[0].trace })
		if i < 0 {
			t.Fatalf("no span has parent %q: %+v", parent, all)
		}
		list = append(list, all[i])
		parent = all[i].id
	}
	return list
}

// linksOf returns spans of Loupe by trace.
func linksOf(all []*spans.Span) map[string][]hop {
	traces := map[string][]hop{}
	status := map[codes.Code]string{codes.Unset: "Unset", codes.Error: "Error", codes.Ok: "Ok"}
	kinds := map[trace.SpanKind]string{trace.SpanKindServer: "Server", trace.SpanKindClient: "Client"}
	for _, s := range all {
		l := hop{trace: s.Context.TraceID().String(), id: s.Context.SpanID().String(), kind: kinds[s.Kind], attributes: attributes(s),
			text: fmt.Sprintf("%s %s %s %s", s.Name, kinds[s.Kind], status[s.Status], s.Message)}
		if s.Parent.IsValid() {
			l.parent = s.Parent.SpanID().String()
		}
		traces[l.trace] = append(traces[l.trace], l)
	}
	return traces
}

// observedChain starts three stripped services, or has Loupe start them, and observes them, with a process of Loupe for all of them.
func observedChain(t *testing.T, started bool) (*links, func(n int) []*spans.Span) {
	t.Helper()
	var mu sync.Mutex
	var all []*spans.Span
	handle := func(s *spans.Span) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, s)
	}
	var processes []*testtarget.Process
	for _, release := range []string{"1.23.12", testtarget.Latest(), "1.26.11"} {
		path := testtarget.Build(t, testtarget.Spec{Program: "chain", Go: testtarget.OrLatest(t, release), Stripped: true, Flags: "-modfile=plain.mod"})
		opt := loupe.Options{Engine: loupe.EngineInline, Spans: loupe.SpanOptions{Handle: handle, Propagation: &loupe.Propagation{}}}
		var p *testtarget.Process
		var s *loupe.Session
		if started {
			p, s = startObserved(t, testcmd.Within(t, 0, path), opt)
		} else {
			p = testtarget.Start(t, path)
			s = attach(t, p.PID(), opt)
		}
		go func() {
			for range s.Events() {
			}
		}()
		processes = append(processes, p)
	}
	return connect(t, processes...), func(n int) []*spans.Span {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			if len(all) >= n || time.Now().After(end) {
				got := all
				all = nil
				mu.Unlock()
				return got
			}
			mu.Unlock()
		}
	}
}

// TestInlineChain has requests pass three stripped services, by HTTP and by gRPC, many at once: each one is a trace.
func TestInlineChain(t *testing.T) { checkChain(t, false) }

// TestInlineChainStarted does so with services that Loupe starts.
func TestInlineChainStarted(t *testing.T) { checkChain(t, true) }

func checkChain(t *testing.T, started bool) {
	const clients, each = 20, 10
	chain, take := observedChain(t, started)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for j := range each {
				chain.get(fmt.Sprint(i*each+j), http.StatusOK)
			}
		})
	}
	wg.Wait()
	traces := linksOf(take(5 * clients * each))
	if len(traces) != clients*each {
		t.Errorf("%d traces, want %d", len(traces), clients*each)
	}
	seen := map[string]bool{}
	for id, all := range traces {
		if len(all) != 5 {
			t.Fatalf("%d spans in trace %s, want 5", len(all), id)
		}
		list := ordered(t, all)
		for i, want := range []string{"GET /orders/{id} Server Unset ", "loupe.test.Stock/Reserve Client Unset ", "loupe.test.Stock/Reserve Server Unset ", "GET Client Unset ", "GET /orders/{id} Server Unset "} {
			if list[i].text != want {
				t.Errorf("span %d is %q, want %q", i, list[i].text, want)
			}
		}
		first, last := list[0].attributes["url.path"], list[4].attributes["url.path"]
		if first != last || seen[first] {
			t.Errorf("the request for %s is in one trace with that for %s", first, last)
		}
		seen[first] = true
	}
}

// sdkDiffers are the attributes that the SDK's instrumentation (otelhttp and otelgrpc v0.72) lacks, by kind and system, and why Loupe has
// them. Loupe lacks no attribute of the SDK.
var sdkDiffers = map[string]string{
	"Server http http.route":           "required if it is known; otelhttp has it only in metrics and in the name",
	"Server http error.type":           "required for errors; otelhttp sets only the status",
	"Client grpc error.type":           "required for errors; otelgrpc sets only the status",
	"Server grpc error.type":           "the same",
	"Client grpc network.peer.address": "recommended; otelgrpc does not set it",
	"Client grpc network.peer.port":    "the same",
	"Client grpc network.transport":    "the same",
	"Server grpc network.peer.address": "the same",
	"Server grpc network.peer.port":    "the same",
	"Server grpc network.transport":    "the same",
	"Server grpc user_agent.original":  "the same",
}

// TestInlineChainSDK compares the spans of a chain with those of the same program instrumented by hand with the OpenTelemetry SDK: the
// tree, names, kinds, status and attributes.
func TestInlineChainSDK(t *testing.T) {
	r := testcollector.Receive(t, nil)
	var processes []*testtarget.Process
	path := testtarget.Build(t, testtarget.Spec{Program: "chain", Go: testtarget.Latest(), Stripped: true, Tags: "sdk", Flags: "-modfile=sdk.mod"})
	for range 3 {
		cmd := testcmd.Within(t, 0, path)
		cmd.Env = append(cmd.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+r.HTTP)
		processes = append(processes, testtarget.StartCmd(t, cmd))
	}
	byHand := connect(t, processes...)
	chain, take := observedChain(t, false)
	differ := map[string]bool{}
	for id, status := range map[string]int{"7": 200, "missing": 404, "broken": 500} {
		before := len(r.Spans())
		byHand.get(id, status)
		for _, p := range processes {
			p.Command("flush")
		}
		var want []hop
		for _, s := range r.Spans()[before:] {
			// otelhttp names the spans of requests that are sent "HTTP GET"; the conventions want the method alone.
			name := strings.TrimPrefix(s.Name, "HTTP ")
			want = append(want, hop{trace: s.TraceID, id: s.ID, parent: s.ParentID, kind: s.Kind, attributes: s.Attributes, text: fmt.Sprintf("%s %s %s %s", name, s.Kind, s.Status, s.Message)})
		}
		chain.get(id, status)
		var got []hop
		for _, list := range linksOf(take(5)) {
			got = append(got, list...)
		}
		if len(got) != 5 || len(want) != 5 {
			t.Fatalf("order %s: %d spans, %d of the SDK, want 5", id, len(got), len(want))
		}
		got, want = ordered(t, got), ordered(t, want)
		for i := range got {
			if got[i].text != want[i].text {
				t.Errorf("order %s: span %d is %q, that of the SDK %q", id, i, got[i].text, want[i].text)
			}
			got[i].compare(t, want[i], differ)
		}
	}
	if !slices.Equal(slices.Sorted(maps.Keys(differ)), slices.Sorted(maps.Keys(sdkDiffers))) {
		t.Errorf("the SDK lacks %q", slices.Sorted(maps.Keys(differ)))
	}
}

// portInURL matches the port in a URL.
var portInURL = regexp.MustCompile(`(127\.0\.0\.1):\d+`)

// compare compares the attributes of a span with those of the SDK. Ports differ. It adds what the SDK lacks to differ.
func (h hop) compare(t *testing.T, sdk hop, differ map[string]bool) {
	t.Helper()
	system := "http"
	if h.attributes["rpc.system.name"] != "" {
		system = "grpc"
	}
	for key, got := range h.attributes {
		want, ok := sdk.attributes[key]
		switch {
		case !ok:
			differ[h.kind+" "+system+" "+key] = true
		case strings.HasSuffix(key, ".port"):
		case portInURL.ReplaceAllString(got, "$1") != portInURL.ReplaceAllString(want, "$1"):
			t.Errorf("%s: %s is %q, that of the SDK %q", h.text, key, got, want)
		}
	}
	for key, want := range sdk.attributes {
		if _, ok := h.attributes[key]; !ok {
			t.Errorf("%s: the SDK has %s, %q", h.text, key, want)
		}
	}
}
