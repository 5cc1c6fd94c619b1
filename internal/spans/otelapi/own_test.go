package otelapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// TestOwn makes spans in each way.
func TestOwn(t *testing.T) {
	each(t, func(t *testing.T, o *observed) {
		for _, w := range o.Warnings() {
			if w.Kind == event.WarnMissing {
				t.Errorf("warning: %s", w)
			}
		}
		// request returns the description of a span that is directly in the request.
		request := func(text, path string) string { return fmt.Sprintf("%s in GET /%s by goroutine", text, path) }
		for range 2 {
			o.expect("/values", request(`own internal values first=no bool=true int=-7 float=2.5 empty= strings=["a","b","c"] ints=[1,-2,3] floats=[0.5] bools=[true,false] none=[] hostile=`+"\uFFFD\x1b", "values"))
		}
		o.expect("/kinds", request("own internal kind internal", "kinds"), request("own server kind server", "kinds"), request("own client kind client", "kinds"),
			request("own producer kind producer", "kinds"), request("own consumer kind consumer", "kinds"), request("own client constant kind n=1 m=2", "kinds"))
		o.expect("/nested", request("own internal a", "nested"), "other internal b in a in a by context", "own internal c in b in b in a by context", "own internal d in a in a by context",
			request("own internal e in server", "nested"))
		o.expect("/overlap", request("own internal first in server", "overlap"), request("own internal second in server n=2", "overlap"))
		o.expect("/status?code=0", request("own internal status", "status"), request(`own internal final Ok ""`, "status"))
		o.expect("/status?code=1", request(`own internal status Error "a message"`, "status"), request(`own internal final Ok ""`, "status"))
		o.expect("/status?code=2", request(`own internal status Ok ""`, "status"), request(`own internal final Ok ""`, "status"))
		o.expect("/name", request("own internal new name", "name"))
		o.expect("/root", request("own internal outer", "root"), "own internal root", "own internal in root in root by context")
		o.expect("/elsewhere", request("own internal ends elsewhere elsewhere=true", "elsewhere"), "own internal on goroutine in ends elsewhere by context",
			"own internal without context in ends elsewhere by creator")
		o.expect("/context", request("own internal context n=1 m=2", "context"))
		http.DefaultClient.CloseIdleConnections() // a request that fails on a connection that was used before is repeated
		o.expect("/panic", request("own internal panics", "panic"))
		checkTimes(t, o)
		checkEvents(t, o)
		checkClient(t, o)
		checkPooled(t, o)
		o.complete(0)
		o.expect("/never")
		o.expect("/name", request("own internal new name", "name"))
		o.complete(1)
		checkMany(t, o)
	})
}

// checkTimes compares the times that the program has set.
func checkTimes(t *testing.T, o *observed) {
	t.Helper()
	own, request := o.get("/times", 2)
	set, measured := own[0], own[1]
	if set.Start != 2000000000e9+1 || set.End != 2000000003e9+2 {
		t.Errorf("from %d to %d", set.Start, set.End)
	}
	if d := time.Duration(request.Start - measured.Start); d < 59*time.Minute || d > 61*time.Minute || measured.End-measured.Start < int64(2*time.Hour) {
		t.Errorf("from %d to %d, the request from %d", measured.Start, measured.End, request.Start)
	}
}

// checkEvents compares events.
func checkEvents(t *testing.T, o *observed) {
	t.Helper()
	own, _ := o.get("/events", 1)
	want := []spans.Event{
		{Name: "plain"},
		{Name: "full", Time: 1000e9 + 5, Attributes: []attribute.KeyValue{attribute.String("key", "value"), attribute.Int("n", 3)}},
		{Name: "exception", Attributes: []attribute.KeyValue{attribute.String("exception.type", "*errors.errorString"), attribute.String("exception.message", "the first")}},
		{Name: "exception", Attributes: []attribute.KeyValue{attribute.Bool("wrapped", true), attribute.String("exception.type", "*fmt.wrapError"), attribute.String("exception.message", "the second: inner")}},
		{Name: "exception", Attributes: []attribute.KeyValue{attribute.String("exception.type", "*main.failure")}},
	}
	got := own[0].Events
	for i, e := range got {
		if e.Time != 1000e9+5 {
			if e.Time < own[0].Start || e.Time > own[0].End {
				t.Errorf("event %d at %d is not within the span", i, e.Time)
			}
			got[i].Time = 0
		}
	}
	if !slices.EqualFunc(got, want, func(a, b spans.Event) bool {
		return a.Name == b.Name && a.Time == b.Time && slices.Equal(a.Attributes, b.Attributes)
	}) {
		t.Errorf("events %+v, want %+v", got, want)
	}
}

// checkClient compares the spans of a request that is sent in a span.
func checkClient(t *testing.T, o *observed) {
	t.Helper()
	resp, err := http.Get(o.url + "/client")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	list := o.Take(5)
	for _, s := range list {
		s.Attributes = nil
	}
	got := describe(list, list)
	want := []string{"loupe.test/narrator internal client in GET /client by goroutine", "loupe.test/narrator internal new name in GET /name by goroutine",
		"net/http client GET in client by goroutine", "net/http server GET /client", "net/http server GET /name"}
	if !slices.Equal(got, want) {
		t.Errorf("client:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// checkPooled makes spans and sends requests in goroutines that exist already, with contexts that have a span of the program or only the
// request.
func checkPooled(t *testing.T, o *observed) {
	t.Helper()
	resp, err := http.Get(o.url + "/pooled")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	list := o.Take(10)
	for _, s := range list {
		s.Attributes = nil
	}
	got := describe(list, list)
	want := []string{"loupe.test/narrator internal beside in GET /pooled by context", "loupe.test/narrator internal inner in pooled by context",
		"loupe.test/narrator internal new name in GET /name by goroutine", "loupe.test/narrator internal new name in GET /name by goroutine",
		"loupe.test/narrator internal pooled in GET /pooled by goroutine", "net/http client GET in GET /pooled by context", "net/http client GET in pooled by context",
		"net/http server GET /name", "net/http server GET /name", "net/http server GET /pooled"}
	if !slices.Equal(got, want) {
		t.Errorf("pooled:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// checkMany makes a span with more attributes than are read.
func checkMany(t *testing.T, o *observed) {
	t.Helper()
	own, _ := o.get("/many?n=50", 1)
	if n := len(own[0].Attributes); n < 16 || n > 24 {
		t.Errorf("%d attributes of 50", n)
	}
	for i, a := range own[0].Attributes {
		if string(a.Key) != fmt.Sprint("key-", i) || a.Value.AsInt64() != int64(i) {
			t.Errorf("attribute %d is %v", i, a)
		}
	}
}

// TestParallel makes spans on many goroutines.
func TestParallel(t *testing.T) {
	const clients, requests = 50, 8
	each(t, func(t *testing.T, o *observed) {
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				for j := range requests {
					resp, err := http.Get(fmt.Sprintf("%s/tree?n=%d", o.url, i*requests+j))
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
				}
			})
		}
		all.Wait()
		list := o.Take(4 * clients * requests)
		byID := map[trace.SpanID]*spans.Span{}
		for _, s := range list {
			byID[s.Context.SpanID()] = s
		}
		seen, want := map[string]int{}, map[string]int{}
		for _, s := range list {
			if !s.Own {
				continue
			}
			n, parent := s.Attributes[0].Value.AsInt64(), byID[s.Parent.SpanID()]
			level, _ := strconv.Atoi(strings.TrimPrefix(s.Name, "level "))
			seen[fmt.Sprint(level, " ", n)]++
			switch {
			case parent == nil || parent.Context.TraceID() != s.Context.TraceID() || parent.Start > s.Start || parent.End < s.End || s.Ending != spans.Returned:
				t.Errorf("%s %d: wrong parent %+v", s.Name, n, parent)
			case level == 0 && parent.Kind != trace.SpanKindServer:
				t.Errorf("%s %d is in %s", s.Name, n, parent.Name)
			case level > 0 && (parent.Name != fmt.Sprint("level ", level-1) || parent.Attributes[0].Value.AsInt64() != n):
				t.Errorf("%s %d is in %s", s.Name, n, parent.Name)
			}
		}
		for n := range clients * requests {
			for level := range 3 {
				want[fmt.Sprint(level, " ", n)] = 1
			}
		}
		if !maps.Equal(seen, want) || len(list) != 4*clients*requests {
			t.Errorf("%d spans, %d of %d own ones", len(list), len(seen), len(want))
		}
		o.complete(0)
	})
}

// TestSDK installs an SDK. From then on the program exports its spans itself: see package otelsdk.
func TestSDK(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("eBPF requires root")
	}
	list := versions
	if !testtarget.Requested() {
		list = list[len(list)-1:]
	}
	for _, v := range list {
		t.Run(v.name, func(t *testing.T) {
			spec := v.spec(testtarget.Latest(), true)
			spec.Tags = "sdk"
			o := observe(t, testtarget.Start(t, testtarget.Build(t, spec)), loupe.EngineUprobe)
			o.get("/kinds", 6)
			if answer := o.target.Command("sdk"); answer != "sdk" {
				t.Fatal(answer)
			}
			for path, n := range map[string]int{"/kinds": 5, "/nested": 5, "/events": 1, "/tree": 3} { // one of /kinds is that of the request
				own, request := o.get(path, n)
				if request.Exported != (path == "/kinds") {
					t.Errorf("%s: the program exports the span of the request: %v", path, request.Exported)
				}
				for _, s := range own {
					if !s.Exported {
						t.Errorf("%s: %s is not exported by the program", path, s.Name)
					}
				}
			}
			o.complete(0)
		})
	}
}

// TestInline checks that engine inline says what it does not report.
func TestInline(t *testing.T) {
	if runtime.GOARCH != testtarget.AMD64 {
		t.Skip("engine inline reports these spans")
	}
	v := versions[len(versions)-1]
	o := observe(t, testtarget.Start(t, testtarget.Build(t, v.spec(testtarget.Latest(), true))), loupe.EngineInline)
	var missing []string
	for _, w := range o.Warnings() {
		if w.Kind == event.WarnMissing {
			missing = append(missing, w.Text)
		}
	}
	if len(missing) != 1 || !strings.HasPrefix(missing[0], "spans that the program makes by the API of OpenTelemetry without an SDK are not reported: ") {
		t.Errorf("warnings %q", missing)
	}
	o.get("/nested", 0)
	o.complete(0)
}
