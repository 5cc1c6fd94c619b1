package functions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// TestParallel calls a function in requests that are served at the same time.
func TestParallel(t *testing.T) {
	const clients, requests = 50, 4
	each(t, func(t *testing.T, o *observed) {
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				for j := range requests {
					resp, err := http.Get(fmt.Sprintf("%s/get?key=%d-%d", o.url, i, j))
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
				}
			})
		}
		all.Wait()
		list := o.take(2 * clients * requests)
		calls := map[trace.SpanID]*spans.Span{} // by parent
		for _, s := range list {
			if s.Kind == trace.SpanKindInternal {
				calls[s.Parent.SpanID()] = s
			}
		}
		for _, s := range list {
			if s.Kind != trace.SpanKindServer {
				continue
			}
			query, call := "", calls[s.Context.SpanID()]
			for _, a := range s.Attributes {
				if a.Key == "url.query" {
					query = a.Value.String()
				}
			}
			if call == nil || call.G != s.G || call.Start < s.Start || call.End > s.End {
				t.Errorf("the call in the request for %s is %+v", query, call)
			} else if text := o.describe(call, list); !o.spec.Stripped && !strings.Contains(text, strings.Replace(query, "key=", ",key=", 1)+",") {
				t.Errorf("%s in the request for %s", text, query)
			}
		}
		o.complete()
	})
}

// TestHot calls a function more often than its calls can be read. The loss is counted, and later calls are reported.
func TestHot(t *testing.T) {
	for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
		t.Run(string(engine), func(t *testing.T) {
			if engine == loupe.EngineUprobe && os.Getuid() != 0 {
				t.Skip("eBPF requires root")
			}
			o := observe(t, testtarget.Spec{Program: "smith", Go: testtarget.Latest()}, engine,
				loupe.Options{BufferBytes: 64 << 10, Spans: loupe.SpanOptions{Functions: []string{"main.hottest", "main.sign"}}})
			calls := 20_000
			if engine == loupe.EngineInline {
				calls = 200_000
			}
			o.target.Command(fmt.Sprintf("run hot %d", calls))
			var c loupe.SpanCounts
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
				var err error
				if c, err = o.SpanCounts(); err != nil {
					t.Fatal(err)
				}
				if c.Notes.Received+c.Notes.Lost == uint64(2*calls) && c.Notes.Produced == uint64(2*calls) {
					break
				}
			}
			if c.Notes.Produced != uint64(2*calls) || c.Notes.Received+c.Notes.Lost != c.Notes.Produced || c.Ended > uint64(calls) {
				t.Errorf("%d calls: %+v", calls, c)
			}
			t.Logf("%d calls: %d of %d notes lost", calls, c.Notes.Lost, c.Notes.Produced)
			o.target.Command("run returns 3")
			var signs []*spans.Span
			for end := time.Now().Add(20 * time.Second); len(signs) < 3 && time.Now().Before(end); time.Sleep(time.Millisecond) {
				for _, s := range o.take(0) { // the calls whose return was lost may end late
					if s.Name == "main.sign" {
						signs = append(signs, s)
					}
				}
			}
			o.expect("returns", signs, "main.sign (n=-1)→(negative)", "main.sign (n=0)→(zero)", "main.sign (n=1)→(positive)")
		})
	}
}

// TestAttachAgain attaches and detaches while functions are called: the program makes all of its calls, and what is reported is right.
func TestAttachAgain(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "smith", Go: testtarget.Latest()}))
	engines := []loupe.Engine{loupe.EngineInline}
	if os.Getuid() == 0 {
		engines = append(engines, loupe.EngineUprobe)
	}
	times := 1
	if testtarget.Complete() {
		times = 5
	}
	target.Command("start")
	names := []string{"main.sends", "main.receives", "main.recovers", "main.fails", "main.outer", "main.recurse", "main.exits"}
	for range times {
		for _, engine := range engines {
			ended := attachFor(t, target.PID(), engine, names, 500)
			t.Logf("%s: %d spans", engine, ended)
		}
	}
	target.Command("stop")
	var counts map[string]int
	if err := json.Unmarshal([]byte(target.Command("counts")), &counts); err != nil {
		t.Fatal(err)
	}
	if counts["main.sends"] == 0 || counts["main.sends"] != counts["main.receives"] || counts["main.exits"]%3 != 0 || counts["main.recovers"] == 0 {
		t.Errorf("calls %v", counts)
	}
}

// attachFor observes functions until a number of spans has ended, and returns how many that were.
func attachFor(t *testing.T, pid int, engine loupe.Engine, names []string, enough int) int {
	t.Helper()
	ended := 0
	var s *loupe.Session
	handle := func(span *spans.Span) {
		if ended++; ended == enough {
			go s.Detach()
		}
		if !slices.Contains(names, span.Name) || span.End < span.Start {
			t.Errorf("%+v", span)
		}
		for _, a := range span.Attributes {
			if n := a.Value.AsInt64(); a.Key == "loupe.go.arg.n" && (n < 0 || n > 300) {
				t.Errorf("%s(%d)", span.Name, n)
			}
		}
	}
	s, err := loupe.Attach(t.Context(), loupe.PID(pid), loupe.Options{Engine: engine, Spans: loupe.SpanOptions{Functions: names, Handle: handle}})
	if err != nil {
		t.Fatal(err)
	}
	for range s.Events() {
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return ended
}
