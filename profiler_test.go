package loupe_test

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// A kiln is a process of program kiln that is observed with the map of a profiler.
type kiln struct {
	t             *testing.T
	target        *testtarget.Process
	session       *spanstest.Session
	client        *http.Client
	plain, secure string // URLs
	path          string // of the map
}

func startKiln(t *testing.T, spec testtarget.Spec) *kiln {
	t.Helper()
	k := &kiln{t: t, path: spanstest.ProfilerPath(t), target: testtarget.Start(t, testtarget.Build(t, spec))}
	t.Cleanup(k.target.Stop)
	words := strings.Fields(k.target.Command("address"))
	k.plain, k.secure = "http://"+words[1], "https://"+words[2]
	k.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16}}
	k.session = spanstest.Attach(t, k.target.PID(), loupe.Options{Spans: loupe.SpanOptions{ProfilerMap: k.path}})
	t.Cleanup(k.client.CloseIdleConnections)
	for _, w := range k.session.Warnings() {
		t.Log(w)
	}
	return k
}

// send sends n requests for each URL, some of them at once. Every second one has a traceparent header.
func (k *kiln) send(n int, urls ...string) {
	var all sync.WaitGroup
	for from := range 4 {
		all.Go(func() {
			for i := from; i < n; i += 4 {
				for _, url := range urls {
					k.post(url, i)
				}
			}
		})
	}
	all.Wait()
}

// post sends a request, which unlike a GET is not sent again if the server ends the connection.
func (k *kiln) post(url string, i int) {
	req, err := http.NewRequest("POST", url, nil)
	if err != nil {
		k.t.Error(err)
		return
	}
	if i%2 == 1 {
		req.Header.Set("traceparent", fmt.Sprintf("00-%032x-%016x-01", i<<40, i))
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return // the handler panics
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// kilnSpecs returns the executables of program kiln: of every third release, or the last one if only few are to be tested. Go 1.26 has
// another function that is called without a P.
func kilnSpecs(t *testing.T) []testtarget.Spec {
	var specs []testtarget.Spec
	versions := testtarget.Versions()
	for i, v := range versions {
		if minor := minorOf(t, v); minor < firstSpans || os.Getenv("LOUPE_RELEASES") == "few" && i < len(versions)-1 || i < len(versions)-1 && (minor-firstSpans)%3 != 0 {
			continue
		}
		specs = append(specs, testtarget.Spec{Program: "kiln", Go: v, Stripped: i%2 == 1})
	}
	return specs
}

// TestProfilerMap compares what a profiler sees with the functions that the program was in, and with the spans.
func TestProfilerMap(t *testing.T) {
	for _, spec := range kilnSpecs(t) {
		t.Run(spec.String(), func(t *testing.T) {
			k := startKiln(t, spec)
			profiler := spanstest.SampleProfiler(t, k.target.PID(), k.path)
			const n = 12
			k.send(n, k.plain+"/burn?us=2000", k.secure+"/burn?us=2000", k.plain+"/sleep?us=1000", k.plain+"/move?us=3000",
				k.plain+"/fan?us=1000", k.plain+"/outlive?us=3000", k.plain+"/panic?us=1000")
			got := k.session.Take(n * 7)
			if len(got) != n*7 {
				t.Fatalf("%d spans", len(got))
			}
			samples := profiler.Stop()
			checkContexts(t, got)
			spanstest.CheckProfiler(t, samples, got)
			checkFunctions(t, profiler, samples, got)
			k.checkDetached(samples)
		})
	}
}

// checkContexts checks that the IDs that the probes have chosen continue the traces of the requests.
func checkContexts(t *testing.T, list []*spans.Span) {
	t.Helper()
	headers := 0
	for _, s := range list {
		if !s.Context.IsValid() || !s.Context.IsSampled() {
			t.Errorf("%s: context %v", s.Name, s.Context)
		}
		if !s.Parent.IsValid() {
			continue
		}
		headers++
		if id := s.Context.TraceID(); id != s.Parent.TraceID() || s.Rule != spans.RuleHeader {
			t.Errorf("%s: trace %s with parent in %s by %v", s.Name, id, s.Parent.TraceID(), s.Rule)
		}
	}
	if headers != len(list)/2 {
		t.Errorf("%d spans have a parent, want %d", headers, len(list)/2)
	}
}

// checkFunctions checks that samples have a span, and of which goroutine, by the function in which they are.
func checkFunctions(t *testing.T, p *spanstest.Profiler, samples []spanstest.ProfilerSample, list []*spans.Span) {
	t.Helper()
	byID := map[trace.SpanID]*spans.Span{}
	for _, s := range list {
		byID[s.Context.SpanID()] = s
	}
	joined, total := map[string]int{}, map[string]int{}
	for i := range samples {
		s := &samples[i]
		span := byID[s.Span]
		for _, name := range []string{"burn", "burnChild", "burnAfter", "burnOutside"} {
			if !p.In(s, "main."+name) {
				continue
			}
			total[name]++
			if span == nil {
				continue
			}
			joined[name]++
			if own := s.G == span.G; name == "burnOutside" || own != (name == "burn") {
				t.Errorf("a sample of goroutine %d in %s has span %q of goroutine %d", s.G, name, span.Name, span.G)
			}
		}
	}
	t.Logf("%d samples; with a span: %v of %v", len(samples), joined, total)
	for _, name := range []string{"burn", "burnChild"} {
		if total[name] < 50 || joined[name] < total[name]*95/100 {
			t.Errorf("%d of %d samples in %s have a span", joined[name], total[name], name)
		}
	}
	if total["burnOutside"] == 0 || total["burnAfter"] == joined["burnAfter"] || joined["burnAfter"] == 0 {
		t.Error("no samples outside of requests, or none of a goroutine that outlives its request while that lasts")
	}
}

// checkDetached ends the session and checks that the map remains without threads of the target.
func (k *kiln) checkDetached(samples []spanstest.ProfilerSample) {
	k.t.Helper()
	if err := k.session.Detach(); err != nil {
		k.t.Error(err)
	}
	m, err := ebpf.LoadPinnedMap(k.path, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	defer m.Close()
	var thread uint64
	var value [24]byte
	for entries := m.Iterate(); entries.Next(&thread, &value); {
		if thread>>32 == samples[0].Thread>>32 {
			k.t.Errorf("after the session the map has thread %d", uint32(thread))
		}
	}
}

// TestProfilerMapFull fills the map with the threads of other processes, while requests are served.
func TestProfilerMapFull(t *testing.T) {
	k := startKiln(t, lastKiln(t))
	m, err := ebpf.LoadPinnedMap(k.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var value [24]byte
	for i := range uint64(2 * m.MaxEntries()) {
		binary.NativeEndian.PutUint64(value[16:], i+1)
		if err := m.Put(1<<62|i, value); err != nil {
			t.Fatal(err)
		}
	}
	profiler := spanstest.SampleProfiler(t, k.target.PID(), k.path)
	const n = 12
	k.send(n, k.plain+"/burn?us=2000", k.plain+"/move?us=3000", k.plain+"/fan?us=1000", k.plain+"/outlive?us=3000")
	got := k.session.Take(n * 4)
	samples := profiler.Stop()
	spanstest.CheckProfiler(t, samples, got)
	checkFunctions(t, profiler, samples, got)
	k.checkDetached(samples)
	others := 0
	var thread uint64
	for entries := m.Iterate(); entries.Next(&thread, &value); {
		others++
	}
	if others < int(m.MaxEntries())/2 {
		t.Errorf("%d entries of other processes are left", others)
	}
}

func lastKiln(t *testing.T) testtarget.Spec {
	specs := kilnSpecs(t)
	return specs[len(specs)-1]
}

// TestProfilerMapRefused attaches where the map cannot be used, and with options that exclude each other.
func TestProfilerMapRefused(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, lastKiln(t)))
	t.Cleanup(target.Stop)
	handle := func(*spans.Span) {}
	for _, test := range []struct {
		opt  loupe.Options
		want string
	}{
		{loupe.Options{Spans: loupe.SpanOptions{ProfilerMap: t.TempDir() + "/map"}}, "no BPF file system is mounted at"},
		{loupe.Options{Spans: loupe.SpanOptions{ProfilerMap: "/sys/fs/bpf"}}, "the map of the profiler at /sys/fs/bpf"},
		{loupe.Options{Engine: loupe.EngineInline, Spans: loupe.SpanOptions{ProfilerMap: "map"}}, "requires engine uprobe"},
		{loupe.Options{MinBlock: 1, Spans: loupe.SpanOptions{ProfilerMap: "map"}}, "exclude each other"},
		{loupe.Options{Spans: loupe.SpanOptions{ProfilerMap: "map", NoWork: true}}, "excludes"},
		{loupe.Options{Spans: loupe.SpanOptions{ProfilerMap: "map", Tasks: true}}, "excludes"},
	} {
		test.opt.Spans.Handle = handle
		s, err := loupe.Attach(t.Context(), loupe.PID(target.PID()), test.opt)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}
