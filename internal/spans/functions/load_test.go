package functions_test

import (
	"fmt"
	"net/http"
	"os"
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
