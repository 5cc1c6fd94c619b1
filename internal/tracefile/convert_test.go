package tracefile

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/trace"
)

// converted writes a file in some format, and returns the path of the result.
func converted(t *testing.T, path string, opt ConvertOptions, sel *Selection) (string, Converted) {
	t.Helper()
	var done Converted
	return made(t, func(out *Output) error {
		var err error
		done, err = Convert(t.Context(), out, open(t, path), opt, sel)
		return err
	}), done
}

// eventsOf returns the events of a file, and whether their times are of the day.
func eventsOf(t *testing.T, path string) (list []event.Event, wall bool) {
	t.Helper()
	ev, err := open(t, path).Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := ev.Each(func(e *event.Event) error {
		list = append(list, *e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list, ev.Wall()
}

// TestConvertToGo writes traces anew, those of old formats in a new one: they are valid, and say the same.
func TestConvertToGo(t *testing.T) {
	for _, r := range releases(t) {
		path := record(t, r)
		again, done := converted(t, path, as(export.Go), &Selection{})
		report, err := Validate(t.Context(), open(t, again), trace.ValidateOptions{})
		if err != nil || !report.Valid() {
			t.Errorf("%v: %v, %v", r, report, err)
		}
		before, wall := eventsOf(t, path)
		after, _ := eventsOf(t, again)
		if int(done.Written) != len(before) || done.Read != done.Written || done.Wall != wall || done.First != before[0].Time {
			t.Errorf("%v: %+v, the trace has %d events", r, done, len(before))
		}
		kinds := event.KindsGoroutine.Union(event.KindsSyscall)
		if r.minor < 22 {
			// Such traces do not tell the threads, and the Writer has to guess which system calls lost their P.
			kinds = event.KindsOf(event.GoStatus, event.GoCreate, event.GoBlock, event.GoUnblock, event.GoDestroy)
		}
		compareLives(t, r, before, after, kinds)
		text, _ := converted(t, path, as(export.Text), &Selection{})
		wire := copied(t, text, false, ToWire)
		if r.minor < 22 { // read once more, in which events of one time have another order
			if report, err := Validate(t.Context(), open(t, wire), trace.ValidateOptions{}); err != nil || !report.Valid() {
				t.Errorf("%v as text: %v, %v", r, report, err)
			}
			continue
		}
		if !bytes.Equal(contentOf(t, wire), contentOf(t, copied(t, copied(t, again, false, ToText), false, ToWire))) {
			t.Errorf("%v: as text it is another trace", r)
		}
	}
}

// compareLives compares what happens to each goroutine, one event of some kinds after the other. Times may differ by what the order of
// events asks for.
func compareLives(t *testing.T, r fmt.Stringer, before, after []event.Event, kinds event.Kinds) {
	t.Helper()
	lives := func(list []event.Event) map[uint64][]event.Event {
		m := map[uint64][]event.Event{}
		for _, e := range list {
			if e.G != 0 && kinds.Has(e.Kind) {
				m[e.G] = append(m[e.G], e)
			}
		}
		return m
	}
	first, second := lives(before), lives(after)
	if len(first) != len(second) {
		t.Errorf("%v: %d goroutines, want %d", r, len(second), len(first))
	}
	for g, was := range first {
		is := second[g]
		if len(is) != len(was) {
			t.Errorf("%v: goroutine %d has %d events, want %d", r, g, len(is), len(was))
			continue
		}
		for i := range was {
			off := is[i].Time - was[i].Time
			if is[i].Kind == event.GoStatus {
				off = 0 // it is told when the goroutine does something
			}
			// In a new format more follows from the tracer's reason; for coroutines it has none.
			reason := is[i].TraceReason == was[i].TraceReason || is[i].Reason == was[i].Reason
			if is[i].Kind != was[i].Kind || !reason || max(off, -off) > int64(20*time.Microsecond) {
				t.Errorf("%v: goroutine %d, event %d: %v %q, %v off; want %v %q", r, g, i, is[i].Kind, is[i].TraceReason, time.Duration(off), was[i].Kind, was[i].TraceReason)
				break
			}
		}
	}
}

func TestConvertToCSV(t *testing.T) {
	for _, r := range releases(t) {
		path := record(t, r)
		table, _ := converted(t, path, as(export.CSV), &Selection{})
		rows, err := csv.NewReader(bytes.NewReader(contentOf(t, table))).ReadAll()
		if err != nil {
			t.Fatalf("%v: %v", r, err)
		}
		events, wall := eventsOf(t, path)
		if len(rows) != len(events)+1 || strings.Join(rows[0][:12], ",") != "time,kind,g,parent,by,reason,thread,p,function,file,line,value" {
			t.Fatalf("%v: %d rows for %d events, %v", r, len(rows), len(events), rows[0])
		}
		begin := events[0].Time
		if wall {
			begin = 0
		}
		want := make([][]string, len(events))
		for i := range events {
			want[i] = rowOf(&events[i], begin)
		}
		got := rows[1:]
		if r.minor < 22 {
			for _, row := range slices.Concat(got, want) {
				if row[1] == event.GoStatus.String() {
					row[0] = "" // the order of the first events moves them by nanoseconds
				}
			}
		}
		slices.SortStableFunc(got, compareRows)
		slices.SortStableFunc(want, compareRows)
		for i := range want {
			if !slices.Equal(got[i], want[i]) {
				t.Fatalf("%v: row %d is %q, want %q", r, i, got[i], want[i])
			}
		}
	}
}

// compareRows compares times and IDs: the toolchain's reader has those first events of old traces that are at the same time
// in another order each time.
func compareRows(a, b []string) int {
	return cmp.Or(cmp.Compare(len(a[0]), len(b[0])), cmp.Compare(a[0], b[0]), cmp.Compare(a[2], b[2]))
}

// rowOf returns the fields of an event.
func rowOf(e *event.Event, begin int64) []string {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	p, start := "", ""
	if id, ok := e.P.ID(); ok {
		p = strconv.Itoa(int(id))
	}
	var f event.Frame
	if e.Stack != nil {
		f = e.Stack.Frames[0]
	}
	if e.Origin != nil {
		start = e.Origin.Start.Func
	}
	row := []string{strconv.FormatInt(e.Time-begin, 10), e.Kind.String(), number(int64(e.G)), number(int64(e.Parent)), number(int64(e.By)),
		e.Reason, number(int64(e.TID)), p, f.Func, f.File, number(int64(f.Line)), number(e.Value), string(e.State), start, e.Text}
	for i := range row {
		row[i] = term.Escape(row[i])
	}
	return row
}

// profileOf converts a file to a profile, and reads it.
func profileOf(t *testing.T, path, kind string, reasons ...string) (*profile.Profile, Converted) {
	t.Helper()
	file, done := converted(t, path, as(export.Pprof, export.Options{Profile: kind, Reasons: reasons}), &Selection{})
	p, err := profile.ParseData(contentOf(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return p, done
}

func total(p *profile.Profile, value int) (sum int64) {
	for _, s := range p.Sample {
		sum += s.Value[value]
	}
	return sum
}

// TestConvertToProfiles compares profiles with counts of events.
func TestConvertToProfiles(t *testing.T) {
	for _, r := range releases(t) {
		path := record(t, r)
		s, err := Stat(t.Context(), open(t, path), StatOptions{By: ByStart})
		if err != nil {
			t.Fatal(err)
		}
		events, _ := eventsOf(t, path)
		kinds := s.Totals.Kinds
		if p, _ := profileOf(t, path, "create"); total(p, 0) != int64(kinds[event.GoCreate]) {
			t.Errorf("%v: %d creations, want %d", r, total(p, 0), kinds[event.GoCreate])
		}
		if p, _ := profileOf(t, path, "cpu"); total(p, 0) != int64(kinds[event.CPUSample]) || len(p.Sample) == 0 || p.DurationNanos == 0 {
			t.Errorf("%v: %d samples, want %d", r, total(p, 0), kinds[event.CPUSample])
		}
		latency := s.Latency.All()
		if p, _ := profileOf(t, path, "sched"); total(p, 0) != int64(latency.Count()) || total(p, 1) != int64(latency.Sum().Duration()) {
			t.Errorf("%v: %d starts after %d ns, want %d after %v", r, total(p, 0), total(p, 1), latency.Count(), latency.Sum().Duration())
		}
		p, done := profileOf(t, path, "goroutine")
		if alive := int64(sumOf(s).count - sumOf(s).ended); total(p, 0) != alive || len(done.Notes) != 1 {
			t.Errorf("%v: %d goroutines, want %d; %q", r, total(p, 0), alive, done.Notes)
		}
		if p, _ := profileOf(t, path, "block", "sleep"); total(p, 1) != waited(events, "sleep") || total(p, 1) < 1e9 {
			t.Errorf("%v: slept for %d ns, want %d", r, total(p, 1), waited(events, "sleep"))
		}
		block, _ := profileOf(t, path, "block")
		if total(block, 1) < 40*int64(time.Millisecond) || block.DefaultSampleType != "delay" {
			t.Errorf("%v: blocked for %d ns", r, total(block, 1))
		}
		mutex, _ := profileOf(t, path, "mutex")
		if len(mutex.Sample) == 0 || !strings.Contains(mutex.String(), "Unlock") {
			t.Errorf("%v: nobody unlocked a mutex", r)
		}
	}
}

// waited returns how long the waits for a reason took that were seen from begin to end.
func waited(events []event.Event, reason string) (sum int64) {
	since := map[uint64]int64{}
	for _, e := range events {
		switch e.Kind {
		case event.GoBlock:
			delete(since, e.G)
			if e.Reason == reason {
				since[e.G] = e.Time
			}
		case event.GoUnblock:
			if t, ok := since[e.G]; ok {
				sum += e.Time - t
				delete(since, e.G)
			}
		}
	}
	return sum
}

// TestConvertToTimelines looks for slices that were cut: no event of a whole trace is missing. What the formats draw is
// tested with their packages.
func TestConvertToTimelines(t *testing.T) {
	for _, r := range releases(t) {
		path := record(t, r)
		file, _ := converted(t, path, as(export.Chrome, export.Options{Process: "recorder", Threads: true}), &Selection{})
		doc := contentOf(t, file)
		var parsed struct {
			TraceEvents []struct{ Ph string }
		}
		if err := json.Unmarshal(doc, &parsed); err != nil || len(parsed.TraceEvents) < 1000 {
			t.Errorf("%v: %d events, %v", r, len(parsed.TraceEvents), err)
		}
		if !bytes.Contains(doc, []byte(`"name":"recorder"`)) {
			t.Errorf("%v: the name is missing", r)
		}
		if at := bytes.Index(doc, []byte("its end was not seen")); at >= 0 {
			t.Errorf("%v: a slice is cut: %s", r, doc[max(0, at-1500):min(len(doc), at+500)])
		}
		whole, _ := converted(t, path, as(export.Perfetto), &Selection{})
		if len(contentOf(t, whole)) < 10_000 {
			t.Errorf("%v: %d bytes for Perfetto", r, len(contentOf(t, whole)))
		}
	}
}

// TestConvertEmpty converts a trace without events.
func TestConvertEmpty(t *testing.T) {
	empty := made(t, func(out *Output) error {
		w, err := trace.NewWriter(out, trace.WriterOptions{})
		if err != nil {
			return err
		}
		return w.Close()
	})
	for _, opt := range formats {
		if _, done := converted(t, empty, opt, &Selection{}); done.Written != 0 {
			t.Errorf("%s: %+v", opt.Format.Name, done)
		}
	}
	if s, err := Stat(t.Context(), open(t, empty), StatOptions{By: ByStart}); err != nil || len(s.Groups) != 0 || s.Length() != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
