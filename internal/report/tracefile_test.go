package report

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/internal/tracefile"
	"github.com/loupe-go/loupe/sched"
	"github.com/loupe-go/loupe/trace"
)

// tinySummary is what is in one of the small traces of package trace.
func tinySummary(t *testing.T, opt tracefile.StatOptions) *tracefile.Summary {
	t.Helper()
	f, err := os.Open("../../trace/testdata/tiny/go1.26.11.trace.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	in, err := tracefile.Open(t.Context(), tracefile.Stdin, r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := tracefile.Stat(t.Context(), in, opt)
	if err != nil {
		t.Fatal(err)
	}
	s.Name = "tiny\x1b.trace"
	return s
}

func TestTraceSummary(t *testing.T) {
	for name, opt := range map[string]tracefile.StatOptions{
		"tracefile_stat":         {By: tracefile.ByStart, Order: tracefile.OrderRunning, Top: 3},
		"tracefile_stat_creator": {By: tracefile.ByCreator, Order: tracefile.OrderBlocked, Top: 2, System: true},
		"tracefile_stat_none":    {By: tracefile.ByNone, Order: tracefile.OrderLifetime, Top: 2},
	} {
		s := tinySummary(t, opt)
		var out bytes.Buffer
		if err := TraceSummary(&out, term.Style{}, 100, s); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", out.Bytes())
	}
	var out bytes.Buffer
	if err := TraceSummaryJSON(&out, tinySummary(t, tracefile.StatOptions{By: tracefile.ByStart, Order: tracefile.OrderCount, Top: 1})); err != nil {
		t.Fatal(err)
	}
	golden(t, "tracefile_stat.json", out.Bytes())
}

// TestTraceSummaryTellsDoubt prints what is rare: losses, what was too much to be told apart, damage.
func TestTraceSummaryTellsDoubt(t *testing.T) {
	m := sched.New(sched.Options{Kinds: event.KindsDefault.Union(event.KindsSyscall), MaxGoroutines: 1})
	m.ApplyBatch([]event.Event{
		{Time: 1, Kind: event.GoCreate, G: 1}, {Time: 2, Kind: event.GoCreate, G: 2}, {Time: 3, Kind: event.Lost, Value: 1234}, {Time: 9, Kind: event.GoStart, G: 1},
	})
	group := &tracefile.Group{By: tracefile.ByStart, Count: 2, Uncertain: sched.NanosOf(6000)}
	rest := &tracefile.Group{By: tracefile.ByStart, Count: 3}
	s := &tracefile.Summary{Name: "x", Totals: m.Totals(), Latency: m.Latency(), Runtime: m.Runtime(), Groups: []*tracefile.Group{group}, Rest: rest,
		Err: errors.New("damaged here"), Trace: trace.Stats{Version: 23}, Blockers: []sched.Place{{Other: true, Count: 1}, {Count: 1}}, Places: 5}
	var out bytes.Buffer
	if err := TraceSummary(&out, term.Style{}, 0, s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1,234 lost", "1 event not counted: too many goroutines to track", "(unknown function)  2 goroutines", "6µs in unknown states",
		"others  3 goroutines", "(other places)", "(stack not recorded)", "3 more places not listed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := TraceSummaryJSON(&out, s); err != nil || !strings.Contains(out.String(), `"error": "damaged here"`) {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestTraceProblems(t *testing.T) {
	r := &trace.Report{Version: 26, Generations: 2, Batches: 9, Events: 100, Bytes: 1000, Errors: 2, Warnings: 1, Counts: map[trace.Code]int{"truncated": 3},
		PerCode: 2, Omitted: 1, Problems: []trace.Problem{
			{Code: trace.CodeTruncated, Severity: trace.Error, Offset: 7, Generation: 2, Batch: 3, Thread: 4, Event: 0, Text: "the trace ends\x1b here"},
			{Code: trace.CodeNoEnd, Severity: trace.Warning, Offset: 9, Batch: -1, Thread: -1, Event: -1, Text: "no end"},
		}}
	var out bytes.Buffer
	if err := TraceProblems(&out, term.Style{}, "a\nb", r); err != nil {
		t.Fatal(err)
	}
	const want = `error    offset 7, generation 2, batch 3, M 4, event 0: the trace ends\x1b here [truncated]
warning  offset 9: no end [no-end]
not valid  a\x0ab: trace of Go1.26, 2 generations, 9 batches, 100 events: 2 errors, 1 warning, 1 of them not listed (2 of each code are)
--limit 0 lists all
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	var doc struct {
		Valid    bool
		Omitted  int
		Problems []map[string]any
	}
	if err := TraceProblemsJSON(&out, "a", r); err != nil || json.Unmarshal(out.Bytes(), &doc) != nil || doc.Valid || doc.Omitted != 1 || len(doc.Problems) != 2 {
		t.Fatalf("%v: %s", err, out.String())
	}
	if first, second := doc.Problems[0], doc.Problems[1]; first["event"] != 0.0 || first["thread"] != 4.0 || second["batch"] != nil || second["severity"] != "warning" {
		t.Errorf("%v", doc.Problems)
	}
}
